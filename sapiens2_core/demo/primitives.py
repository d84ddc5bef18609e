"""The solids that mannequins are built of, and where rays hit them first, by formula.

Every solid is a rounded cone (two spheres and the cone that touches both), stretched by a linear map: with equal radii
a capsule, with no height a sphere, stretched an ellipsoid. All are convex, so a ray meets each at most once from
outside. Space is the camera's: metres, x right, y down, z forward.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]

#: Nearer than this, in metres, a camera sees nothing.
NEAR = 0.05

#: (ray, primitive) pairs that are worked on at a time: what fits into a processor's second cache.
_CHUNK = 16384


def dot(first: Floats, second: Floats) -> Floats:
    """(N,) scalar products of rows (N, 3); NumPy's sum along a short axis takes many times as long."""
    return first[:, 0] * second[:, 0] + first[:, 1] * second[:, 1] + first[:, 2] * second[:, 2]


def unit(vectors: Floats) -> Floats:
    """(N, 3) made one long."""
    return vectors / np.sqrt(dot(vectors, vectors))[:, None]


@dataclass(frozen=True)
class Primitives:
    """Solids with their paint, one row each.

    Attributes:
        centers: (P, 3) metres: centre of the first sphere.
        to_local: (P, 3, 3) from camera space, relative to the centre, to the solid's own space, where the first
            sphere lies at the origin and the second at (0, height, 0).
        heights: (P,) 0 for a sphere.
        radii: (P, 2) of both spheres. ``heights`` > |difference|, or one sphere would swallow the other.
        labels: (P,) ids of :data:`sapiens2_core.body_parts.BODY_PARTS`; 0 is a thing of the background.
        persons: (P,) whose it is, 0 for the first person; -1 for a thing.
        colors: (P, 2, 3) RGB 0..1 of the surface and of its pattern.
        patterns: (P,) a row of :data:`~.surfaces.PATTERNS`.
        gloss: (P,) strength of the highlight, 0..1.
        texture_maps: (P, 3, 3) and
        texture_offsets: (P, 3): a point p has the place map @ p + offset in its bone's space, metres, where patterns
            and faces are painted.
    """

    centers: Floats
    to_local: Floats
    heights: Floats
    radii: Floats
    labels: Integers
    persons: Integers
    colors: Floats
    patterns: Integers
    gloss: Floats
    texture_maps: Floats
    texture_offsets: Floats

    def __len__(self) -> int:
        return len(self.centers)

    @staticmethod
    def join(parts: list[Primitives]) -> Primitives:
        """All rows of all ``parts``, in order."""
        return Primitives(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Primitives)))

    def select(self, index: Integers | slice) -> Primitives:
        """Some rows."""
        return Primitives(*(getattr(self, f.name)[index] for f in fields(Primitives)))

    def moved(self, rotation: Floats, offset: Floats, scale: float = 1.0) -> Primitives:
        """Every point p becomes ``scale`` · ``rotation`` @ p + ``offset``; ``rotation`` may mirror."""
        texture_maps = self.texture_maps @ rotation.T / scale
        return replace(
            self,
            centers=scale * self.centers @ rotation.T + offset,
            to_local=self.to_local @ rotation.T / scale,
            texture_maps=texture_maps,
            texture_offsets=self.texture_offsets - texture_maps @ offset,
        )

    def texture_places(self, points: Floats, index: Integers) -> Floats:
        """(N, 3) places in their bones' spaces of ``points`` (N, 3) of the solids ``index`` (N,)."""
        maps, offsets = self.texture_maps.astype(points.dtype), self.texture_offsets.astype(points.dtype)
        return np.einsum("nij,nj->ni", maps[index], points) + offsets[index]

    def ends(self) -> tuple[Floats, Floats]:
        """The ellipsoids at both ends of every solid, whose convex hull it is.

        Returns:
            centers: (P, 2, 3) metres.
            spreads: (P, 2, 3, 3): B Bᵀ, where B maps the unit sphere onto the ellipsoid.
        """
        to_camera = np.linalg.inv(self.to_local)
        centers = np.stack([self.centers, self.centers + to_camera[:, :, 1] * self.heights[:, None]], axis=1)
        spread = to_camera @ to_camera.transpose(0, 2, 1)
        return centers, spread[:, None] * self.radii[:, :, None, None] ** 2

    def silhouettes(self) -> Floats:
        """Bounds of every solid's picture, exactly.

        Returns:
            (P, 4) least x / z, least y / z, greatest x / z, greatest y / z; -inf and inf where the solid reaches
            closer than :data:`NEAR`, nan where it is wholly behind that.
        """
        centers, spreads = self.ends()
        # The dual conic of an ellipsoid's outline: lines l with lᵀ C l = 0 touch it, so an upright line x = s does
        # where C₀₀ − 2 s C₀₂ + s² C₂₂ = 0.
        conic = spreads - centers[..., :, None] * centers[..., None, :]
        reach = np.sqrt(spreads[..., 2, 2])
        near, far = (centers[..., 2] - reach).min(axis=1), (centers[..., 2] + reach).max(axis=1)
        c22 = np.where(conic[..., 2, 2] < 0, conic[..., 2, 2], -1.0)
        bounds = []
        for axis in (0, 1):
            middle = conic[..., axis, 2] / c22
            half = np.sqrt(np.maximum(conic[..., axis, 2] ** 2 - conic[..., axis, axis] * c22, 0)) / -c22
            bounds.append(((middle - half).min(axis=1), (middle + half).max(axis=1)))
        result = np.stack([bounds[0][0], bounds[1][0], bounds[0][1], bounds[1][1]], axis=1)
        result[near < NEAR] = (-np.inf, -np.inf, np.inf, np.inf)
        result[far < NEAR] = np.nan
        return result

    def normals_at(self, points: Floats, index: Integers) -> Floats:
        """(N, 3) outward unit normals in camera space at ``points`` (N, 3) of the solids ``index`` (N,)."""
        to_local = self.to_local.astype(points.dtype)[index]
        local = np.einsum("nij,nj->ni", to_local, points - self.centers.astype(points.dtype)[index])
        height, radii = self.heights.astype(points.dtype)[index], self.radii.astype(points.dtype)[index]
        narrowing = radii[:, 0] - radii[:, 1]
        # The normal meets the axis at the centre of the sphere that touches the surface there.
        slant = np.maximum(height**2 - narrowing**2, 1e-12)
        along = np.clip((height * local[:, 1] - narrowing * radii[:, 0]) / slant, 0, 1)
        local[:, 1] -= along * height
        normals = np.einsum("nij,ni->nj", to_local, local)
        return unit(normals)


