"""Pointmaps as point clouds in PLY files."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .surface_normals import face_camera, normals_from_points, to_gltf_axes

#: Names that viewers and libraries (Open3D, MeshLab, Blender, three.js) know; little-endian.
PLY_POINT = np.dtype(
    [(name, "<f4") for name in ("x", "y", "z", "nx", "ny", "nz")] + [(name, "u1") for name in ("red", "green", "blue")]
)


def ply_bytes(points: Tensor, image: Tensor, inside: Tensor, stride: int = 1) -> bytes:
    """A binary PLY file of coloured points with normals, in the axes of meshes: x right, y up, z towards the camera.

    Args:
        points: (3, H, W) metres, x right, y down, z forward.
        image: (3, H, W) 0..1.
        inside: (H, W) bool: which points to take.
        stride: takes every so many rows and columns.
    """
    normals = normals_from_points(points, inside)[:, ::stride, ::stride]
    points, image, inside = (values[..., ::stride, ::stride] for values in (points, image, inside))
    normals = face_camera(normals, points)  # those of points that have no neighbour on their surface
    chosen = inside.flatten().nonzero()[:, 0]  # indices are gathered ten times as fast as a mask
    vertices = np.empty(len(chosen), PLY_POINT)
    floats = torch.cat([to_gltf_axes(points), normals]).flatten(1).index_select(1, chosen).numpy()
    colours = (image.flatten(1).index_select(1, chosen).clamp(0, 1) * 255).round().byte().numpy()
    for name, values in zip(PLY_POINT.names, [*floats, *colours], strict=True):
        vertices[name] = values
    kinds = {"<f4": "float", "|u1": "uchar"}
    header = [
        "ply",
        "format binary_little_endian 1.0",
        "comment metres; x right, y up, z towards the camera",
        f"element vertex {len(vertices)}",
        *(f"property {kinds[PLY_POINT[name].str]} {name}" for name in PLY_POINT.names),
        "end_header\n",
    ]
    return "\n".join(header).encode("ascii") + vertices.tobytes()
