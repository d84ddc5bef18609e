"""One scale for a clip: the network's jumps from frame to frame, while its points before scaling hold steady."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .results import Pointmap

#: Frames that a running scale looks at: about a second.
RUNNING_FRAMES = 31

# A cut is where frames differ by at least this much (of 255), and this many times as much as any two frames close by:
# the numbers of PySceneDetect's AdaptiveDetector, here on colours of thumbnails. It compares with the mean of those
# close by, by which a flash is two cuts.
_CUT_DIFFERENCE, _CUT_RATIO, _CUT_WINDOW = 15.0, 3.0, 2
_THUMBNAIL = (36, 64)


def scene_cuts(images: Tensor) -> list[int]:
    """Frames that begin a new scene.

    Args:
        images: (B, 3, H, W) 0..1.

    Returns:
        Indices in order, without 0.
    """
    thumbnails = torch.stack([F.interpolate(frame[None].float(), _THUMBNAIL, mode="area")[0] for frame in images])
    difference = (thumbnails[1:] - thumbnails[:-1]).abs().mean(dim=(1, 2, 3)) * 255
    differences = difference.tolist()
    cuts = []
    for index, value in enumerate(differences):
        near = differences[max(index - _CUT_WINDOW, 0) : index] + differences[index + 1 : index + 1 + _CUT_WINDOW]
        if value >= _CUT_DIFFERENCE and value >= _CUT_RATIO * max(near, default=0.0):
            cuts.append(index + 1)
    return cuts


def steady_scales(scales: Tensor, mode: Literal["per frame", "clip", "running"], cuts: Sequence[int] = ()) -> Tensor:
    """Scales without the network's jumps.

    A scale is the canonical focal length over the camera's: within a scene it changes only if the lens zooms.

    Args:
        scales: (B,) as the network gave them. Those that aren't above 0 say nothing and are passed over.
        mode: "per frame" changes nothing; "clip" takes each scene's median of logarithms, for a lens that does not
            zoom; "running" the mean of running medians over :data:`RUNNING_FRAMES` frames, which follows a zoom.
        cuts: as :func:`scene_cuts` gives them.

    Returns:
        (B,) float32. A scene without any usable scale keeps its own.
    """
    scales = scales.float()
    if mode == "per frame":
        return scales.clone()
    steady = scales.clone()
    edges = [0, *cuts, len(scales)]
    for start, end in itertools.pairwise(edges):
        logs = torch.where(scales[start:end] > 0, scales[start:end], torch.nan).double().log()
        if logs.isnan().all():
            continue
        if mode == "clip":
            steady[start:end] = logs.nanquantile(0.5).exp()
        else:
            middle = torch.stack([window.nanquantile(0.5) for window in _windows(logs)])
            steady[start:end] = torch.stack([window.nanmean() for window in _windows(middle)]).exp()
    return steady


def _windows(values: Tensor) -> list[Tensor]:
    """For each value those around it."""
    reach = RUNNING_FRAMES // 2
    return [values[max(index - reach, 0) : index + reach + 1] for index in range(len(values))]


def steady_pointmap(pointmap: Pointmap, mode: Literal["per frame", "clip", "running"]) -> Pointmap:
    """A clip whose points and focal lengths follow :func:`steady_scales`, cut where its pictures say so.

    The points are changed in place: those of a long clip take much memory.
    """
    if mode == "per frame" or len(pointmap.scales) == 1:
        return pointmap
    scales = steady_scales(pointmap.scales, mode, scene_cuts(pointmap.images))
    ratios = pointmap.scales / scales
    pointmap.points.mul_(ratios[:, None, None, None])
    return replace(pointmap, scales=scales, focal_lengths=pointmap.focal_lengths * ratios)
