"""OpenPose people (POSE_KEYPOINT, and the JSON of OpenPose and DWPose) as arrays, and as Sapiens2's 308 keypoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .keypoints import FLIP_INDICES, KEYPOINT_NAMES
from .openpose import BODY_18, FOOT_6, HAND_LEFT_21, HAND_RIGHT_21, NUM_JAW, frame_to_openpose
from .results import FramePose, PersonPose, Pose

Floats = NDArray[np.float64]

#: Key and number of points of each part of a person.
PARTS = {
    "pose_keypoints_2d": 18,
    "foot_keypoints_2d": 6,
    "face_keypoints_2d": 70,
    "hand_left_keypoints_2d": 21,
    "hand_right_keypoints_2d": 21,
}
_FACE_68 = 68  # some writers leave the pupils out

#: OpenPose's 25-point body, which its own program writes, holds the 18 without the middle of the hips, then the feet.
_BODY_25 = [*range(8), *range(9, 19)]
_FEET_OF_25 = [*range(19, 25)]

#: Coordinates of a clip that all lie within this are shares of the frame: DWPose's may lie a little outside of 0..1,
#: and no person in pixels is that small.
_LARGEST_SHARE = 2.0


@dataclass(frozen=True)
class OpenPosePerson:
    """One person as OpenPose has it: arrays of x, y in pixels and confidence; an absent point is 0, 0, 0.

    Attributes:
        body: (18, 3).
        feet: (6, 3), left big toe, small toe and heel, then the right ones.
        face: (70, 3), dlib's 68, right pupil, left pupil.
        hand_left: (21, 3).
        hand_right: (21, 3).
    """

    body: Floats
    feet: Floats
    face: Floats
    hand_left: Floats
    hand_right: Floats

    def scaled(self, x: float, y: float, offset: float = 0.0) -> OpenPosePerson:
        """The same person with its points (not the absent ones) at (point + offset) · factor - offset."""

        def scale(part: Floats) -> Floats:
            moved = part.copy()
            moved[:, :2] = (part[:, :2] + offset) * (x, y) - offset
            return np.where(part.any(axis=1, keepdims=True), moved, 0.0)

        return OpenPosePerson(*(scale(part) for part in self.parts))

    @property
    def parts(self) -> tuple[Floats, ...]:
        """Body, feet, face, left hand, right hand."""
        return self.body, self.feet, self.face, self.hand_left, self.hand_right


@dataclass(frozen=True)
class OpenPoseFrame:
    """The people of one frame, ``height`` × ``width`` pixels."""

    people: tuple[OpenPosePerson, ...]
    height: int
    width: int

    def resized(self, height: int, width: int) -> OpenPoseFrame:
        """The same people in a frame of another size, as :func:`~sapiens2_core.pose_parts.resize_frame`."""
        if (self.height, self.width) == (height, width):
            return self
        factors = width / self.width, height / self.height
        return OpenPoseFrame(tuple(person.scaled(*factors, offset=0.5) for person in self.people), height, width)


def _rows(person: Mapping[str, Any], key: str) -> Floats | None:
    """A part's flat list as (n, 3), None when the writer left it out."""
    values = person.get(key)
    if values is None or len(values) == 0:
        return None
    if len(values) % 3:
        raise ValueError(
            f"{key} of a person holds {len(values)} numbers, but OpenPose writes three to a point: x, y, confidence."
        )
    rows = np.array([0.0 if value is None else value for value in values], dtype=np.float64).reshape(-1, 3)
    rows[~np.isfinite(rows).all(axis=1)] = 0
    # Absent points come as zeros or as −1, −1; an absent confidence is 0.
    rows[(rows[:, :2] < 0).all(axis=1) & (rows[:, 2] <= 0)] = 0
    return rows


def _person(person: Mapping[str, Any]) -> OpenPosePerson:
    parts = {key: _rows(person, key) for key in PARTS}
    body = parts["pose_keypoints_2d"]
    if body is not None and len(body) == 25:
        if parts["foot_keypoints_2d"] is None:
            parts["foot_keypoints_2d"] = body[_FEET_OF_25]
        parts["pose_keypoints_2d"] = body[_BODY_25]
    face = parts["face_keypoints_2d"]
    if face is not None and len(face) == _FACE_68:
        parts["face_keypoints_2d"] = np.concatenate([face, np.zeros((2, 3))])
    for key, rows in parts.items():
        if rows is not None and len(rows) != PARTS[key]:
            raise ValueError(f"{key} of a person holds {len(rows)} points, but OpenPose has {PARTS[key]} there.")
    return OpenPosePerson(*(np.zeros((PARTS[key], 3)) if rows is None else rows for key, rows in parts.items()))


