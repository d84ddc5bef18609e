"""Masks of body parts, made fit for use: steadied over a clip, cleaned, grown, feathered, inverted.

Frames are worked on one by one, as bytes, 255 = inside; of a clip no more than the frames that steadying looks at are
in memory at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .results import Segmentation
from .shots import shot_starts
from .soft_labels import probability_of

_LARGEST_DISC = 12  # a dilation takes time by the disc's area; larger ones are several of these in a row


@dataclass(frozen=True)
class MaskFinish:
    """What is done to masks, in this order.

    Attributes:
        steady: every pixel becomes the median of so many frames before, itself and as many after, of its shot.
        min_area: islands of fewer pixels are dropped.
        fill_holes: holes of up to so many pixels are filled; what touches the picture's edge is no hole.
        grow: pixels to grow by; negative shrinks.
        feather: pixels to either side of the edge over which it fades; the edge itself stays at 0.5.
        invert: 1 becomes 0.
    """

    steady: int = 0
    min_area: int = 0
    fill_holes: int = 0
    grow: int = 0
    feather: float = 0.0
    invert: bool = False


def part_masks(
    segmentation: Segmentation, parts: tuple[int, ...], soft: bool = False, finish: MaskFinish | None = None
) -> Iterator[Tensor]:
    """The mask of some parts, frame by frame.

    Args:
        segmentation: the clip.
        parts: ids.
        soft: masks are the parts' probabilities instead of 0 and 1.
        finish: what is done to them.

    Yields:
        (H, W) float32, 0..1.

    Raises:
        ValueError: soft masks of a segmentation without probabilities.
    """
    if soft and segmentation.likely is None:
        raise ValueError(
            "This segmentation holds no probabilities, which soft masks need. Turn on soft in Segment Body Parts, or "
            "turn it off here."
        )
    return _part_masks(segmentation, parts, soft, finish or MaskFinish())


def _part_masks(segmentation: Segmentation, parts: tuple[int, ...], soft: bool, finish: MaskFinish) -> Iterator[Tensor]:
    """The work of :func:`part_masks`: a generator would put off its check."""
    for mask in _steadied(_Masks(segmentation, parts, soft), finish.steady):
        mask = drop_islands(mask, finish.min_area)
        mask = fill_holes(mask, finish.fill_holes)
        mask = grow(mask, finish.grow)
        result = feather(torch.from_numpy(mask).float() / 255, finish.feather)
        yield 1 - result if finish.invert else result


class _Masks:
    """A clip's masks as they come, (H, W) bytes, made on demand."""

    def __init__(self, segmentation: Segmentation, parts: tuple[int, ...], soft: bool) -> None:
        self.labels = segmentation.labels
        self.likely = segmentation.likely if soft else None
        self.parts = parts
        self.table = np.zeros(256, dtype=np.uint8)
        self.table[list(parts)] = 255

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> np.ndarray:
        labels = self.labels[index]
        if self.likely is None:
            return self.table[labels.numpy()]
        return probability_of(self.likely[index], self.parts, tuple(labels.shape)).numpy()


def _steadied(masks: _Masks, reach: int) -> Iterator[np.ndarray]:
    """Masks as medians over time; towards both ends of a shot of fewer frames, since a median has to be centred."""
    starts = shot_starts(masks.labels, reach + 1) if reach else [0]  # over the most that a median can take out
    for first, end in zip(starts, [*starts[1:], len(masks)], strict=True):
        window: dict[int, np.ndarray] = {}
        for index in range(first, end):
            around = min(reach, index - first, end - 1 - index)
            frames = range(index - around, index + around + 1)
            window = {frame: window[frame] if frame in window else masks[frame] for frame in frames}
            yield _median(list(window.values()))


