"""Which way the surface of a pointmap faces, and where it is torn."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: Depth may change by this share of itself within 3 × 3 points of one surface. At a focal length of 1000 pixels that is
#: a surface seen at 87° from its normal; ComfyUI's own mesh node has the same default.
EDGE_TOLERANCE = 0.04

#: Signs that turn x right, y down, z forward into x right, y up, z towards the camera, as OpenGL and glTF have it.
GLTF_AXES = (1.0, -1.0, -1.0)


def to_gltf_axes(vectors: Tensor) -> Tensor:
    """Points or directions (3, …) of a pointmap in OpenGL's and glTF's axes: half a turn about x."""
    return vectors * torch.tensor(GLTF_AXES, device=vectors.device).view(3, *[1] * (vectors.ndim - 1))


def unit(vectors: Tensor) -> Tensor:
    """Vectors (3, …) at length 1; (0, 0, 0) stays. As ``F.normalize``, which takes ten times as long along dim 0."""
    return vectors / vectors.square().sum(0).sqrt().clamp_min(1e-12)


def depth_edges(depth: Tensor, tolerance: float, inside: Tensor | None = None) -> Tensor:
    """Where depth jumps: its span over 3 × 3 points exceeds the tolerance.

    Args:
        depth: (H, W) above 0.
        tolerance: span that one surface may have, as a share of the point's depth.
        inside: (H, W) bool: only these points count; None takes all.

    Returns:
        (H, W) bool, False outside of ``inside``.
    """
    inside = torch.ones_like(depth, dtype=torch.bool) if inside is None else inside
    nowhere = torch.tensor(-torch.inf, device=depth.device)
    farthest = F.max_pool2d(torch.where(inside, depth, nowhere)[None], 3, 1, 1)[0]
    nearest = -F.max_pool2d(torch.where(inside, -depth, nowhere)[None], 3, 1, 1)[0]
    return inside & (farthest - nearest > tolerance * depth)


def normals_from_points(points: Tensor, inside: Tensor | None = None, tolerance: float = EDGE_TOLERANCE) -> Tensor:
    """Unit normals of a pointmap's surface: the mean of those of the four triangles around a point.

    Triangles are as heavy as they are large. One counts if its corners lie inside and on one surface: their depths
    differ from the point's by no more than the tolerance.

    Args:
        points: (3, H, W) x right, y down, z forward.
        inside: (H, W) bool; None takes all points in front of the camera.
        tolerance: as in :func:`depth_edges`.

    Returns:
        (3, H, W) x right, y up, z towards the camera (OpenGL's convention, as the normal checkpoints have it);
        (0, 0, 0) outside and where a point has no triangle.
    """
    depth = points[2]
    inside = depth > 0 if inside is None else inside
    # Forward differences to the right and below; from a pixel's right or lower neighbour they are those to it.
    right, down = points[:, :, 1:] - points[:, :, :-1], points[:, 1:] - points[:, :-1]
    joined_right = inside[:, 1:] & inside[:, :-1] & (right[2].abs() <= tolerance * depth[:, 1:])
    joined_down = inside[1:] & inside[:-1] & (down[2].abs() <= tolerance * depth[1:])
    right, down = right * joined_right, down * joined_down  # a side of length 0 makes a triangle of no weight

    left_of, right_of = F.pad(right, (1, 0)), F.pad(right, (0, 1))
    above, below = F.pad(down, (0, 0, 1, 0)), F.pad(down, (0, 0, 0, 1))
    # All four triangles turn the same way round, since both of left_of and above point to the pixel itself:
    # the sum of the products is the product of the sums. y is down, so the first factor is the vertical one.
    return to_gltf_axes(unit(torch.linalg.cross(above + below, left_of + right_of, dim=0)))


def face_camera(normals: Tensor, points: Tensor) -> Tensor:
    """Normals (3, …) in which those of length 0 point from their points to the camera."""
    return torch.where(normals.any(dim=0), normals, unit(-to_gltf_axes(points)))