def _largest(people: Sequence[OpenPosePerson]) -> float:
    """Largest coordinate of the points that are there."""
    rows = np.concatenate([part for person in people for part in person.parts] or [np.zeros((0, 3))])
    return float(np.abs(rows[:, :2]).max(initial=0.0))


def read_openpose(frames: Any, height: int = 0, width: int = 0) -> list[OpenPoseFrame]:
    """Reads people in OpenPose's form, from whoever wrote them.

    Pixels, and shares of the frame (0..1) as some packs write; None or nothing for hands, face or feet; 18 or
    25 body points; 70 or 68 face points; confidences that are scores, or 0 and 1.

    Args:
        frames: POSE_KEYPOINT, a list of dicts with ``people`` and usually ``canvas_height`` and ``canvas_width``; or
            one such dict.
        height: of the frames in pixels, where they don't say it themselves.
        width: likewise.

    Raises:
        ValueError: something else; or a frame doesn't say its size and no size is given.
    """
    frames = [frames] if isinstance(frames, Mapping) else frames
    if not isinstance(frames, Sequence) or isinstance(frames, str):
        raise ValueError(f"Poses can't be read from a {type(frames).__name__}: a list of frames with people is needed.")
    found = []
    for index, frame in enumerate(frames):
        if not isinstance(frame, Mapping) or not ("people" in frame or "animals" in frame):
            raise ValueError(f'Frame {index} of the poses has no "people": this is not OpenPose\'s form.')
        canvas = int(frame.get("canvas_height") or height), int(frame.get("canvas_width") or width)
        if min(canvas) < 1:
            raise ValueError(
                f"Frame {index} of the poses doesn't say how large the picture is (canvas_width, canvas_height). "
                "Set width and height to the size of the video in pixels."
            )
        # DWPose's animal detector writes frames without "people".
        found.append(OpenPoseFrame(tuple(_person(person) for person in frame.get("people") or []), *canvas))
    if 0 < _largest([person for frame in found for person in frame.people]) <= _LARGEST_SHARE:
        found = [
            OpenPoseFrame(
                tuple(person.scaled(frame.width, frame.height) for person in frame.people), frame.height, frame.width
            )
            for frame in found
        ]
    return found


def write_openpose(frames: Sequence[OpenPoseFrame]) -> list[dict[str, Any]]:
    """People in ComfyUI's POSE_KEYPOINT form, in pixels and with every part."""
    return [
        {
            "people": [
                {key: part.reshape(-1).tolist() for key, part in zip(PARTS, person.parts, strict=True)}
                for person in frame.people
            ],
            "canvas_width": frame.width,
            "canvas_height": frame.height,
        }
        for frame in frames
    ]


def openpose_people(frame: FramePose, threshold: float) -> OpenPoseFrame:
    """Sapiens2's people as OpenPose's, for drawing: the fitted jaw is as sure as the least sure visible face point.

    :func:`~sapiens2_core.openpose.to_openpose` is for other readers, who get the jaw without confidence.

    Args:
        frame: the people.
        threshold: a keypoint is there when its score is above this; 0 or more.
    """
    (converted,) = read_openpose(frame_to_openpose(frame, threshold, real_confidence=True))
    for person in converted.people:
        seen = person.face[person.face[:, 2] > 0, 2]
        person.face[:NUM_JAW, 2] = seen.min(initial=1.0) if len(seen) else 0
    return converted


# dlib's points of the middle of the face that are keypoints of Sapiens2 as they are.
_FACE_POINTS = {
    17: 80, 18: 83, 19: 81, 20: 84, 21: 78, 22: 87, 26: 89,
    27: 71, 30: 178, 31: 180, 32: 184, 33: 179, 34: 187, 35: 181,
    36: 121, 39: 120, 42: 96, 45: 97, 48: 188, 51: 190, 54: 189, 57: 191, 60: 204, 62: 206, 64: 205, 66: 207,
    68: 299, 69: 290,
    23: FLIP_INDICES[84], 24: FLIP_INDICES[81], 25: FLIP_INDICES[83],
}  # fmt: skip

