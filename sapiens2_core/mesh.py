"""Pointmaps as textured surfaces: a triangle grid, torn where depth jumps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .surface_normals import EDGE_TOLERANCE, depth_edges, face_camera, normals_from_points, to_gltf_axes

#: Pieces of surface smaller than this share of the largest are dropped: crumbs along torn edges.
SMALLEST_ISLAND = 0.005


@dataclass(frozen=True)
class Mesh:
    """A surface in glTF's axes: x right, y up, z towards the camera, which sits at the origin.

    Attributes:
        vertices: (N, 3) metres.
        faces: (M, 3) int64 indices of vertices, counter-clockwise as the camera sees them.
        uvs: (N, 2) place in the frame, 0..1 from its upper left corner.
        normals: (N, 3) unit.
    """

    vertices: Tensor
    faces: Tensor
    uvs: Tensor
    normals: Tensor


def grid_mesh(points: Tensor, inside: Tensor, edge_tolerance: float = EDGE_TOLERANCE, stride: int = 1) -> Mesh:
    """Joins neighbouring points by triangles.

    Two triangles fill each cell of the grid, unless one of the pixels in it lies outside or where depth jumps: so a
    silhouette leaves a gap and no sheet, whatever the stride.

    Args:
        points: (3, H, W) metres, x right, y down, z forward.
        inside: (H, W) bool: what becomes surface.
        edge_tolerance: share of its depth by which a point's 3 × 3 neighbours may span; 0 tears nothing.
        stride: every how many pixels a vertex stands.

    Returns:
        The mesh, empty where no cell is whole.
    """
    depth = points[2]
    broken = ~inside
    if edge_tolerance:
        broken |= depth_edges(depth, edge_tolerance, inside)
    if min(depth.shape) <= stride:
        whole = torch.zeros(1, 1, dtype=torch.bool)
    else:
        whole = F.max_pool2d(broken[None].float(), stride + 1, stride)[0] == 0
    whole = _without_islands(whole)

    corners = torch.zeros((whole.shape[0] + 1, whole.shape[1] + 1), dtype=torch.bool)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        corners[down : down + whole.shape[0], right : right + whole.shape[1]] |= whole
    number = corners.flatten().cumsum(0).sub(1).view(corners.shape)
    a, b, c, d = (side[whole] for side in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    faces = torch.stack([a, b, c, a, c, d], dim=1).view(-1, 3)

    normals = face_camera(normals_from_points(points, inside, edge_tolerance or torch.inf), points)
    y, x = (places * stride for places in corners.nonzero(as_tuple=True))
    height, width = depth.shape
    return Mesh(
        vertices=to_gltf_axes(points[:, y, x]).T.contiguous(),
        faces=faces,
        uvs=torch.stack([(x + 0.5) / width, (y + 0.5) / height], dim=1),
        normals=normals[:, y, x].T.contiguous(),
    )


def _without_islands(whole: Tensor) -> Tensor:
    """(H, W) bool cells without the small pieces; cells are joined where they share a side."""
    import cv2  # half a second at import

    _, labels, stats, _ = cv2.connectedComponentsWithStats(whole.numpy().astype(np.uint8), connectivity=4)
    sizes = stats[:, cv2.CC_STAT_AREA].copy()
    sizes[0] = 0  # what is not whole
    keep = (sizes > 0) & (sizes >= SMALLEST_ISLAND * sizes.max())
    return torch.from_numpy(keep[labels])
