"""What pointmaps say of depth: metres, and the pictures that depth ControlNets read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .results import Pointmap

#: Percentiles of the foreground's depth that become white and black (the authors' depth pictures).
PERCENTILES = (1.0, 99.0)


def match_mask(mask: Tensor, frames: int, height: int, width: int) -> Tensor:
    """A mask fitted to a clip.

    Args:
        mask: (B, H, W), (1, H, W) or (H, W) of any type, 1 = inside; another size than the clip's is resized
            bilinearly.
        frames, height, width: of the clip.

    Returns:
        (frames, height, width) float32, 0..1; one mask for all frames is expanded, not copied.

    Raises:
        ValueError: it holds neither one mask nor one for each frame.
    """
    mask = mask[None] if mask.ndim == 2 else mask
    if mask.ndim != 3 or len(mask) not in (1, frames):
        raise ValueError(
            f"The mask has the shape {tuple(mask.shape)}, but the clip has {frames} frames. "
            "Give one mask for all frames or one for each."
        )
    mask = mask.float()
    if mask.shape[-2:] != (height, width):
        mask = F.interpolate(mask[:, None], (height, width), mode="bilinear", antialias=True)[:, 0]
    return mask.expand(frames, -1, -1)


def metric_depth(pointmap: Pointmap) -> Tensor:
    """Depth along the camera's axis: (B, 1, H, W) metres, a view of the pointmap."""
    return pointmap.points[:, 2:3]


def _measurable(depth: Tensor) -> Tensor:
    """Where depth is a distance in front of the camera."""
    return depth.isfinite() & (depth > 0)


def foreground(pointmap: Pointmap, index: int, mask: Tensor | None = None) -> Tensor:
    """(H, W) bool of one frame: inside the mask, and in front of the camera.

    Args:
        pointmap: the clip.
        index: of the frame.
        mask: as in :func:`match_mask`, inside from 0.5; None takes the pointmap's, and without one the whole frame.

    Raises:
        ValueError: the mask has neither one frame nor the clip's number of frames.
    """
    depth = pointmap.points[index, 2]
    mask = pointmap.mask if mask is None else mask
    if mask is None:
        return _measurable(depth)
    frames = len(pointmap.points)
    mask = mask[None] if mask.ndim == 2 else mask
    if frames > 1 and mask.ndim == 3 and len(mask) == frames:  # resize this frame's alone
        mask, frames = mask[index : index + 1], 1
    return _measurable(depth) & (match_mask(mask, frames, *depth.shape)[0] >= 0.5)


def percentiles(batches: Iterable[Tensor], wanted: Sequence[float]) -> list[float] | None:
    """Exact percentiles of positive float32 numbers that come in batches, as ``numpy.percentile`` interpolates them.

    The bit pattern of a positive float grows with its value, so a histogram of the upper 16 bits and a second one of
    the lower 16 bits, in the bins that matter, find each order statistic exactly. ``batches`` is walked through
    twice, and memory beyond one batch is a few histograms, however long the clip.

    Args:
        batches: 1-D tensors; iterable more than once.
        wanted: percentiles, 0..100.

    Returns:
        One number each, or None when there are no numbers.
    """

    def bits(batch: Tensor) -> Tensor:
        return batch.float().view(torch.int32)

    upper = torch.zeros(1 << 16, dtype=torch.int64)
    for batch in batches:
        upper += torch.bincount(bits(batch) >> 16, minlength=1 << 16).cpu()
    total = int(upper.sum())
    if total == 0:
        return None

    places = [(total - 1) * percent / 100 for percent in wanted]
    ranks = sorted({rank for place in places for rank in (int(place), min(int(place) + 1, total - 1))})
    reached = upper.cumsum(0)
    bins = torch.searchsorted(reached, torch.tensor(ranks), right=True)
    lower = {int(index): torch.zeros(1 << 16, dtype=torch.int64) for index in bins}
    for batch in batches:
        pattern = bits(batch)
        for index, histogram in lower.items():
            inside = pattern[pattern >> 16 == index] & 0xFFFF
            histogram += torch.bincount(inside, minlength=1 << 16).cpu()

    values: dict[int, float] = {}
    for rank, index in zip(ranks, bins.tolist(), strict=True):
        rank_in_bin = rank - (int(reached[index - 1]) if index else 0)
        low_bits = int(torch.searchsorted(lower[index].cumsum(0), torch.tensor(rank_in_bin), right=True))
        values[rank] = float(np.array(index << 16 | low_bits, dtype=np.int32).view(np.float32))
    result = []
    for place in places:
        low, high = values[int(place)], values[min(int(place) + 1, total - 1)]
        result.append(low + (high - low) * (place - int(place)))
    return result


class _ForegroundDepths:
    """The foreground's depths frame by frame, as often as they are walked through."""

    def __init__(self, pointmap: Pointmap, frames: Sequence[int], mask: Tensor | None) -> None:
        self.pointmap, self.frames, self.mask = pointmap, frames, mask

    def __iter__(self) -> Iterator[Tensor]:
        for index in self.frames:
            yield self.pointmap.points[index, 2][foreground(self.pointmap, index, self.mask)]


