"""Dense maps back to the size of their images, one map at a time and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from .crops import Size, letterbox


def resize_map(values: Tensor, size: Size) -> Tensor:
    """Resizes a map (C, h, w) to (C, *size), bilinear, without antialiasing, in float32."""
    return F.interpolate(values.float()[None], size=size, mode="bilinear", align_corners=False)[0]


def restore_maps(
    maps: Tensor,
    source_sizes: list[Size] | None,
    target_sizes: list[Size] | None,
    do_remove_padding: bool,
    decode: Callable[[Tensor, int], Tensor] = lambda values, index: values,
) -> Iterator[Tensor]:
    """Takes each map of a batch out of its letterbox and resizes it.

    Args:
        maps: (B, C, h, w) of any float type, as large as the network's input.
        source_sizes: B times the (height, width) of the image; needed to remove padding.
        target_sizes: B times the (height, width) of the result; None takes ``source_sizes``, and where that is None
            too the map's own size.
        do_remove_padding: whether the images were letterboxed.
        decode: called with each map (C, h, w) float32 and its index before it is cut and resized.

    Yields:
        (C, H, W) float32.
    """
    sizes = target_sizes if target_sizes is not None else source_sizes
    for index, values in enumerate(maps):
        result = decode(values.float(), index)
        if do_remove_padding:
            result = letterbox(source_sizes[index], tuple(maps.shape[-2:])).cut(result)
        yield result if sizes is None else resize_map(result, sizes[index])


def resize_argmax(logits: Tensor, size: Size) -> Tensor:
    """The class with the highest logit at each pixel of the resized map; of equals the first.

    Resizing all classes and then comparing would need them all at once: 29 classes at 3840 × 2160 are 962 MB. Here each
    class is resized, compared with the best so far and released, which gives the same labels bit for bit.

    Args:
        logits: (classes, h, w) of any float type; compared in float32.
        size: (height, width) of the result.

    Returns:
        (*size) int64.
    """
    labels = torch.zeros(size, dtype=torch.int16, device=logits.device)
    best = resize_map(logits[:1], size)[0]
    for label in range(1, len(logits)):
        plane = resize_map(logits[label : label + 1], size)[0]
        labels.masked_fill_(plane > best, label)
        torch.maximum(best, plane, out=best)
    return labels.long()
