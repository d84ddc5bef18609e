"""The solids of a head, its hair, hat and glasses, and where a face's keypoints lie on them. Metres, natural size."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..keypoints import FLIP_INDICES
from .builder import Builder, Paint, Vector, rotation
from .chance import normal_within
from .face import LEFT_EAR, Face
from .outfit import Outfit
from .primitives import Floats, Primitives, cast
from .skeleton import SIDES
from .surfaces import FACE

_FACE_NECK = 3
_EAR_CENTER = np.array([0.077, 0.066, -0.012])
_EAR_HALF = np.array([0.011, 0.034, 0.021])

#: Keypoints of the nose in the plane of the face; the right ones mirror them.
_NOSE = {
    0: (0, 0.0355), 178: (0, 0.0355), 72: (0, 0.041), 75: (0, 0.049), 73: (0, 0.057), 74: (0, 0.065), 179: (0, 0.0225),
    181: (0.0225, 0.032), 185: (0.0045, 0.0250), 186: (0.0165, 0.0265), 187: (0.0100, 0.0290),
}  # fmt: skip


class _Head:
    """Solids of the bone "head", scaled."""

    def __init__(self, builder: Builder, scale: float) -> None:
        self.builder, self.scale = builder, scale

    def ellipsoid(self, center: Vector, radii: Vector, paint: Paint, turn: Floats | None = None) -> None:
        self.builder.ellipsoid("head", np.array(center) * self.scale, np.array(radii) * self.scale, paint, turn)

    def cone(
        self, start: Vector, end: Vector, radii: tuple[float, float], paint: Paint, squash: Vector = (1.0, 1.0, 1.0)
    ) -> None:
        scaled = (radii[0] * self.scale, radii[1] * self.scale)
        self.builder.cone("head", np.array(start) * self.scale, np.array(end) * self.scale, scaled, paint, squash)


def add_head(builder: Builder, outfit: Outfit, scale: float) -> slice:
    """Adds the bare head to ``builder``.

    Args:
        builder: what it's added to.
        outfit: the colour of its skin counts.
        scale: size, 1 is natural.

    Returns:
        The rows of its solids.
    """
    first = len(builder)
    head = _Head(builder, scale)
    skin = Paint(_FACE_NECK, outfit.skin, pattern=FACE, gloss=0.10)
    plain = Paint(_FACE_NECK, outfit.skin, gloss=0.10)
    head.ellipsoid((0, 0.088, -0.008), (0.076, 0.100, 0.096), skin)
    head.ellipsoid((0, 0.020, 0.028), (0.056, 0.070, 0.058), skin)
    head.ellipsoid((0, 0.098, 0.068), (0.052, 0.014, 0.021), skin)  # ridge of the brows
    head.ellipsoid((0, 0.004, 0.066), (0.036, 0.024, 0.0245), skin)  # mouth
    head.ellipsoid((0, -0.029, 0.050), (0.034, 0.026, 0.0255), skin)  # chin
    head.cone((0, 0.070, 0.083), (0, 0.036, 0.103), (0.0085, 0.0130), skin)
    for _, s in SIDES:
        head.ellipsoid((s * 0.032, 0.0785, 0.0715), (0.0178, 0.0160, 0.0165), skin)  # eyeball
        head.ellipsoid((s * 0.031, 0.040, 0.041), (0.032, 0.038, 0.035), skin)  # cheek
        head.ellipsoid((s * 0.0125, 0.0325, 0.0945), (0.0105, 0.0090, 0.0105), skin)  # wing of the nose
        head.ellipsoid(_EAR_CENTER * (s, 1, 1), _EAR_HALF, plain, rotation(-8, s * -14))
    return slice(first, len(builder))


def add_hair(builder: Builder, outfit: Outfit, scale: float) -> None:
    """Adds hair or a hat, and glasses."""
    head = _Head(builder, scale)
    paint, style = outfit.hair_paint, outfit.hair_style
    covered = outfit.hat != "none"
    if style != "bald":
        head.ellipsoid((0, 0.099, -0.0215), (0.083, 0.103, 0.099), paint)
    if style == "side part" and not covered:
        head.ellipsoid((0.030, 0.158, 0.030), (0.056, 0.030, 0.056), paint, rotation(12, 0, -22))
        head.ellipsoid((-0.030, 0.160, 0.020), (0.048, 0.028, 0.056), paint, rotation(8, 0, 24))
    if style == "short" and not covered:
        head.ellipsoid((0, 0.160, 0.018), (0.062, 0.036, 0.062), paint, rotation(8))
    if style in ("bob", "long"):
        for _, s in SIDES:
            head.cone(
                (s * 0.050, 0.130, -0.012),
                (s * 0.066, 0.010 if style == "bob" else -0.03, -0.012),
                (0.042, 0.034),
                paint,
                (0.7, 1, 1.2),
            )
        head.ellipsoid((0, 0.055, -0.050), (0.088, 0.098, 0.070), paint)
        if not covered:
            head.ellipsoid((0.012, 0.158, 0.026), (0.066, 0.034, 0.058), paint, rotation(10, 0, -10))
    if style == "long":
        head.cone((0, 0.06, -0.055), (0, -0.16, -0.085), (0.080, 0.072), paint, (1.05, 0.6, 0.55))
    elif style == "bun":
        head.ellipsoid((0, 0.165, -0.085), (0.040, 0.038, 0.040), paint)
    elif style == "ponytail":
        head.ellipsoid((0, 0.135, -0.115), (0.026, 0.026, 0.026), paint)
        head.cone((0, 0.120, -0.135), (0, -0.06, -0.150), (0.032, 0.020), paint)
    elif style == "afro" and not covered:
        head.ellipsoid((0, 0.118, -0.036), (0.122, 0.122, 0.116), paint)

    cloth = outfit.hat_paint
    if outfit.hat == "cap":
        head.ellipsoid((0, 0.128, -0.013), (0.090, 0.078, 0.105), cloth)
        head.ellipsoid((0, 0.128, 0.100), (0.066, 0.008, 0.062), cloth, rotation(14))
    elif outfit.hat == "beanie":
        head.ellipsoid((0, 0.135, -0.014), (0.090, 0.088, 0.106), cloth)
        head.cone((0, 0.118, -0.012), (0, 0.140, -0.016), (0.090, 0.090), cloth, (1.0, 0.15, 1.17))

    frame = outfit.glasses_paint
    for _, s in SIDES:
        if outfit.glasses == "sunglasses":
            head.ellipsoid((s * 0.033, 0.0745, 0.0920), (0.0265, 0.0205, 0.0080), frame, rotation(0, s * 12))
        elif outfit.glasses == "glasses":
            angles = np.linspace(0, 2 * np.pi, 11)
            ring = np.stack(
                [
                    s * 0.033 + 0.0225 * np.cos(angles),
                    0.0755 + 0.0185 * np.sin(angles),
                    0.0955 - 0.004 * np.cos(angles) * s,
                ],
                axis=1,
            )
            for start, end in pairwise(ring):
                head.cone(start, end, (0.0028, 0.0028), frame)
        if outfit.glasses != "none":
            head.cone((s * 0.0555, 0.079, 0.088), (s * 0.082, 0.082, -0.010), (0.0028, 0.0028), frame)
            head.cone((0, 0.0790, 0.1000), (s * 0.012, 0.0775, 0.0985), (0.0028, 0.0028), frame)


def face_keypoints(head: Primitives, face: Face, scale: float) -> tuple[Floats, Floats]:
    """Keypoints of face and ears, laid on the bare head.

    Args:
        head: its solids, in the space of the bone "head".
        face: the face.
        scale: size, 1 is natural.

    Returns:
        places: (K, 3) metres in that space.
        index: (K,) of :data:`sapiens2_core.keypoints.KEYPOINT_NAMES`.
    """
    plane, index = face.landmarks()
    nose = dict(_NOSE)
    for which, (x, y) in _NOSE.items():
        nose.setdefault(FLIP_INDICES[which], (-x, y))
    plane = np.concatenate([plane, np.array(list(nose.values()))]) * scale
    starts = np.concatenate([plane, np.full((len(plane), 1), 1.0)], axis=1)
    depths = cast(head, starts, np.array([0.0, 0.0, -1.0]))
    starts[:, 2] -= np.where(np.isfinite(depths), depths, 0.95)
    places, indices = [starts], [index, np.array(list(nose))]

    forward_up = np.array(list(LEFT_EAR.values()))
    for _, s in SIDES:
        ear = np.empty((len(forward_up), 3))
        ear[:, 2] = (_EAR_CENTER[2] + forward_up[:, 0] * _EAR_HALF[2]) * scale
        ear[:, 1] = (_EAR_CENTER[1] + forward_up[:, 1] * _EAR_HALF[1]) * scale
        ear[:, 0] = s * 1.0
        depths = cast(head, ear, np.array([-s, 0.0, 0.0]))
        ear[:, 0] -= s * np.where(np.isfinite(depths), depths, 0.93)
        places.append(ear)
        indices.append(np.array([which if s > 0 else FLIP_INDICES[which] for which in LEFT_EAR]))
    return np.concatenate(places), np.concatenate(indices)


def random_face(random: np.random.Generator, outfit: Outfit) -> Face:
    """Features and expression."""
    skin = outfit.skin
    lips = np.clip(skin * (0.86, 0.62, 0.62) + random.uniform(0, 0.06, 3), 0, 1)
    if random.random() < 0.25:  # lipstick
        lips = np.array([random.uniform(0.5, 0.85), random.uniform(0.05, 0.25), random.uniform(0.12, 0.35)])
    mouth = random.random()
    is_open = mouth < 0.28
    brows = np.clip(outfit.hair * 0.8, 0.03, 0.75) if outfit.hair.mean() < 0.75 else skin * 0.5
    base = Face(skin, lips, np.minimum(brows, skin * 0.7), outfit.iris)
    return replace(
        base,
        eye_open=float(random.uniform(0.55, 0.95)),
        gaze=(normal_within(random, 0, 0.35, -0.9, 0.9), normal_within(random, 0, 0.25, -0.8, 0.8)),
        brow_height=float(random.uniform(0.0185, 0.0235)),
        brow_tilt=float(random.normal(0.002, 0.0018)),
        brow_thick=float(random.uniform(0.0022, 0.0042)),
        mouth_width=float(random.uniform(0.0225, 0.0275)),
        lip_thick=float(random.uniform(0.0058, 0.0092)),
        mouth_open=float(random.uniform(0.006, 0.019)) if is_open else 0.0,
        smile=normal_within(random, 0.003, 0.0025, -0.002, 0.008),
        shows_tongue=bool(is_open and random.random() < 0.5),
        blush=float(random.uniform(0.0, 0.5)),
    )
