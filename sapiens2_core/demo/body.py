"""The solids of trunk, arms, hands, legs and feet, bare or dressed. Metres at a stature of 1.75 m."""

from __future__ import annotations

import numpy as np

from .builder import Builder, Paint, rotation
from .outfit import Outfit
from .skeleton import FINGER_LENGTHS, FINGERS, SIDES, Shape

#: Ids of parts of the person's left and right: (foot, hand, lower arm, lower leg, shoe, sock, upper arm, upper leg).
_FOOT, _HAND, _LOWER_ARM, _LOWER_LEG, _SHOE, _SOCK, _UPPER_ARM, _UPPER_LEG = range(8)
SIDED_LABELS = {"l": (5, 6, 7, 8, 9, 10, 11, 12), "r": (14, 15, 16, 17, 18, 19, 20, 21)}
_FACE_NECK, _TORSO, _APPAREL = 3, 22, 1

_FINGER_RADII = {
    "thumb": (0.0125, 0.0112, 0.0100, 0.0082),
    "forefinger": (0.0098, 0.0090, 0.0080, 0.0068),
    "middle_finger": (0.0100, 0.0092, 0.0082, 0.0070),
    "ring_finger": (0.0096, 0.0087, 0.0078, 0.0066),
    "pinky_finger": (0.0084, 0.0075, 0.0068, 0.0058),
}


def add_body(builder: Builder, shape: Shape, outfit: Outfit) -> None:
    """Adds everything below the head to ``builder``."""
    _add_trunk(builder, shape, outfit)
    for side, sign in SIDES:
        _add_arm(builder, shape, outfit, side)
        _add_hand(builder, shape, outfit, side, sign)
        _add_leg(builder, shape, outfit, side, sign)
        _add_foot(builder, shape, outfit, side, sign)


def _add_trunk(builder: Builder, shape: Shape, outfit: Outfit) -> None:
    u, b, w, h = shape.unit, shape.build, shape.shoulders, shape.hips
    skin = Paint(_TORSO, outfit.skin)
    dressed = outfit.upper != "none"
    upper = outfit.upper_paint if dressed else skin
    below = outfit.lower_paint
    loose = {"none": 0.0, "tank top": 0.004, "dress": 0.004}.get(outfit.upper, 0.010) * u

    # Pelvis and seat.
    builder.cone(
        "pelvis",
        (-0.075 * h * u, 0.0, 0),
        (0.075 * h * u, 0.0, 0),
        (0.098 * b * u, 0.098 * b * u),
        below,
        (1.05, 0.6, 0.88),
    )
    for _, s in SIDES:
        builder.ellipsoid(
            "pelvis", (s * 0.068 * h * u, -0.035 * u, -0.045 * u), np.array([0.085, 0.095, 0.085]) * b * u, below
        )
    band = 0.127 * b * u + loose
    builder.cone(
        "pelvis", (0, -0.055 * u, 0), (0, 0.045 * u, 0.002), (0.118 * max(b, h) * u, band), below, (1.12, 0.10, 0.83)
    )

    # Belly, ribs and shoulders.
    waist = 0.118 * b * u + loose
    builder.cone(
        "belly", (0, -0.050 * u, 0.004), (0, 0.16 * u, 0.004), (0.122 * b * u + loose, waist), upper, (1.10, 0.12, 0.82)
    )
    if b > 1.12:
        builder.ellipsoid("belly", (0, 0.0, 0.045 * u), np.array([0.13, 0.12, 0.11]) * (b - 0.1) * u, upper)
    ribs = (0.116 * b + 0.006 * w) * u + loose
    builder.cone("chest", (0, 0.0, 0.0), (0, 0.115 * u, 0.0), (waist, ribs), upper, (1.13, 0.6, 0.84))
    top = (0.082 * (b + w) / 2) * u + loose
    builder.cone(
        "chest", (0, 0.10 * u, -0.004), (0, 0.205 * u, -0.010), (0.112 * b * u + loose, top), upper, (1.32, 0.6, 0.86)
    )
    girdle, round_shoulder = (0.085 * w + 0.035) * u, 0.060 * b * u + loose
    builder.cone(
        "chest",
        (-girdle, 0.200 * u, -0.012 * u),
        (girdle, 0.200 * u, -0.012 * u),
        (round_shoulder, round_shoulder),
        upper,
    )
    bust = shape.bust
    for _, s in SIDES:
        breast = np.array([0.082, 0.080, 0.056 + 0.026 * bust]) * b * u + loose / 2
        builder.ellipsoid("chest", (s * 0.064 * w * u, 0.092 * u, (0.034 + 0.020 * bust) * b * u), breast, upper)
        # From neck to shoulder.
        slope = skin if outfit.upper == "none" else upper
        builder.cone(
            "chest",
            (s * 0.025 * u, 0.268 * u, -0.02 * u),
            (s * 0.148 * w * u, 0.232 * u, -0.014 * u),
            (0.046 * u + loose / 2, 0.046 * b * u + loose / 2),
            slope,
        )
    builder.cone(
        "neck",
        (0, -0.045 * u, 0.0),
        (0, 0.10 * u, 0.004 * u),
        (0.062 * u * (0.7 + 0.3 * b), 0.052 * u),
        Paint(_FACE_NECK, outfit.skin),
    )

    if outfit.upper == "jacket":  # open in front: a strip of the shirt below shows
        shirt, wide = outfit.under_paint, (1.7, 1.0, 0.7)
        front = 0.094 * b * u + loose
        builder.cone("chest", (0, 0.215 * u, 0.052 * u), (0, 0.08 * u, front), (0.022 * u, 0.026 * u), shirt, wide)
        builder.cone("chest", (0, 0.08 * u, front), (0, 0.0, front), (0.026 * u, 0.028 * u), shirt, wide)
        builder.cone("belly", (0, 0.17 * u, front), (0, -0.06 * u, front), (0.028 * u, 0.032 * u), shirt, wide)
    if outfit.scarf:
        cloth = outfit.hat_paint.with_label(_APPAREL)
        builder.ellipsoid("neck", (0, 0.005 * u, 0.004 * u), np.array([0.092, 0.045, 0.092]) * u, cloth, rotation(10))
        builder.cone(
            "chest",
            (0.03 * u, 0.24 * u, 0.075 * u),
            (0.045 * u, 0.05 * u, 0.125 * u),
            (0.034 * u, 0.036 * u),
            cloth,
            (1.2, 1.0, 0.5),
        )
    if outfit.lower == "skirt":
        _add_skirt(builder, shape, outfit)