def _hit_distances(origin: Floats, direction: Floats, height: Floats, radii: Floats) -> Floats:
    """Ray parameters of entry into rounded cones in their own space; inf where a ray misses.

    Args:
        origin: (3, N).
        direction: (3, N), not necessarily of unit length.
        height: (N,).
        radii: (2, N).
    """
    # With h the height, δ = r₁ − r₂ and p a point of the ray: the cone that touches both spheres is
    # (h² − δ²)(p·p) − (h p_y)² + 2 h p_y δ r₁ − h² r₁² = 0, between the touching circles 0 < h p_y − δ r₁ < h² − δ².
    # The terms in t², t and 1 of p = origin + t · direction:
    oo, od, dd = dot(origin.T, origin.T), dot(origin.T, direction.T), dot(direction.T, direction.T)
    first, second = radii
    narrowing = first - second
    slant = height * height - narrowing * narrowing
    h_origin, h_direction = height * origin[1], height * direction[1]
    shift = narrowing * first
    a = slant * dd - h_direction * h_direction
    b = slant * od - h_direction * (h_origin - shift)
    c = slant * oo - h_origin * (h_origin - 2 * shift) - (height * first) ** 2
    discriminant = b * b - a * c

    result = np.full(oo.shape, np.inf, dtype=oo.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (-b - np.sqrt(discriminant)) / a
        along = h_origin + t * h_direction - shift
        on_cone = (along > 0) & (along < slant)  # False for nan, so where the ray misses, and for spheres
    result[on_cone] = t[on_cone]

    # Both spheres lie inside the infinite cone, so a ray that misses it misses them.
    rest = np.flatnonzero(~on_cone & ((discriminant >= 0) | (height == 0)))
    oo, od, dd, height = oo[rest], od[rest], dd[rest], height[rest]
    o_second = oo - 2 * height * origin[1, rest] + height * height
    d_second = od - height * direction[1, rest]
    with np.errstate(invalid="ignore"):
        entry = (-od - np.sqrt(od * od - dd * (oo - first[rest] ** 2))) / dd
        other = (-d_second - np.sqrt(d_second * d_second - dd * (o_second - second[rest] ** 2))) / dd
    nearest = np.fmin(entry, other)
    result[rest] = np.where(np.isnan(nearest), np.inf, nearest)
    return result


def first_hits(
    primitives: Primitives, x: Floats, y: Floats, ray: Integers, solid: Integers
) -> tuple[Floats, NDArray[np.int64]]:
    """What rays from the camera meet first.

    Args:
        primitives: the solids.
        x: (N,) float32, x / z of the rays.
        y: (N,) y / z.
        ray: (M,) and
        solid: (M,) the pairs worth trying: all where the ray lies inside the solid's silhouette bounds.

    Returns:
        depth: (N,) float32 z of the hits, inf where nothing is met.
        index: (N,) of the solid met, -1 for none.
    """
    depth = np.full(len(x), np.inf, dtype=np.float32)
    index = np.full(len(x), -1, dtype=np.int64)
    # Rays start in the plane of a solid's centre: so small numbers stay small, and float32 keeps micrometres.
    start = primitives.centers[:, 2]
    maps = primitives.to_local.astype(np.float32)
    table = np.concatenate(
        [
            np.stack([primitives.centers[:, 0], primitives.centers[:, 1], start, primitives.heights], axis=1),
            primitives.radii,
            maps.reshape(-1, 9),
        ],
        axis=1,
    ).astype(np.float32)
    columns = np.ascontiguousarray(table.T)

    for begin in range(0, len(ray), _CHUNK):
        rays, solids = ray[begin : begin + _CHUNK], solid[begin : begin + _CHUNK]
        rows = np.take(columns, solids, axis=1)
        ray_x, ray_y = x[rays], y[rays]
        off_x, off_y = ray_x * rows[2] - rows[0], ray_y * rows[2] - rows[1]
        matrix = rows[6:].reshape(3, 3, -1)
        origin = matrix[:, 0] * off_x + matrix[:, 1] * off_y
        direction = matrix[:, 0] * ray_x + matrix[:, 1] * ray_y + matrix[:, 2]
        distance = _hit_distances(origin, direction, rows[3], rows[4:6]) + rows[2]
        found = np.flatnonzero((distance < np.inf) & (distance > NEAR))
        rays, solids, distance = rays[found], solids[found], distance[found]
        np.minimum.at(depth, rays, distance)
        won = distance == depth[rays]
        index[rays[won]] = solids[won]
    return depth, index


def cast(primitives: Primitives, origins: Floats, direction: Floats) -> Floats:
    """Distances, in lengths of ``direction`` (3,), from ``origins`` (N, 3) to what is met first; inf for nothing."""
    off = np.einsum("pij,pnj->ipn", primitives.to_local, origins[None] - primitives.centers[:, None])
    way = np.repeat((primitives.to_local @ direction).T[:, :, None], len(origins), axis=2)
    heights = np.repeat(primitives.heights, len(origins))
    radii = np.repeat(primitives.radii.T, len(origins), axis=1)
    distances = _hit_distances(off.reshape(3, -1), way.reshape(3, -1), heights, radii)
    return distances.reshape(len(primitives), -1).min(axis=0)


def all_pairs(primitives: Primitives, x: Floats, y: Floats) -> tuple[Integers, Integers]:
    """The (ray, solid) pairs worth trying for scattered rays, see :func:`first_hits`."""
    low_x, low_y, high_x, high_y = primitives.silhouettes().T[..., None]
    inside = (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)
    solid, ray = np.nonzero(inside)
    return ray, solid


def pixel_pairs(primitives: Primitives, height: int, width: int, focal_length: float) -> tuple[Integers, Integers]:
    """The (pixel, solid) pairs worth trying, with a margin that takes in every ray through a pixel's square.

    Returns:
        pixel: (M,) row · width + column.
        solid: (M,).
    """
    bounds = primitives.silhouettes() * focal_length
    bounds += np.array([width - 1, height - 1, width - 1, height - 1]) / 2
    bounds = np.nan_to_num(bounds, nan=-1e9, posinf=1e9, neginf=-1e9)
    low = np.maximum(np.ceil(bounds[:, :2] - 0.5), 0).astype(np.int64)
    high = np.minimum(np.floor(bounds[:, 2:] + 0.5), (width - 1, height - 1)).astype(np.int64)
    sides = np.maximum(high - low + 1, 0)
    areas = sides[:, 0] * sides[:, 1]
    solid = np.repeat(np.arange(len(primitives)), areas)
    place = np.arange(len(solid)) - np.repeat(np.cumsum(areas) - areas, areas)
    row, column = np.divmod(place, sides[solid, 0])
    return (row + low[solid, 1]) * width + column + low[solid, 0], solid
