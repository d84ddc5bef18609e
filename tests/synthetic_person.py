"""A person drawn from proportions: all 308 keypoints, seen from the front. Loaded by a fixture in conftest.py."""

from __future__ import annotations

import math

import numpy as np
import torch

from sapiens2_core.keypoints import FLIP_INDICES
from sapiens2_core.results import PersonPose

# Millimetres from the nose root, x to the image's right, y down. Middle and the person's right side (image left);
# the left side is its mirror image.
POINTS: dict[int, tuple[float, float]] = {
    0: (0, 42), 69: (0, 170), 70: (0, -12), 71: (0, 0), 72: (0, 36), 73: (0, 18), 74: (0, 9), 75: (0, 27),
    76: (0, 95), 77: (0, 118), 178: (0, 42), 179: (0, 54), 190: (0, 64), 191: (0, 84), 206: (0, 72), 207: (0, 74),
    2: (-31, 2), 4: (-74, 22), 6: (-185, 225), 8: (-250, 500), 41: (-265, 735), 10: (-95, 730), 12: (-110, 1140),
    14: (-115, 1540), 18: (-150, 1600), 19: (-175, 1590), 20: (-100, 1580), 64: (-262, 500), 66: (-238, 500),
    68: (-190, 200),
    80: (-54, -14), 83: (-45, -21), 81: (-35, -23), 84: (-24, -22), 78: (-13, -16),
    85: (-44, -16), 82: (-35, -18), 86: (-25, -17), 79: (-13, -11),
    180: (-17, 46), 183: (-12, 52), 182: (-5, 53), 184: (-10, 50),
    188: (-26, 73), 204: (-22, 73),
    264: (-70, 17), 263: (-69, 22), 262: (-70, 27), 269: (-68, 46), 267: (-74, 52),
}  # fmt: skip
HAND_ANGLES = {21: 50, 25: 20, 29: 5, 33: -8, 37: -22}  # right hand: thumb to little finger, degrees from straight down


def arc(start, end, height, indices):
    """``indices`` in even steps from ``start`` to ``end``, bulging by ``height`` upwards."""
    for step, index in enumerate(indices, 1):
        t = step / (len(indices) + 1)
        x = start[0] + t * (end[0] - start[0])
        POINTS[index] = (x, start[1] + t * (end[1] - start[1]) - height * math.sin(math.pi * t))


def ring(center, radius, indices, squash=1.0):
    for step, index in enumerate(indices):
        angle = 2 * math.pi * step / len(indices)
        POINTS[index] = (center[0] + radius * math.cos(angle), center[1] - squash * radius * math.sin(angle))


def build() -> None:
    outer, inner = (-45.0, 3.0), (-17.0, 4.0)
    POINTS.update({121: outer, 120: inner, 162: (-44, 4), 161: (-18, 5), 129: (-47, 1), 170: (-46, 5)})
    for height, eighths in (
        (7, (125, 123, 126, 122, 127, 124, 128)),
        (10, (130, 131, 132, 133, 134, 135, 136)),
        (13, (137, 138, 139, 140, 141, 142, 143)),
        (-4, (166, 164, 167, 163, 168, 165, 169)),
        (-7, (171, 172, 173, 174, 175, 176, 177)),
    ):
        arc(outer, inner, height, eighths)
    POINTS.update({281: (-31, 2), 299: (-31, 2)})
    ring((-31, 2), 6, range(282, 290))
    ring((-31, 2), 2.5, range(300, 308))
    arc(POINTS[188], POINTS[190], 1, (196, 192, 197))
    arc(POINTS[188], POINTS[191], -4, (200, 194, 201))
    arc(POINTS[204], POINTS[206], 0, (212, 208, 213))
    arc(POINTS[204], POINTS[207], -1, (216, 210, 217))
    rest_of_ear = [index for index in range(246, 272) if index not in POINTS]
    ring((-78, 20), 16, rest_of_ear, squash=1.8)
    wrist = POINTS[41]
    for first, angle in HAND_ANGLES.items():
        direction = (math.sin(math.radians(angle)), math.cos(math.radians(angle)))
        start = 45 if first == 21 else 80
        for joint in range(4):  # stored from the tip to the third joint
            reach = start + (3 - joint) * (22 if first == 21 else 26)
            POINTS[first + joint] = (wrist[0] + reach * direction[0], wrist[1] + reach * direction[1])
    for index, (x, y) in list(POINTS.items()):
        POINTS.setdefault(FLIP_INDICES[index], (-x, y))
    assert sorted(POINTS) == list(range(308))


build()


def synthetic_person(
    nose_root: tuple[float, float] = (400.0, 130.0), millimetre: float = 0.5, roll: float = 0.0, score: float = 0.9
) -> PersonPose:
    """All 308 keypoints.

    Args:
        nose_root: where the nose root lies, pixels.
        millimetre: pixels per millimetre.
        roll: turn of the whole person about the nose root, degrees, clockwise in the image.
        score: of every keypoint.
    """
    points = np.array([POINTS[index] for index in range(308)]) * millimetre
    cos, sin = math.cos(math.radians(roll)), math.sin(math.radians(roll))
    points = points @ np.array([[cos, sin], [-sin, cos]]) + np.array(nose_root)
    low, high = points.min(axis=0), points.max(axis=0)
    box = (*low.tolist(), *(high - low).tolist())
    return PersonPose(torch.tensor(points, dtype=torch.float32), torch.full((308,), score), box)