def _add_skirt(builder: Builder, shape: Shape, outfit: Outfit) -> None:
    """A bell from the waist, and one around each thigh, so that it follows a step."""
    u, b, h = shape.unit, shape.build, shape.hips
    cloth = outfit.lower_paint
    hip, hem = 0.165 * h * b**0.5 * u, (0.165 * h + 0.075 * outfit.leg) * u
    end = -0.02 * u - 0.40 * outfit.leg * u
    builder.cone("pelvis", (0, 0.075 * u, 0), (0, -0.06 * u, 0), (0.122 * b * u, hip), cloth, (1.12, 0.12, 0.85))
    builder.cone("pelvis", (0, -0.06 * u, 0), (0, end, 0), (hip, hem), cloth, (1.12, 0.10, 0.88))
    for side, s in SIDES:
        reach = min(outfit.leg, 0.95) * 0.42 * u
        builder.cone(
            f"{side}_thigh",
            (0, 0.0, 0),
            (-s * 0.01 * u, -reach, 0),
            (0.094 * b * u, 0.112 * b * u),
            cloth,
            (1, 0.15, 1),
        )


def _add_arm(builder: Builder, shape: Shape, outfit: Outfit, side: str) -> None:
    u, b, m = shape.unit, (shape.build + 1) / 2, shape.muscles
    labels = SIDED_LABELS[side]
    cloth = outfit.upper_paint
    bare_upper, bare_lower = Paint(labels[_UPPER_ARM], outfit.skin), Paint(labels[_LOWER_ARM], outfit.skin)
    loose = (0.014 if outfit.upper == "jacket" else 0.008) * u
    arm, forearm = f"{side}_arm", f"{side}_forearm"

    if outfit.sleeve >= 1:
        builder.cone(arm, (0, 0, 0), (0, -0.285 * u, 0), (0.051 * b * u + loose, 0.041 * b * u + loose), cloth)
        builder.ellipsoid(arm, (0, -0.02 * u, 0), np.array([0.053, 0.072, 0.055]) * b * u + loose, cloth)
    else:
        builder.cone(arm, (0, 0, 0), (0, -0.285 * u, 0), (0.046 * b * u, 0.038 * b * u), bare_upper)
        builder.ellipsoid(arm, (0, -0.03 * u, 0), np.array([0.053, 0.075, 0.055]) * b * u, bare_upper)
        builder.ellipsoid(
            arm, (0, -0.15 * u, 0.010 * u), np.array([0.039, 0.085, 0.040 + 0.008 * m]) * b * u, bare_upper
        )
        if outfit.sleeve > 0:
            builder.cone(
                arm,
                (0, 0.0, 0),
                (0, -0.285 * outfit.sleeve * u, 0),
                (0.056 * b * u + loose, 0.054 * b * u + loose),
                cloth,
                (1, 0.25, 1),
            )
            builder.ellipsoid(arm, (0, -0.01 * u, 0), np.array([0.056, 0.068, 0.057]) * b * u + loose, cloth)
    covered = outfit.sleeve - 1
    if covered < 0.9:
        builder.cone(
            forearm, (0, 0, 0), (0, -0.245 * u, 0), (0.0395 * b * u, 0.0255 * b * u), bare_lower, (0.92, 1, 1.06)
        )
        builder.ellipsoid(
            forearm,
            (0, -0.075 * u, 0.002 * u),
            np.array([0.040 + 0.004 * m, 0.085, 0.044 + 0.004 * m]) * b * u,
            bare_lower,
        )
    if covered > 0:
        end = 0.235 * min(covered, 1.0) * u
        builder.cone(
            forearm, (0, 0, 0), (0, -end, 0), (0.044 * b * u + loose, 0.033 * b * u + loose), cloth, (0.96, 0.5, 1.04)
        )