def foreground_range(
    pointmap: Pointmap, mask: Tensor | None = None, scope: Literal["clip", "frame"] = "clip"
) -> tuple[Tensor, Tensor]:
    """Nearest and farthest depth of the foreground: its 1st and 99th percentile, exactly.

    Args:
        pointmap: the clip.
        mask: as in :func:`foreground`.
        scope: "clip" measures all frames together, so that pictures made with the bounds do not flicker; "frame"
            each on its own.

    Returns:
        near and far, (B,) metres; both 0 where there is no foreground.
    """
    frames = range(len(pointmap.points))
    groups = [frames] if scope == "clip" else [[index] for index in frames]
    bounds = [percentiles(_ForegroundDepths(pointmap, group, mask), PERCENTILES) or [0.0, 0.0] for group in groups]
    near, far = torch.tensor(bounds, dtype=torch.float32).T
    return near.expand(len(frames)).clone(), far.expand(len(frames)).clone()


def _relative_nearness(depth: Tensor, near: float, far: float, curve: str) -> Tensor:
    """1 at ``near``, 0 at ``far``, clamped; ``curve`` says what is linear between them."""
    if near >= far:  # a foreground of one depth only
        return (depth <= near).to(depth.dtype)
    if curve == "inverse":
        return ((1 / depth - 1 / far) / (1 / near - 1 / far)).clamp(0, 1)
    return ((far - depth) / (far - near)).clamp(0, 1)


def depth_picture(
    pointmap: Pointmap,
    mask: Tensor | None = None,
    near: float | None = None,
    far: float | None = None,
    range: Literal["percentile", "metres"] = "percentile",
    scope: Literal["clip", "frame"] = "clip",
    curve: Literal["inverse", "linear"] = "inverse",
    near_is_white: bool = True,
    background: Literal["black", "far", "keep"] = "black",
) -> tuple[Tensor, Tensor, Tensor]:
    """Depth as grey pictures; the defaults are what depth ControlNets expect.

    Args:
        pointmap: the clip.
        mask: what is foreground, as in :func:`foreground`.
        near: metres that become white; None measures it. Give both to continue a clip in chunks.
        far: metres that become black; None measures it.
        range: "percentile" measures bounds that are not given, see :func:`foreground_range`; "metres" takes the
            given ones and needs both.
        scope: what is measured together, see :func:`foreground_range`.
        curve: "inverse" is linear in 1 / depth, as in disparity; "linear" in depth.
        near_is_white: False swaps white and black within the foreground.
        background: what lies outside of the foreground: "black"; "far", as if it were at the far bound; "keep", its
            own depth, clamped to the bounds. Points behind the camera have no depth to keep and are black.

    Returns:
        Pictures (B, 1, H, W) float32, 0..1, and near and far, (B,) metres: the bounds of each frame, 0 where there
        was no foreground to measure. Such a frame is black.

    Raises:
        ValueError: bounds that are missing, not positive, or in the wrong order; a mask that does not fit.
    """
    if range == "metres" and (near is None or far is None):
        raise ValueError("Depth in metres needs both bounds: give near and far, or measure them by percentile.")
    for name, value in (("near", near), ("far", far)):
        if value is not None and not (0 < value < float("inf")):
            raise ValueError(f"{name} is {value:g}, but it must be a distance in metres above 0.")
    if near is not None and far is not None and near >= far:
        raise ValueError(f"near ({near:g} m) must be smaller than far ({far:g} m).")

    frames, _, height, width = pointmap.points.shape
    if near is None or far is None:
        nears, fars = foreground_range(pointmap, mask, scope)
    else:
        nears, fars = torch.zeros(frames), torch.zeros(frames)
    if near is not None:
        nears = torch.full((frames,), near)
    if far is not None:
        fars = torch.full((frames,), far)

    if (near is None) != (far is None):
        wrong = (nears >= fars) & (nears > 0) & (fars > 0)
        if wrong.any():
            index = int(wrong.nonzero()[0])
            given, measured = (
                ("near", f"far ({fars[index]:g} m)") if far is None else ("far", f"near ({nears[index]:g} m)")
            )
            raise ValueError(
                f"{given} is {near if far is None else far:g} m, which leaves no depth between it and the measured "
                f"{measured}. Leave {given} out, or give both."
            )

    pictures = torch.zeros(frames, 1, height, width)
    for index, (picture, low, high) in enumerate(zip(pictures[:, 0], nears.tolist(), fars.tolist(), strict=True)):
        if low == 0 or high == 0:
            continue
        depth = pointmap.points[index, 2].cpu()
        measurable = _measurable(depth)
        shown = measurable if background == "keep" else foreground(pointmap, index, mask).cpu()
        nearness = _relative_nearness(torch.where(measurable, depth, high), low, high, curve)
        value = nearness if near_is_white else 1 - nearness
        outside = 0.0 if background != "far" or near_is_white else 1.0
        picture.copy_(torch.where(shown, value, outside))
    return pictures, nears, fars
