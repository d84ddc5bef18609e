"""Bones of a mannequin: proportions, joint angles, and where both put every joint.

The body's space is the person's own: metres, x to the person's left, y up, z forward; the origin lies on the ground
below the pelvis of a person who stands upright. At rest arms and legs hang down, palms face the thighs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .builder import rotation
from .primitives import Floats

#: The person's left and right: letters in names of bones, and the sign of x.
SIDES: tuple[tuple[str, int], ...] = (("l", 1), ("r", -1))

FINGERS = ("thumb", "forefinger", "middle_finger", "ring_finger", "pinky_finger")

#: Metres at a stature of 1.75 m: lengths of the three bones of each finger, from the palm outwards.
FINGER_LENGTHS = {
    "thumb": (0.044, 0.034, 0.028),
    "forefinger": (0.044, 0.026, 0.022),
    "middle_finger": (0.049, 0.030, 0.023),
    "ring_finger": (0.044, 0.028, 0.022),
    "pinky_finger": (0.034, 0.021, 0.019),
}
#: Where fingers begin in the hand's space: (thickness, −length, width towards the thumb).
FINGER_ROOTS = {
    "thumb": (-0.008, -0.022, 0.026),
    "forefinger": (0.0, -0.094, 0.031),
    "middle_finger": (0.0, -0.098, 0.010),
    "ring_finger": (0.0, -0.094, -0.011),
    "pinky_finger": (0.0, -0.085, -0.030),
}
#: Degrees that fingers are spread towards the thumb's side of the hand.
FINGER_SPREADS = {"thumb": 38, "forefinger": 6, "middle_finger": 1, "ring_finger": -4, "pinky_finger": -10}


@dataclass(frozen=True)
class Shape:
    """Proportions.

    Attributes:
        stature: metres.
        build: 1 is average; thickness of limbs and trunk relative to that.
        shoulders: 1 is average; width.
        hips: 1 is average; width.
        bust: 0 flat .. 1.
        muscles: 0..1.
        head: 1 is an adult's; size relative to the stature.
    """

    stature: float = 1.75
    build: float = 1.0
    shoulders: float = 1.0
    hips: float = 1.0
    bust: float = 0.3
    muscles: float = 0.5
    head: float = 1.0

    @property
    def unit(self) -> float:
        """Metres per metre of a person of 1.75 m."""
        return self.stature / 1.75


@dataclass(frozen=True)
class Arm:
    """Degrees. ``raise_forward`` and ``raise_aside`` move the elbow, ``twist`` turns the arm outwards."""

    raise_forward: float = 0.0
    raise_aside: float = 10.0
    twist: float = -15.0
    elbow: float = 15.0
    pronation: float = 0.0
    wrist: float = 0.0
    curl: tuple[float, float, float, float, float] = (15.0, 20.0, 20.0, 22.0, 25.0)
    spread: float = 1.0


@dataclass(frozen=True)
class Leg:
    """Degrees. ``twist`` turns the foot outwards, ``ankle`` lifts the toes."""

    raise_forward: float = 0.0
    raise_aside: float = 4.0
    twist: float = 8.0
    knee: float = 3.0
    ankle: float = 0.0


@dataclass(frozen=True)
class Pose:
    """Joint angles, degrees: forward, to the person's left and turned left are positive, trunk and head."""

    spine: tuple[float, float, float] = (0.0, 0.0, 0.0)
    head: tuple[float, float, float] = (0.0, 0.0, 0.0)
    arms: dict[str, Arm] = field(default_factory=lambda: {"l": Arm(), "r": Arm()})
    legs: dict[str, Leg] = field(default_factory=lambda: {"l": Leg(), "r": Leg()})
    lean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    height_above_ground: float = 0.0


class _Frames:
    """Walks from bone to bone."""

    def __init__(self) -> None:
        self.rotations: dict[str, Floats] = {}
        self.origins: dict[str, Floats] = {}

    def add(self, bone: str, parent: str | None, offset: tuple[float, float, float] | Floats, turn: Floats) -> None:
        if parent is None:
            self.rotations[bone], self.origins[bone] = turn, np.asarray(offset, float)
        else:
            self.rotations[bone] = self.rotations[parent] @ turn
            self.origins[bone] = self.origins[parent] + self.rotations[parent] @ np.asarray(offset, float)