#: Lines through dlib's points along which Sapiens2 has more, or other, points: at even steps between the ends.
_UPPER_LASHES, _LOWER_LASHES = (125, 123, 126, 122, 127, 124, 128), (166, 164, 167, 163, 168, 165, 169)
_FACE_LINES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((27, 28, 29, 30), (74, 73, 75)),
    ((36, 37, 38, 39), _UPPER_LASHES),
    ((36, 41, 40, 39), _LOWER_LASHES),
    ((45, 44, 43, 42), tuple(FLIP_INDICES[index] for index in _UPPER_LASHES)),
    ((45, 46, 47, 42), tuple(FLIP_INDICES[index] for index in _LOWER_LASHES)),
    ((48, 49, 50, 51), (196, 192, 197)),
    ((54, 53, 52, 51), tuple(FLIP_INDICES[index] for index in (196, 192, 197))),
    ((48, 59, 58, 57), (200, 194, 201)),
    ((54, 55, 56, 57), tuple(FLIP_INDICES[index] for index in (200, 194, 201))),
    ((60, 61, 62), (212, 208, 213)),
    ((64, 63, 62), tuple(FLIP_INDICES[index] for index in (212, 208, 213))),
    ((60, 67, 66), (216, 210, 217)),
    ((64, 65, 66), tuple(FLIP_INDICES[index] for index in (216, 210, 217))),
)

#: What of the jaw line has a keypoint near by: its ends the tragi, its middle the tip of the chin.
_JAW_POINTS = {0: 264, 8: 77, 16: 238}


def _set_face(keypoints: Floats, face: Floats) -> None:
    """Writes the face's points into (308, 3) keypoints."""
    for dlib, index in _FACE_POINTS.items():
        keypoints[index] = face[dlib]
    for line, indices in _FACE_LINES:
        rows = face[list(line)]
        if (rows[:, 2] > 0).all():
            reached = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(rows[:, :2], axis=0), axis=1))])
            steps = np.linspace(0, reached[-1], len(indices) + 2)[1:-1]
            xy = np.stack([np.interp(steps, reached, rows[:, axis]) for axis in (0, 1)], axis=1)
            keypoints[list(indices)] = np.concatenate([xy, np.full((len(indices), 1), rows[:, 2].min())], axis=1)
    seen = face[NUM_JAW:, 2][face[NUM_JAW:, 2] > 0]
    for dlib, index in _JAW_POINTS.items():
        x, y, score = face[dlib]
        if len(seen) and (x, y) != (0, 0):
            # A jaw without confidence beside a face that has some was fitted to that face.
            keypoints[index] = x, y, score or seen.max()


def _to_person(person: OpenPosePerson) -> PersonPose:
    rows = np.zeros((len(KEYPOINT_NAMES), 3))
    _set_face(rows, person.face)
    for part, indices in ((person.hand_left, HAND_LEFT_21), (person.hand_right, HAND_RIGHT_21),
                          (person.feet, FOOT_6), (person.body, BODY_18)):  # fmt: skip
        for row, index in zip(part, indices, strict=True):
            if row[2] > 0 or not rows[index, 2]:  # the wrists are part of body and hand
                rows[index] = row
    seen = rows[rows[:, 2] > 0, :2]
    low, high = (seen.min(axis=0), seen.max(axis=0)) if len(seen) else (np.zeros(2), np.zeros(2))
    box = (*low.tolist(), *(high - low).tolist())
    points = torch.tensor(rows, dtype=torch.float32)
    return PersonPose(points[:, :2].contiguous(), points[:, 2].contiguous(), box)


def from_openpose(frames: Sequence[OpenPoseFrame]) -> Pose:
    """OpenPose people as Sapiens2's.

    Each of the 308 keypoints that OpenPose has gets its place and confidence, points along brows, lash lines, nose and
    lips lie evenly on OpenPose's lines, and all others have score 0. A person's box is that of its keypoints.
    """
    return Pose(
        tuple(
            FramePose(tuple(_to_person(person) for person in frame.people), frame.height, frame.width)
            for frame in frames
        )
    )
