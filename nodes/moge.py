"""Pointmaps in the form of ComfyUI's own MoGe nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from ..sapiens2_core.geometry import foreground
from ..sapiens2_core.results import Pointmap


def moge_geometry(pointmap: Pointmap) -> dict[str, Tensor]:
    """A pointmap as MOGE_GEOMETRY (ComfyUI's comfy_extras/nodes_moge.py).

    Returns:
        points (B, H, W, 3) metres, x right, y down, z forward, and depth (B, H, W), both infinite outside of the
        foreground, where those nodes make no surface; mask (B, H, W) bool; image (B, H, W, 3); intrinsics (B, 3, 3)
        with focal lengths over the frame's sides. Views of the pointmap, unless something lies outside: those nodes
        want a plain dict of tensors, so the points are then held twice.
    """
    frames, _, height, width = pointmap.points.shape
    mask = torch.stack([foreground(pointmap, index) for index in range(frames)])
    points = pointmap.points.movedim(1, -1)
    if not mask.all():
        points = torch.where(mask[..., None], points, torch.inf)
    intrinsics = torch.zeros(frames, 3, 3)
    intrinsics[:, 0, 0] = pointmap.focal_lengths / width
    intrinsics[:, 1, 1] = pointmap.focal_lengths / height
    intrinsics[:, :2, 2] = 0.5
    intrinsics[:, 2, 2] = 1.0
    return {
        "points": points,
        "depth": points[..., 2],
        "mask": mask,
        "image": pointmap.images.movedim(1, -1),
        "intrinsics": intrinsics,
    }
