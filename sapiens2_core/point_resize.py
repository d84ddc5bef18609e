"""Pointmaps at the size of their frames: smooth where surfaces are, and nothing averaged over a silhouette."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .crops import Size
from .maps import resize_map
from .surface_normals import EDGE_TOLERANCE, depth_edges

#: The authors blur a pointmap before they enlarge it (their vis_pointmap.py): this often, with this kernel and sigma.
_BLURS, _KERNEL, _SIGMA = 4, 3, 0.8


def resize_points(points: Tensor, size: Size, mask: Tensor | None = None) -> Tensor:
    """Resizes a pointmap, bilinearly; an enlarged one is smoothed first.

    With a mask, points inside are made of points inside alone and points outside of points outside alone. A point of
    the map that the mask's edge runs through belongs to neither, since the network saw both there; its place is filled
    from its neighbours on each side.

    Args:
        points: (3, h, w) x right, y down, z forward.
        size: (height, width) of the result.
        mask: (*size) bool, True on the person.

    Returns:
        (3, *size) float32.
    """
    points = points.float()
    height, width = points.shape[-2:]
    is_enlarged = size[0] > height or size[1] > width
    if mask is None:
        known = torch.ones_like(points[2], dtype=torch.bool)
        return resize_map(_smooth(points, known) if is_enlarged else points, size)
    # A frame smaller than the map has several of the map's points in a pixel, and its mask's edge somewhere among them.
    is_coarse = size[0] < height
    share = F.interpolate(mask.float()[None, None], (height, width), mode="bilinear" if is_coarse else "area")[0, 0]
    sides = []
    for known in (share > 0.999, share < 0.001):  # a mean of ones is 1 but for rounding
        side = extend(points, known)
        sides.append(resize_map(_smooth(side, known) if is_enlarged else side, size))
    return torch.where(mask, *sides)


def extend(values: Tensor, known: Tensor) -> Tensor:
    """Continues values over pixels where they aren't known, from the known ones close by.

    Unknown pixels take the mean of the known ones in the smallest block of 2 × 2, 4 × 4, … around them that has any
    (pull and push: Gortler et al., "The Lumigraph", 1996).

    Args:
        values: (C, h, w).
        known: (h, w) bool; where all or none are known, the values come back as they are.

    Returns:
        (C, h, w).
    """
    if known.all() or not known.any():
        return values
    weight = F.avg_pool2d(known.float()[None], 2, ceil_mode=True)
    total = F.avg_pool2d(torch.where(known, values, 0.0), 2, ceil_mode=True)
    coarse = extend(total / weight.clamp_min(1e-6), weight[0] > 0)
    return torch.where(known, values, resize_map(coarse, tuple(values.shape[-2:])))


def _smooth(points: Tensor, known: Tensor) -> Tensor:
    """The authors' blur, but not where it reaches over a jump in depth, which it would spread into a sheet.

    Nor where it reaches points that aren't known.
    """
    from kornia.filters import gaussian_blur2d  # seconds at import

    if min(points.shape[-2:]) < _KERNEL:
        return points
    blurred = points[None]
    for _ in range(_BLURS):
        blurred = gaussian_blur2d(blurred, (_KERNEL, _KERNEL), (_SIGMA, _SIGMA))
    reach = _BLURS * (_KERNEL // 2)
    kept = depth_edges(points[2], EDGE_TOLERANCE) | ~known
    kept = F.max_pool2d(kept[None].float(), 2 * reach + 1, 1, reach)[0] > 0
    return torch.where(kept, points, blurred[0])