def _median(masks: list[np.ndarray]) -> np.ndarray:
    """Median of an odd number of masks, a few rows at a time."""
    if len(masks) == 1:
        return masks[0]
    result = np.empty_like(masks[0])
    middle = len(masks) // 2
    for row in range(0, len(result), 64):
        stack = np.stack([mask[row : row + 64] for mask in masks], axis=-1)
        result[row : row + 64] = np.partition(stack, middle, axis=-1)[..., middle]
    return result


def drop_islands(mask: np.ndarray, min_area: int) -> np.ndarray:
    """Takes islands of fewer than ``min_area`` pixels out of a (H, W) mask of bytes, with the soft edge around them."""
    return _drop_small(mask, min_area, keep_at_border=False)


def fill_holes(mask: np.ndarray, max_area: int) -> np.ndarray:
    """Fills holes of up to ``max_area`` pixels in a (H, W) mask of bytes; what touches its edge is no hole."""
    return mask if max_area == 0 else 255 - _drop_small(255 - mask, max_area + 1, keep_at_border=True)


def _drop_small(mask: np.ndarray, min_area: int, keep_at_border: bool) -> np.ndarray:
    """Sets small islands to 0, each with all that is nearer to it than to another one.

    Islands are what is above one half and hangs together, diagonals included.
    """
    import cv2  # half a second at import

    inside = mask > 127
    if min_area <= 1 or not inside.any():
        return mask
    # It numbers the islands, and tells of every pixel outside which of them is nearest: its soft edge.
    _, nearest = cv2.distanceTransformWithLabels(
        np.where(inside, 0, 255).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5, labelType=cv2.DIST_LABEL_CCOMP
    )
    keep = np.bincount(nearest[inside], minlength=int(nearest.max()) + 1) >= min_area
    if keep_at_border:
        for edge in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
            keep[nearest[edge][inside[edge]]] = True
    return np.where(keep[nearest], mask, 0).astype(np.uint8)


def grow(mask: np.ndarray, pixels: int) -> np.ndarray:
    """Grows a (H, W) mask of bytes by a disc; shrinks it by a negative number. The picture's edge is no edge of it."""
    import cv2

    if pixels == 0:
        return mask
    if pixels < 0:
        return 255 - grow(255 - mask, -pixels)
    if not ((mask > 0) & (mask < 255)).any():
        # Of hard masks by distance, which is exact and takes the same time for any number of pixels.
        if not mask.any():
            return mask
        distance = cv2.distanceTransform(255 - mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        return np.where(distance <= pixels, 255, 0).astype(np.uint8)
    times = math.ceil(pixels / _LARGEST_DISC)
    for step in range(times):
        radius = pixels * (step + 1) // times - pixels * step // times
        mask = cv2.dilate(mask, _disc(radius))
    return mask


def _disc(radius: int) -> np.ndarray:
    """(2r + 1, 2r + 1) bytes, 1 where the centre is at most ``radius`` away."""
    steps = np.arange(-radius, radius + 1)
    return (steps[:, None] ** 2 + steps**2 <= radius**2).astype(np.uint8)


def feather(mask: Tensor, pixels: float) -> Tensor:
    """Fades the edge of a (H, W) mask.

    A Gaussian blur whose standard deviation is half of ``pixels``: at that distance outside a straight edge 2 % are
    left, inside 98 % reached, and 0.5 stays where the edge was. Beyond the picture's edge the mask goes on as it is.
    """
    from kornia.filters import gaussian_blur2d  # a second at import

    if pixels == 0:
        return mask
    sigma = pixels / 2
    side = 2 * math.ceil(3 * sigma) + 1
    return gaussian_blur2d(mask[None, None], (side, side), (sigma, sigma), border_type="replicate")[0, 0].clamp_(0, 1)


def found_parts(labels: Tensor) -> dict[int, float]:
    """Share of a clip's pixels (B, H, W) by the id of each part that occurs; the background left out."""
    counts = sum(torch.bincount(frame.flatten().int(), minlength=256) for frame in labels)
    return {part: int(counts[part]) / labels.numel() for part in range(1, 256) if counts[part]}
