"""From a scene to a picture and everything that is true of it: each pixel's ray meets the solids by formula."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .primitives import Floats, Integers, all_pairs, first_hits, pixel_pairs, unit
from .scene import Scene
from .shadows import ShadowMap
from .surfaces import FACE, pattern_strength

#: Neighbouring pixels whose albedo differs by more than this get more rays, so that painted edges are smooth.
_ALBEDO_STEP = 0.08


@dataclass(frozen=True)
class Render:
    """A picture and its truth. What belongs to one ray is that of the pixel's centre; what blends is the mean of many.

    Attributes:
        image: (3, H, W) RGB, 0..1.
        labels: (H, W) uint8, ids of :data:`sapiens2_core.body_parts.BODY_PARTS`; 0 is room and things.
        persons: (H, W) uint8, 1 for the first person, 0 for nobody.
        normals: (3, H, W) unit: x to the image's right, y up, z towards the camera. Of room and things as well.
        points: (3, H, W) metres: x right, y down, z forward. Every pixel has one: behind people lies a room.
        albedo: (3, H, W) RGB 0..1, colour without light. Of room and things as well.
        alpha: (1, H, W) 0..1, how much of the pixel's square is person.
        foreground: (3, H, W) premultiplied: image = foreground + (1 - alpha) · what lies behind.
        mask: (H, W) bool, whether the pixel's centre is on a person: ``labels > 0``.
        keypoints: (N, 308, 2) x and y in pixels; of joints too that are hidden or outside of the frame.
        visibility: (N, 308) bool: in the frame, and nothing hides it but the body part that it lies in.
        keypoint_depths: (N, 308) metres, z.
        boxes: (N, 4) x, y, width, height in pixels: bounds of each person's solids, cut to the frame; a person out of
            the frame has a box of no size.
        focal_length: pixels; the principal point is the picture's centre.
    """

    image: Tensor
    labels: Tensor
    persons: Tensor
    normals: Tensor
    points: Tensor
    albedo: Tensor
    alpha: Tensor
    foreground: Tensor
    mask: Tensor
    keypoints: Tensor
    visibility: Tensor
    keypoint_depths: Tensor
    boxes: Tensor
    focal_length: float


@dataclass
class _Samples:
    """What rays met: N rays."""

    depth: Floats
    solid: Integers
    rays: Floats
    normals: Floats
    albedo: Floats
    labels: Integers
    colors: Floats


def _sample(
    scene: Scene, column: Floats, row: Floats, ray: Integers, solid: Integers, shadows: ShadowMap | None
) -> _Samples:
    """Sends a ray through each place of the picture.

    Args:
        scene: the scene.
        column: (N,) x in pixels.
        row: (N,) y.
        ray: (M,) and
        solid: (M,) pairs worth trying, see :func:`~.primitives.first_hits`.
        shadows: of the lamp, if there are any.
    """
    x = ((column - (scene.width - 1) / 2) / scene.focal_length).astype(np.float32)
    y = ((row - (scene.height - 1) / 2) / scene.focal_length).astype(np.float32)
    depth, index = first_hits(scene.solids, x, y, ray, solid)
    rays = np.stack([x, y, np.ones_like(x)], axis=1)
    count = len(x)
    normals, albedo = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    labels = np.zeros(count, dtype=np.uint8)
    gloss, openness = np.zeros(count, np.float32), np.ones(count, np.float32)

    behind, hit = np.flatnonzero(index < 0), np.flatnonzero(index >= 0)
    wall_depth, plane = scene.room.hits(rays[behind])
    depth[behind] = wall_depth
    points = rays * depth[:, None]
    normals[behind] = scene.room.normals[plane]
    albedo[behind] = scene.room.albedo(points[behind], plane)
    openness[behind] = scene.room.openness(points[behind])

    solids, which, where = scene.solids, index[hit], points[hit]
    normals[hit] = solids.normals_at(where, which)
    places = solids.texture_places(where, which)
    patterns = solids.patterns[which]
    strength = pattern_strength(places, patterns)[:, None]
    colors = solids.colors.astype(np.float32)[which]
    tint = colors[:, 0] + (colors[:, 1] - colors[:, 0]) * strength
    parts, shine = solids.labels[which], solids.gloss[which]
    for person, figure in enumerate(scene.people):
        on_face = np.flatnonzero((patterns == FACE) & (solids.persons[which] == person))
        tint[on_face], parts[on_face], shine[on_face] = figure.face.paint(
            places[on_face] / figure.head_scale, tint[on_face], parts[on_face], shine[on_face]
        )
    albedo[hit], labels[hit], gloss[hit] = tint, parts, shine

    views = -unit(rays)
    lit = openness if shadows is None else openness * (0.2 + 0.8 * shadows.light_at(points, normals))
    wrap = np.where(index < 0, np.float32(0.9), np.float32(0.35))
    shaded = scene.light.shade(albedo, normals, views, gloss, scene.up.astype(np.float32), lit, openness, wrap)
    return _Samples(depth, index, rays, normals, albedo, labels, shaded.astype(np.float32))


def _edges(samples: _Samples, height: int, width: int) -> Integers:
    """Indices of pixels that differ from a neighbour in what they show."""
    solid = samples.solid.reshape(height, width)
    albedo = np.ascontiguousarray(samples.albedo.T).reshape(3, height, width)
    found = np.zeros((height, width), dtype=bool)
    for first, second in (
        (np.s_[:, :-1], np.s_[:, 1:]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[:-1, :-1], np.s_[1:, 1:]),
        (np.s_[1:, :-1], np.s_[:-1, 1:]),
    ):
        step = solid[first] != solid[second]
        for channel in albedo:
            step |= np.abs(channel[first] - channel[second]) > _ALBEDO_STEP
        found[first] |= step
        found[second] |= step
    return np.flatnonzero(found)


def render(scene: Scene, supersample: int = 2, shadows: bool = True) -> Render:
    """Draws a scene.

    Args:
        scene: the scene.
        supersample: along edges, ``supersample``² rays per pixel make colours and alpha; 1 sends no more rays there.
        shadows: whether people cast shadows on the room and on themselves.
    """
    height, width = scene.height, scene.width
    pixel, solid = pixel_pairs(scene.solids, height, width, scene.focal_length)
    row, column = np.divmod(np.arange(height * width), width)
    lamp = ShadowMap(scene.solids, scene.light.direction, 3 * height // 4) if shadows else None
    center = _sample(scene, column, row, pixel, solid, lamp)
    is_person = center.labels > 0
    image, alpha = center.colors.copy(), is_person.astype(np.float32)
    foreground = center.colors * alpha[:, None]

    if supersample > 1:
        edge = _edges(center, height, width)
        place = np.full(height * width, -1, dtype=np.int64)
        place[edge] = np.arange(len(edge))
        at_edge = place[pixel]
        kept = at_edge >= 0
        pair_ray, pair_solid = at_edge[kept], solid[kept]
        offsets = (np.arange(supersample) + 0.5) / supersample - 0.5
        count, number = len(edge), supersample**2
        dy, dx = (grid.ravel()[:, None] for grid in np.meshgrid(offsets, offsets, indexing="ij"))
        rays = (pair_ray + np.arange(number)[:, None] * count).ravel()
        fine = _sample(
            scene, (column[edge] + dx).ravel(), (row[edge] + dy).ravel(), rays, np.tile(pair_solid, number), lamp
        )
        inside = (fine.labels > 0).astype(np.float32)
        image[edge] = fine.colors.reshape(number, count, 3).mean(axis=0)
        alpha[edge] = inside.reshape(number, count).mean(axis=0)
        foreground[edge] = (fine.colors * inside[:, None]).reshape(number, count, 3).mean(axis=0)

    owner = np.append(scene.solids.persons, -1)[center.solid] + 1
    keypoints, depths, visible = _keypoints(scene)

    def picture(values: Floats) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values.reshape(height, width, -1).transpose(2, 0, 1), np.float32))

    return Render(
        image=picture(image),
        labels=torch.from_numpy(center.labels.reshape(height, width)),
        persons=torch.from_numpy(owner.astype(np.uint8).reshape(height, width)),
        normals=picture(center.normals * np.float32([1, -1, -1])),
        points=picture(center.rays * center.depth[:, None]),
        albedo=picture(center.albedo),
        alpha=picture(alpha),
        foreground=picture(foreground),
        mask=torch.from_numpy(is_person.reshape(height, width)),
        keypoints=keypoints,
        visibility=visible,
        keypoint_depths=depths,
        boxes=_boxes(scene),
        focal_length=scene.focal_length,
    )


def _keypoints(scene: Scene) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels (N, 308, 2), depths (N, 308) and visibility (N, 308)."""
    points = np.concatenate([figure.keypoints for figure in scene.people])
    tolerance = np.concatenate([figure.depths for figure in scene.people])
    # A joint behind the camera has no picture; a hand's width before the camera is near enough to none.
    depth = np.maximum(points[:, 2], 0.05)
    x, y = (points[:, axis] / depth for axis in (0, 1))
    rays_x, rays_y = x.astype(np.float32), y.astype(np.float32)
    met, _ = first_hits(scene.solids, rays_x, rays_y, *all_pairs(scene.solids, rays_x, rays_y))
    column = x * scene.focal_length + (scene.width - 1) / 2
    row = y * scene.focal_length + (scene.height - 1) / 2
    in_frame = (column >= -0.5) & (column < scene.width - 0.5) & (row >= -0.5) & (row < scene.height - 0.5)
    visible = in_frame & (points[:, 2] > 0.05) & (met >= points[:, 2] - tolerance)
    count = len(scene.people)
    pixels = torch.from_numpy(np.stack([column, row], axis=1).astype(np.float32)).reshape(count, 308, 2)
    depths = torch.from_numpy(points[:, 2].astype(np.float32)).reshape(count, 308)
    return pixels, depths, torch.from_numpy(visible).reshape(count, 308)


def _boxes(scene: Scene) -> Tensor:
    bounds = scene.solids.silhouettes() * scene.focal_length
    bounds += np.array([scene.width - 1, scene.height - 1] * 2) / 2
    boxes = []
    for person in range(len(scene.people)):
        own = bounds[scene.solids.persons == person]
        own = own[~np.isnan(own[:, 0])]
        low = np.clip(own[:, :2].min(axis=0, initial=np.inf), 0, (scene.width - 1, scene.height - 1))
        high = np.clip(own[:, 2:].max(axis=0, initial=-np.inf), 0, (scene.width - 1, scene.height - 1))
        boxes.append((*low, *np.maximum(high - low, 0)))
    return torch.tensor(np.array(boxes), dtype=torch.float32)