def joint_frames(shape: Shape, pose: Pose) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Where a pose puts the bones.

    Bones: pelvis, belly, chest, neck, head; with ``l_`` or ``r_`` before them arm, forearm, hand, thigh, shin, foot,
    toes, and for each finger its name with 1, 2, 3.

    Returns:
        rotations: bone → (3, 3), from the bone's space to the body's.
        origins: bone → (3,) metres, its joint in the body's space.
    """
    u = shape.unit
    frames = _Frames()
    frames.add("pelvis", None, (0, 0.93 * u, 0), rotation(pose.lean[0], pose.lean[2], -pose.lean[1]))
    bend, side, turn = pose.spine
    half = rotation(bend / 2, turn / 2, -side / 2)
    frames.add("belly", "pelvis", (0, 0.09 * u, 0), half)
    frames.add("chest", "belly", (0, 0.17 * u, 0), half)
    nod, tilt, look = pose.head
    half = rotation(nod / 2, look / 2, -tilt / 2)
    frames.add("neck", "chest", (0, 0.275 * u, -0.01 * u), rotation(8 + nod / 2, look / 2, -tilt / 2))
    frames.add("head", "neck", (0, 0.095 * u, 0.012 * u), rotation(-8) @ half)

    for name, s in SIDES:
        arm, leg = pose.arms[name], pose.legs[name]
        shrug = max(arm.raise_aside - 60, 0) * 0.0006
        frames.add(
            f"{name}_arm",
            "chest",
            (s * (0.172 * shape.shoulders - shrug * 0.3) * u, (0.225 + shrug) * u, -0.008 * u),
            rotation(-arm.raise_forward) @ rotation(z=s * arm.raise_aside) @ rotation(y=s * arm.twist),
        )
        frames.add(f"{name}_forearm", f"{name}_arm", (0, -0.285 * u, 0), rotation(-arm.elbow, s * arm.pronation / 2))
        frames.add(
            f"{name}_hand", f"{name}_forearm", (0, -0.25 * u, 0), rotation(y=s * arm.pronation / 2, z=-s * arm.wrist)
        )
        for finger, curl in zip(FINGERS, arm.curl, strict=True):
            thickness, length, width = FINGER_ROOTS[finger]
            spread = FINGER_SPREADS[finger] * arm.spread
            if finger == "thumb":  # lies across: it closes towards the other fingers
                turns = [
                    rotation(-spread) @ rotation(y=-s * 50) @ rotation(z=-s * (5 + 0.3 * curl)),
                    rotation(z=-s * (4 + 0.45 * curl)),
                    rotation(z=-s * (6 + 0.6 * curl)),
                ]
            else:
                turns = [
                    rotation(-spread) @ rotation(z=-s * curl),
                    rotation(z=-s * (3 + curl * 1.05)),
                    rotation(z=-s * (2 + curl * 0.7)),
                ]
            parent, offset = f"{name}_hand", (s * thickness * u, length * u, width * u)
            for joint, bone_length in enumerate(FINGER_LENGTHS[finger]):
                bone = f"{name}_{finger}{joint + 1}"
                frames.add(bone, parent, offset, turns[joint])
                parent, offset = bone, (0, -bone_length * u, 0)

        frames.add(
            f"{name}_thigh",
            "pelvis",
            (s * 0.092 * shape.hips * u, -0.02 * u, 0),
            rotation(-leg.raise_forward) @ rotation(z=s * leg.raise_aside) @ rotation(y=s * leg.twist),
        )
        frames.add(f"{name}_shin", f"{name}_thigh", (0, -0.425 * u, 0), rotation(leg.knee))
        frames.add(f"{name}_foot", f"{name}_shin", (0, -0.41 * u, 0), rotation(-leg.ankle))
        frames.add(f"{name}_toes", f"{name}_foot", (0, -0.055 * u, 0.125 * u), np.eye(3))
    return frames.rotations, frames.origins