def _add_hand(builder: Builder, shape: Shape, outfit: Outfit, side: str, s: int) -> None:
    u = shape.unit
    paint = Paint(SIDED_LABELS[side][_HAND], outfit.skin)
    hand = f"{side}_hand"
    builder.cone(hand, (0, 0.006 * u, 0), (0, -0.03 * u, 0.001 * u), (0.026 * u, 0.030 * u), paint, (0.68, 1, 1.05))
    builder.cone(hand, (0, -0.035 * u, 0), (0, -0.078 * u, 0), (0.034 * u, 0.040 * u), paint, (0.40, 0.5, 1.06))
    builder.cone(
        hand,
        (-s * 0.006 * u, -0.022 * u, 0.018 * u),
        (-s * 0.008 * u, -0.05 * u, 0.026 * u),
        (0.018 * u, 0.014 * u),
        paint,
    )
    for finger in FINGERS:
        radii = _FINGER_RADII[finger]
        for joint, length in enumerate(FINGER_LENGTHS[finger]):
            builder.cone(
                f"{hand[0]}_{finger}{joint + 1}",
                (0, 0, 0),
                (0, -length * u, 0),
                (radii[joint] * u, radii[joint + 1] * u),
                paint,
            )


def _add_leg(builder: Builder, shape: Shape, outfit: Outfit, side: str, s: int) -> None:
    u, b, m = shape.unit, (shape.build * 1.5 + 0.5) / 2, shape.muscles
    labels = SIDED_LABELS[side]
    thigh, shin = f"{side}_thigh", f"{side}_shin"
    cloth = outfit.lower_paint
    loose = {"trousers": 0.014, "shorts": 0.012, "leggings": 0.003, "skirt": 0.0}[outfit.lower] * u
    bare_thigh, bare_shin = Paint(labels[_UPPER_LEG], outfit.skin), Paint(labels[_LOWER_LEG], outfit.skin)
    wears_legs = outfit.lower != "skirt"

    if wears_legs and outfit.leg >= 1:
        builder.cone(thigh, (0, 0.0, 0), (0, -0.42 * u, 0), (0.090 * b * u + loose, 0.057 * b * u + loose), cloth)
        builder.ellipsoid(
            thigh, (s * 0.004 * u, -0.13 * u, 0.006 * u), np.array([0.083, 0.17, 0.088]) * b * u + loose, cloth
        )
    else:
        builder.cone(thigh, (0, 0, 0), (0, -0.42 * u, 0), (0.082 * b * u, 0.052 * b * u), bare_thigh, (1, 0.25, 1))
        builder.ellipsoid(
            thigh, (s * 0.004 * u, -0.15 * u, 0.006 * u), np.array([0.078, 0.18, 0.084]) * b * u, bare_thigh
        )
        builder.ellipsoid(thigh, (0, -0.42 * u, 0.012 * u), np.array([0.048, 0.055, 0.048]) * b * u, bare_thigh)
        if wears_legs:
            end = 0.42 * outfit.leg * u
            builder.cone(
                thigh,
                (0, 0.0, 0),
                (0, -end, 0),
                (0.096 * b * u + loose, (0.100 - 0.016 * outfit.leg) * b * u + loose),
                cloth,
                (1, 0.25, 1),
            )
    covered = outfit.leg - 1 if wears_legs else 0.0
    if covered < 0.9:
        builder.cone(shin, (0, 0, 0.002 * u), (0, -0.40 * u, 0), (0.050 * b * u, 0.034 * b * u), bare_shin)
        builder.ellipsoid(
            shin,
            (s * 0.002 * u, -0.125 * u, -0.020 * u),
            np.array([0.050 + 0.005 * m, 0.125, 0.048 + 0.006 * m]) * b * u,
            bare_shin,
        )
    if covered > 0:
        end = 0.41 * min(covered, 1.0) * u
        hem = {"trousers": 0.060, "shorts": 0.06, "leggings": 0.040}[outfit.lower]
        builder.cone(shin, (0, 0, 0), (0, -end, 0), (0.057 * b * u + loose, hem * u), cloth, (1, 0.3, 1.05))
        builder.ellipsoid(shin, (0, -0.12 * u, -0.018 * u), np.array([0.054, 0.13, 0.05]) * b * u + loose / 2, cloth)


