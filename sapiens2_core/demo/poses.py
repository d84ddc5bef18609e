"""Natural poses: for each limb a few habits with their spread in degrees, drawn and mixed within what joints allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .chance import choose, normal_within
from .skeleton import Arm, Leg, Pose

_Range = tuple[tuple[float, float], ...]

#: Habits of an arm: (mean, spread) of raise_forward, raise_aside, twist, elbow, pronation, and how often.
_ARMS: dict[str, tuple[_Range, float]] = {
    "hangs": (((2, 10), (11, 4), (-12, 12), (16, 10), (-10, 20)), 5.0),
    "on the hip": (((-18, 6), (42, 6), (-62, 8), (92, 8), (-10, 15)), 1.2),
    "waves": (((0, 8), (82, 12), (80, 10), (95, 18), (0, 25)), 1.2),
    "reaches up": (((10, 12), (150, 14), (40, 20), (28, 16), (0, 30)), 0.8),
    "spread": (((5, 12), (80, 14), (30, 30), (14, 10), (0, 40)), 1.0),
    "reaches forward": (((78, 16), (12, 8), (-12, 15), (22, 14), (-20, 35)), 0.9),
    "before the belly": (((20, 8), (14, 5), (-52, 8), (88, 12), (-20, 20)), 1.0),
    "at the face": (((52, 8), (20, 6), (-32, 8), (128, 8), (-30, 20)), 0.5),
    "swings": (((-28, 10), (12, 4), (-8, 10), (24, 10), (0, 15)), 0.8),
    "shows": (((30, 10), (32, 8), (20, 15), (75, 15), (60, 20)), 0.9),
}
#: Means and spreads in that order; then the least and greatest angles of a shoulder, an elbow and a forearm.
_ARM_LIMITS = ((-45, 150), (7, 165), (-80, 90), (0, 140), (-80, 80))

#: Habits of both legs: (mean, spread) of raise_forward, raise_aside, twist, knee, ankle of the first and of the other.
_LEGS: dict[str, tuple[_Range, _Range, float]] = {
    "stands": (((1, 3), (4, 2), (9, 5), (3, 3), (1, 2)), ((1, 3), (4, 2), (9, 5), (3, 3), (1, 2)), 4.0),
    "rests one leg": (((14, 5), (9, 3), (20, 8), (24, 8), (9, 4)), ((-1, 2), (3, 1), (6, 4), (1, 1), (0, 2)), 2.0),
    "walks": (((24, 6), (2, 2), (4, 4), (10, 6), (4, 6)), ((-16, 5), (3, 2), (4, 4), (22, 10), (-12, 8)), 2.0),
    "stands wide": (((3, 3), (19, 4), (14, 5), (4, 4), (0, 3)), ((3, 3), (19, 4), (14, 5), (4, 4), (0, 3)), 1.5),
    "lifts a knee": (((72, 12), (6, 4), (6, 6), (82, 14), (-8, 8)), ((0, 2), (2, 2), (8, 4), (2, 2), (0, 2)), 0.8),
    "squats": (((88, 10), (22, 5), (18, 5), (100, 12), (18, 4)), ((88, 10), (22, 5), (18, 5), (100, 12), (18, 4)), 0.5),
    "sits": (((84, 5), (9, 4), (6, 5), (82, 8), (2, 4)), ((84, 5), (9, 4), (6, 5), (82, 8), (2, 4)), 1.0),
}
_LEG_LIMITS = ((-25, 115), (0, 40), (-10, 40), (0, 130), (-30, 25))

_GESTURES = {"relaxed": 3.0, "open": 2.0, "fist": 1.0, "points": 0.6, "victory": 0.4, "thumb up": 0.4}


def _draw(random: np.random.Generator, habit: _Range, limits: _Range) -> tuple[float, ...]:
    return tuple(
        normal_within(random, mean, spread, low, high)
        for (mean, spread), (low, high) in zip(habit, limits, strict=True)
    )


def _fingers(random: np.random.Generator, gesture: str) -> tuple[tuple[float, float, float, float, float], float]:
    """Curl of each finger and how far they are spread."""
    straight, bent = random.normal(5, 3), random.normal(78, 6)
    curls = {
        "relaxed": np.array([14, 16, 20, 24, 28]) + random.normal(4, 6),
        "open": np.array([0, 4, 4, 4, 4]) + random.normal(0, 4),
        "fist": np.array([60, bent, bent, bent, bent]),
        "points": np.array([50, straight, bent, bent, bent]),
        "victory": np.array([60, straight, straight, bent, bent]),
        "thumb up": np.array([-8, bent, bent, bent, bent]),
    }[gesture]
    spread = {"open": random.uniform(1.0, 2.2), "victory": random.uniform(1.8, 2.6)}.get(gesture, 1.0)
    curls = np.clip(curls + random.normal(0, 3, 5), -10, 88)
    return tuple(float(curl) for curl in curls), float(spread)


def _arm(random: np.random.Generator, habit: str) -> Arm:
    angles = _draw(random, _ARMS[habit][0], _ARM_LIMITS)
    weights = dict(_GESTURES)
    if habit in ("on the hip", "hangs", "swings"):
        weights = {"relaxed": 4.0, "open": 1.0, "fist": 0.7}
    elif habit in ("waves", "spread"):
        weights = {"open": 4.0, "victory": 1.0, "relaxed": 1.0, "points": 0.5}
    curl, spread = _fingers(random, choose(random, weights))
    wrist = normal_within(random, 0, 10, -35, 35)
    return Arm(*angles, wrist=wrist, curl=curl, spread=spread)


def random_pose(random: np.random.Generator, allow_sitting: bool = True) -> Pose:
    """A pose of a person on the ground, in a jump or on a seat (then thighs are level and the seat is the pelvis')."""
    weights = {name: habit[2] for name, habit in _LEGS.items()}
    if not allow_sitting:
        del weights["sits"]
    stance = choose(random, weights)
    habits = _LEGS[stance]
    names = ["l", "r"] if random.random() < 0.5 else ["r", "l"]
    legs = {name: Leg(*_draw(random, habit, _LEG_LIMITS)) for name, habit in zip(names, habits[:2], strict=True)}

    arm_weights = {name: habit[1] for name, habit in _ARMS.items()}
    first = choose(random, arm_weights)
    second = first if random.random() < 0.45 else choose(random, arm_weights)
    arms = {"l": _arm(random, first), "r": _arm(random, second)}
    if stance == "walks":  # the arm swings with the other side's leg
        arms[names[0]] = _arm(random, "swings")
        arms[names[1]] = replace(_arm(random, "hangs"), raise_forward=float(random.normal(22, 8)))

    lean = random.normal(0, 3)
    if stance == "squats":
        lean = random.normal(28, 5)
    spine = (
        normal_within(random, 2, 6, -15, 40),
        normal_within(random, 0, 5, -18, 18),
        normal_within(random, 0, 9, -35, 35),
    )
    head = (
        normal_within(random, 0, 9, -28, 30),
        normal_within(random, 0, 7, -22, 22),
        normal_within(random, 0, 20, -60, 60),
    )
    tilt = 0.0
    if stance == "rests one leg":
        tilt = random.normal(0, 3)
    jump = (
        float(random.uniform(0.05, 0.35))
        if stance in ("stands wide", "lifts a knee") and random.random() < 0.2
        else 0.0
    )
    return Pose(spine, head, arms, legs, (float(lean), float(tilt), 0.0), jump)


def is_sitting(pose: Pose) -> bool:
    """Whether a seat below the pelvis makes sense of the pose."""
    return all(leg.raise_forward > 65 and leg.knee > 55 for leg in pose.legs.values()) and pose.lean[0] < 15
