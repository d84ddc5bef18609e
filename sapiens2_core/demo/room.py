"""Where mannequins stand: a closed room of planes, so that every ray ends at a known depth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .primitives import Floats, Integers, dot


@dataclass(frozen=True)
class Room:
    """Six planes around the camera, each with a painted pattern.

    Attributes:
        normals: (6, 3) unit, into the room, camera space; the first is the floor's.
        offsets: (6,) metres: points p of a plane have normal · p + offset = 0; positive, as the camera is inside.
        anchors: (6, 3) metres and
        axes: (6, 2, 3) unit: where the plane's pattern starts, and the directions along which it runs.
        colors: (6, 2, 3) RGB 0..1.
        patterns: (6,) 0 plain, 1 boards, 2 tiles, 3 clouds, 4 a skirting shade towards the floor.
        scales: (6,) metres of one repetition.
        shadows: (S, 4) x, y, z, radius: soft dark places, where feet keep the room's light off the floor.
    """

    normals: Floats
    offsets: Floats
    anchors: Floats
    axes: Floats
    colors: Floats
    patterns: Integers
    scales: Floats
    shadows: Floats

    def moved(self, rotation: Floats, offset: Floats, scale: float = 1.0) -> Room:
        """Every point p becomes ``scale`` · ``rotation`` @ p + ``offset``; ``rotation`` may mirror."""
        normals = self.normals @ rotation.T
        shadows = self.shadows.copy()
        shadows[:, :3] = scale * shadows[:, :3] @ rotation.T + offset
        shadows[:, 3] *= scale
        return replace(
            self,
            normals=normals,
            offsets=scale * self.offsets - normals @ offset,
            anchors=scale * self.anchors @ rotation.T + offset,
            axes=self.axes @ rotation.T,
            scales=self.scales * scale,
            shadows=shadows,
        )

    def hits(self, rays: Floats) -> tuple[Floats, Integers]:
        """Depth (N,) and plane (N,) that rays (N, 3) with z = 1 from the camera end at."""
        with np.errstate(divide="ignore"):
            distance = -self.offsets.astype(rays.dtype) / (rays @ self.normals.astype(rays.dtype).T)
        distance[distance <= 0] = np.inf
        plane = distance.argmin(axis=1)
        return np.take_along_axis(distance, plane[:, None], axis=1)[:, 0], plane

    def albedo(self, points: Floats, plane: Integers) -> Floats:
        """(N, 3) colours of ``points`` (N, 3) on the planes ``plane`` (N,)."""
        maps = (self.axes / self.scales[:, None, None]).astype(points.dtype)
        place = np.einsum("nij,nj->ni", maps[plane], points - self.anchors.astype(points.dtype)[plane])
        u, v = place.T
        strength = np.zeros(len(points), points.dtype)
        for pattern in np.unique(self.patterns[plane]):
            here = self.patterns[plane] == pattern
            pu, pv = u[here], v[here]
            if pattern == 1:
                row = np.floor(pv)
                strength[here] = 0.5 * np.mod(row * 0.618, 1) + 0.5 * (np.mod(pv, 1) < 0.04)
            elif pattern == 2:
                strength[here] = (np.floor(pu) + np.floor(pv)) % 2
            elif pattern == 3:
                strength[here] = 0.5 + 0.25 * (
                    np.sin(2.1 * pu + 1.3 * np.sin(1.7 * pv)) + np.sin(2.9 * pv + 1.1 * np.sin(2.3 * pu + 1))
                )
            elif pattern == 4:
                strength[here] = np.clip(0.5 + 0.5 * np.sin(pv), 0, 1)
        colors = self.colors.astype(points.dtype)[plane]
        return colors[:, 0] + (colors[:, 1] - colors[:, 0]) * strength[:, None]

    def openness(self, points: Floats) -> Floats:
        """(N,) 0..1: how much of the room's light reaches ``points`` (N, 3) beside the feet."""
        result = np.ones(len(points), points.dtype)
        for shadow in self.shadows.astype(points.dtype):
            off = points - shadow[:3]
            squared = dot(off, off) / shadow[3] ** 2
            near = np.flatnonzero(squared < 9)
            result[near] *= 1 - 0.55 * np.exp(-squared[near])
        return result


def random_room(random: np.random.Generator, camera: Floats, reach: float) -> Room:
    """A room in the world's space: x right, y up, z towards the viewer, the floor at y = 0.

    Args:
        random: where chance comes from.
        camera: (3,) metres; it ends up inside the room.
        reach: how far from the origin people and things reach, metres; they end up inside too.
    """
    back = reach + random.uniform(0.3, 4.0)
    left, right = random.uniform(1.0, 3.0, 2) + reach + abs(camera[0])
    top = max(2.5, camera[1] + 0.3) + random.uniform(0, 1.5)
    front = camera[2] + 2.0
    normals = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0], [-1, 0, 0], [0, -1, 0], [0, 0, -1]], float)
    offsets = np.array([0, back, left, right, top, front], float)
    axes = np.array(
        [[[1, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 1, 0]], [[0, 0, 1], [0, 1, 0]],
         [[1, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0]]], float)  # fmt: skip
    wall, floor = random.uniform(0.25, 0.95, 3), random.uniform(0.2, 0.8, 3)
    wall = wall.mean() + (wall - wall.mean()) * random.uniform(0.1, 0.7)
    floor = floor.mean() + (floor - floor.mean()) * random.uniform(0.1, 0.5)
    contrast = random.uniform(0.05, 0.3)

    def pair(base: Floats) -> Floats:
        other = np.clip(base + random.uniform(-1, 1, 3) * contrast, 0.03, 0.97)
        return np.stack([base, other])

    colors = np.stack([pair(floor), pair(wall), pair(wall * 0.93), pair(wall * 0.88),
                       pair(np.full(3, 0.9)), pair(wall)])  # fmt: skip
    wall_pattern = random.choice([0, 1, 2, 3, 4], p=[0.3, 0.12, 0.12, 0.3, 0.16])
    patterns = np.array([random.choice([0, 1, 2, 3], p=[0.25, 0.3, 0.25, 0.2]), *[wall_pattern] * 3, 0, wall_pattern])
    scales = np.array([random.uniform(0.12, 0.6), *[random.uniform(0.15, 0.9)] * 3, 1.0, 1.0])
    return Room(normals, offsets, -normals * offsets[:, None], axes, colors, patterns, scales, np.zeros((0, 4)))
