"""Cast shadows: the scene as the lamp sees it, drawn by the same formulas."""

from __future__ import annotations

import numpy as np

from .primitives import Floats, Primitives, first_hits, pixel_pairs

#: The lamp's distance, in radii of the scene: far enough that its rays are almost parallel.
_LAMP_DISTANCE = 20.0

#: Metres that a point may lie behind what the lamp sees and still be lit: about two pixels of the lamp's picture.
_BIAS = 0.02


class ShadowMap:
    """Where a far lamp's light is kept off by solids.

    Args:
        solids: all of them.
        direction: (3,) unit, towards the lamp.
        side: of the lamp's square picture, pixels.
    """

    def __init__(self, solids: Primitives, direction: Floats, side: int) -> None:
        centers, spreads = solids.ends()
        reach = np.sqrt(np.trace(spreads, axis1=-2, axis2=-1))[..., None]
        is_body = solids.persons >= 0
        low = (centers - reach)[is_body].min(axis=(0, 1))
        high = (centers + reach)[is_body].max(axis=(0, 1))
        middle, radius = (low + high) / 2, float(np.linalg.norm(high - low)) / 2
        forward = -direction
        right = np.cross(forward, np.eye(3)[np.abs(forward).argmin()])
        right /= np.linalg.norm(right)
        self.turn = np.stack([right, np.cross(forward, right), forward])
        self.offset = -self.turn @ (middle + direction * _LAMP_DISTANCE * radius)
        self.side, self.focal_length = side, side / 2 * _LAMP_DISTANCE
        lamp = solids.moved(self.turn, self.offset)
        row, column = np.divmod(np.arange(side * side), side)
        x, y = (((place - (side - 1) / 2) / self.focal_length).astype(np.float32) for place in (column, row))
        self.depth, _ = first_hits(lamp, x, y, *pixel_pairs(lamp, side, side, self.focal_length))

    def light_at(self, points: Floats, normals: Floats) -> Floats:
        """(N,) 0..1: how much of the lamp's light reaches ``points`` (N, 3) with unit ``normals`` (N, 3); float32."""
        towards = -(normals @ self.turn[2].astype(np.float32))
        result = np.ones(len(points), np.float32)
        facing = np.flatnonzero(towards > -0.35)
        place = points[facing] + normals[facing] * np.float32(_BIAS / 2)
        place = place @ self.turn.T.astype(np.float32) + self.offset.astype(np.float32)
        column = place[:, 0] / place[:, 2] * self.focal_length + (self.side - 1) / 2
        row = place[:, 1] / place[:, 2] * self.focal_length + (self.side - 1) / 2
        inside = np.flatnonzero((column >= 0) & (column < self.side - 1) & (row >= 0) & (row < self.side - 1))
        column, row, limit = column[inside], row[inside], place[inside, 2] - _BIAS
        left, top = column.astype(np.int64), row.astype(np.int64)
        across, down = column - left, row - top
        first = top * self.side + left
        lit = np.zeros(len(inside), np.float32)
        for step, weight in (
            (0, (1 - across) * (1 - down)),
            (1, across * (1 - down)),
            (self.side, (1 - across) * down),
            (self.side + 1, across * down),
        ):
            lit += weight * (self.depth[first + step] > limit)
        result[facing[inside]] = lit
        return result
