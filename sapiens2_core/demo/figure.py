"""One mannequin: shape, pose, outfit and face become solids and 308 keypoints."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..keypoints import FLIP_INDICES, KEYPOINT_NAMES
from .body import SIDED_LABELS, add_body
from .builder import Builder
from .chance import normal_within
from .face import Face
from .head import add_hair, add_head, face_keypoints, random_face
from .outfit import Outfit, random_outfit
from .poses import random_pose
from .primitives import Floats, Primitives
from .skeleton import FINGER_LENGTHS, FINGERS, SIDES, Pose, Shape, joint_frames

_INDEX = {name: index for index, name in enumerate(KEYPOINT_NAMES)}

#: Left and right keypoints of the body: name without its side → bone, place in the bone's space at 1.75 m with x
#: towards the person's side, and how deep below the skin it lies at most.
_BODY = {
    "shoulder": ("arm", (0.0, 0.0, 0.0), 0.10),
    "elbow": ("forearm", (0.0, 0.0, 0.0), 0.075),
    "wrist": ("hand", (0.0, 0.0, 0.0), 0.065),
    "hip": ("thigh", (0.0, 0.0, 0.0), 0.17),
    "knee": ("shin", (0.0, 0.0, 0.0), 0.10),
    "ankle": ("foot", (0.0, 0.0, 0.0), 0.09),
    "big_toe": ("foot", (-0.022, -0.060, 0.165), 0.08),
    "small_toe": ("foot", (0.034, -0.064, 0.135), 0.08),
    "heel": ("foot", (0.0, -0.060, -0.058), 0.09),
    "olecranon": ("arm", (0.0, -0.285, -0.036), 0.03),
    "cubital_fossa": ("arm", (0.0, -0.280, 0.034), 0.03),
    "acromion": ("chest", (0.170, 0.262, -0.010), 0.05),
}
_FINGER_DEPTH, _FACE_DEPTH = 0.018, 0.005


@dataclass(frozen=True)
class Figure:
    """A mannequin without its solids, which stand together in :class:`~.scene.Scene`.

    Attributes:
        keypoints: (308, 3) metres.
        depths: (308,) metres: how far behind the surface that shows a keypoint may lie; joints lie inside.
        face: what is painted on the head.
        head_scale: size of the head, 1 is natural; the face is painted in natural size.
    """

    keypoints: Floats
    depths: Floats
    face: Face
    head_scale: float

    def moved(self, rotation: Floats, offset: Floats, scale: float = 1.0) -> Figure:
        """Every point p becomes ``scale`` · ``rotation`` @ p + ``offset``."""
        return replace(self, keypoints=scale * self.keypoints @ rotation.T + offset, depths=scale * self.depths)

    def with_sides_swapped(self) -> Figure:
        """What was left is right: for a figure that has been mirrored."""
        order = list(FLIP_INDICES)
        return replace(self, keypoints=self.keypoints[order], depths=self.depths[order])


def _body_keypoints(
    rotations: dict[str, Floats], origins: dict[str, Floats], unit: float, keypoints: Floats, depths: Floats
) -> None:
    def put(index: int, bone: str, place: Floats, depth: float) -> None:
        keypoints[index] = origins[bone] + rotations[bone] @ place
        depths[index] = depth * unit

    put(_INDEX["neck"], "neck", np.array([0, 0.0, 0.0]), 0.10)
    for side, s in SIDES:
        word = "left" if s > 0 else "right"
        for name, (bone, place, depth) in _BODY.items():
            where = bone if bone == "chest" else f"{side}_{bone}"
            put(_INDEX[f"{word}_{name}"], where, np.array(place) * (s, 1, 1) * unit, depth)
        for finger in FINGERS:
            names = ("_third_joint", "2", "3")
            for joint, name in enumerate(names):
                put(_INDEX[f"{word}_{finger}{name}"], f"{side}_{finger}{joint + 1}", np.zeros(3), _FINGER_DEPTH)
            tip = np.array([0, -FINGER_LENGTHS[finger][2] * unit, 0])
            put(_INDEX[f"{word}_{finger}4"], f"{side}_{finger}3", tip, _FINGER_DEPTH)


def build_figure(shape: Shape, pose: Pose, outfit: Outfit, face: Face, person: int) -> tuple[Figure, Primitives]:
    """A mannequin on the ground, or as far above it as its pose says.

    Args:
        shape: proportions.
        pose: joint angles.
        outfit: clothes, hair and colours.
        face: features and expression.
        person: number that its solids carry.

    Returns:
        The figure and its solids, in the body's space: x to the person's left, y up, z forward, the ground at y = 0.
    """
    rotations, origins = joint_frames(shape, pose)
    builder = Builder(rotations, origins)
    scale = shape.unit * shape.head
    head = add_head(builder, outfit, scale)
    add_hair(builder, outfit, scale)
    add_body(builder, shape, outfit)
    solids = builder.build(person)

    keypoints, depths = np.zeros((308, 3)), np.full(308, _FACE_DEPTH * scale)
    _body_keypoints(rotations, origins, shape.unit, keypoints, depths)
    turn, origin = rotations["head"], origins["head"]
    places, index = face_keypoints(solids.select(head).moved(turn.T, -turn.T @ origin), face, scale)
    keypoints[index] = places @ turn.T + origin

    centers, spreads = solids.ends()
    lowest = (centers[..., 1] - np.sqrt(spreads[..., 1, 1])).min()
    lift = np.array([0, pose.height_above_ground - lowest, 0])
    figure = Figure(keypoints, depths, face, scale)
    return figure.moved(np.eye(3), lift), solids.moved(np.eye(3), lift)


def random_figure(
    random: np.random.Generator, person: int, allow_sitting: bool = True
) -> tuple[Figure, Primitives, Pose]:
    """A mannequin drawn at random, as in :func:`build_figure`."""
    stature = normal_within(random, 1.70, 0.07, 1.5, 1.95)
    head = 1.0
    if random.random() < 0.05:  # a child: shorter, with a larger head
        stature = float(random.uniform(1.05, 1.4))
        head = 1.75 / stature * random.uniform(0.86, 0.93)
    shape = Shape(
        stature=stature,
        build=normal_within(random, 1.0, 0.11, 0.8, 1.35),
        shoulders=normal_within(random, 1.0, 0.06, 0.86, 1.15),
        hips=normal_within(random, 1.0, 0.07, 0.85, 1.2),
        bust=float(random.uniform(0, 1)),
        muscles=float(random.uniform(0, 1)),
        head=float(head * random.normal(1.0, 0.025)),
    )
    pose = random_pose(random, allow_sitting)
    legs_hang = all(leg.raise_forward < 45 and leg.raise_aside < 26 for leg in pose.legs.values())
    outfit = random_outfit(random, legs_hang)
    figure, solids = build_figure(shape, pose, outfit, random_face(random, outfit), person)
    return figure, solids, pose


def swap_sided_labels(labels: np.ndarray) -> np.ndarray:
    """Ids of body parts with left and right exchanged."""
    table = np.arange(29)
    for left, right in zip(SIDED_LABELS["l"], SIDED_LABELS["r"], strict=True):
        table[[left, right]] = right, left
    return table[labels]