def _add_foot(builder: Builder, shape: Shape, outfit: Outfit, side: str, s: int) -> None:
    u = shape.unit
    labels = SIDED_LABELS[side]
    foot, toes, shin = f"{side}_foot", f"{side}_toes", f"{side}_shin"
    if outfit.feet == "bare":
        skin = Paint(labels[_FOOT], outfit.skin)
        builder.ellipsoid(foot, (0, -0.012 * u, -0.008 * u), np.array([0.036, 0.048, 0.045]) * u, skin)
        builder.cone(
            foot,
            (0, -0.045 * u, -0.032 * u),
            (s * 0.004 * u, -0.054 * u, 0.105 * u),
            (0.032 * u, 0.038 * u),
            skin,
            (1.06, 1, 0.72),
        )
        builder.cone(
            foot, (0, -0.015 * u, 0.01 * u), (-s * 0.006 * u, -0.050 * u, 0.10 * u), (0.034 * u, 0.024 * u), skin
        )
        for toe in range(5):
            width = (-0.026 + 0.0145 * toe + 0.002 * (toe > 0)) * s
            radius = (0.0135, 0.0100, 0.0095, 0.0090, 0.0085)[toe]
            reach = (0.052, 0.052, 0.046, 0.038, 0.028)[toe]
            builder.cone(
                toes,
                (width * u, -0.008 * u, 0.0),
                (width * u, -0.012 * u, reach * u),
                (radius * u, radius * 0.95 * u),
                skin,
            )
        return
    shoe, sole = outfit.shoe_paint.with_label(labels[_SHOE]), outfit.sole_paint.with_label(labels[_SHOE])
    builder.cone(
        foot,
        (0, -0.030 * u, -0.030 * u),
        (s * 0.004 * u, -0.048 * u, 0.135 * u),
        (0.043 * u, 0.044 * u),
        shoe,
        (1.0, 1.0, 0.78),
    )
    builder.cone(foot, (0, -0.005 * u, -0.014 * u), (0, -0.040 * u, 0.10 * u), (0.045 * u, 0.030 * u), shoe)
    builder.cone(
        foot,
        (0, -0.068 * u, -0.032 * u),
        (s * 0.004 * u, -0.068 * u, 0.137 * u),
        (0.046 * u, 0.048 * u),
        sole,
        (1.0, 1.0, 0.30),
    )
    if outfit.feet == "boots":
        builder.cone(shin, (0, -0.20 * u, -0.008 * u), (0, -0.41 * u, 0), (0.058 * u, 0.047 * u), shoe, (1, 0.2, 1))
    elif outfit.feet == "sneakers":
        builder.cone(shin, (0, -0.385 * u, -0.003 * u), (0, -0.42 * u, 0), (0.047 * u, 0.046 * u), shoe, (1, 0.3, 1))
    if outfit.socks and outfit.feet != "boots":
        height = 0.29 if outfit.feet == "sneakers" else 0.32
        builder.cone(
            shin,
            (0, -height * u, -0.003 * u),
            (0, -0.40 * u, 0),
            (0.044 * u, 0.0405 * u),
            outfit.sock_paint.with_label(labels[_SOCK]),
            (1, 0.2, 1),
        )
