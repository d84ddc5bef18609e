"""What surfaces look like: patterns of cloth and of rooms, and light."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .primitives import Floats, Integers, dot, unit

#: Names of patterns; a solid stores the row. "face" is painted by :class:`~.face.Face`.
PATTERNS = ("plain", "stripes across", "stripes along", "checks", "dots", "wool", "hair", "face")
PLAIN, STRIPES_ACROSS, STRIPES_ALONG, CHECKS, DOTS, WOOL, HAIR, FACE = range(len(PATTERNS))


def pattern_strength(places: Floats, patterns: Integers) -> Floats:
    """How much of the second colour there is.

    Args:
        places: (N, 3) metres in the bone's space.
        patterns: (N,) rows of :data:`PATTERNS`.

    Returns:
        (N,) 0..1.
    """
    x, y, z = places.T
    result = np.zeros(len(places), places.dtype)
    for pattern in range(1, FACE):
        here = np.flatnonzero(patterns == pattern)
        if not len(here):
            continue
        px, py, pz = x[here], y[here], z[here]
        if pattern == STRIPES_ACROSS:
            result[here] = np.mod(py, 0.07) < 0.028
        elif pattern == STRIPES_ALONG:
            result[here] = np.mod(px + 0.4 * pz, 0.05) < 0.012
        elif pattern == CHECKS:
            result[here] = 0.5 * (np.mod(py, 0.1) < 0.05) + 0.5 * (np.mod(px + pz, 0.1) < 0.05)
        elif pattern == DOTS:
            row = np.floor(py / 0.05)
            result[here] = np.hypot(np.mod(px + pz + 0.025 * row, 0.05) - 0.025, np.mod(py, 0.05) - 0.025) < 0.013
        elif pattern == WOOL:
            result[here] = 0.5 + 0.25 * (np.sin(px * 190) * np.cos(py * 170) + np.sin((pz + py) * 230))
        elif pattern == HAIR:
            angle = np.arctan2(px, pz + 0.02)
            result[here] = 0.5 + 0.5 * np.sin(angle * 34 + 2.2 * np.sin(py * 60)) * np.sin(angle * 13 + 1)
    return result


@dataclass(frozen=True)
class Light:
    """A far lamp and the light that comes from everywhere.

    Attributes:
        direction: (3,) unit vector towards the lamp in camera space, x right, y down, z forward.
        color: (3,) of the lamp, about 1.
        sky: (3,) light from above, about 0.5.
        ground: (3,) light from below.
    """

    direction: Floats
    color: Floats
    sky: Floats
    ground: Floats

    def shade(
        self,
        albedo: Floats,
        normals: Floats,
        views: Floats,
        gloss: Floats,
        up: Floats,
        lit: Floats,
        openness: Floats,
        wrap: Floats,
    ) -> Floats:
        """Colours of surfaces.

        Args:
            albedo: (N, 3) RGB 0..1.
            normals: (N, 3) unit, camera space.
            views: (N, 3) unit, towards the camera.
            gloss: (N,) strength of the highlight.
            up: (3,) unit, the world's up in camera space.
            lit: (N,) how much of the lamp's light arrives, 0..1.
            openness: (N,) how much of the light from everywhere arrives, 0..1.
            wrap: (N,) 0..1, how far light reaches around: a little on soft skin, far in a room of bright walls.

        Returns:
            (N, 3) RGB, 0..1.
        """
        direction, color = (vector.astype(np.float32) for vector in (self.direction, self.color))
        sky, ground = (vector.astype(np.float32) for vector in (self.sky, self.ground))
        towards = normals @ direction
        diffuse = np.clip((towards + wrap) / (1 + wrap), 0, None) * lit
        from_above = 0.5 + 0.5 * (normals @ up)[:, None]
        rim = np.clip(1 - dot(normals, views), 0, 1) ** 3
        ambient = (ground + (sky - ground) * from_above) * (0.4 + 0.6 * openness[:, None])
        shaded = albedo * (diffuse[:, None] * color + ambient * (1 - 0.25 * rim[:, None]))
        shiny = np.flatnonzero(gloss > 0)
        half = unit(views[shiny] + direction)
        highlight = np.clip(dot(normals[shiny], half), 0, None)
        for _ in range(4):  # to the 16th power
            highlight = highlight * highlight
        shaded[shiny] += (gloss[shiny] * lit[shiny] * highlight)[:, None] * color
        # A shoulder like film's: bright colours approach white instead of being cut off.
        bright = shaded > 0.8
        shaded[bright] = 1 - 0.2 * np.exp((0.8 - shaded[bright]) / 0.2)
        return shaded
