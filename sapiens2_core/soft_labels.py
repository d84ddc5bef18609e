"""Probabilities of body parts, small enough to keep for every frame of a clip.

All 29 at the network's 1024 × 768 would be 91 MB a frame. Nearly everywhere one part is certain, and at an edge two or
three compete: the :data:`NUM_LIKELY` likeliest are kept in a byte each for the id and the probability, at the size of
the frame or of the network's output, whichever is smaller. So a frame's take at most 6.3 MB, and never more than two
thirds of the frame itself, (H, W, 3) float32.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .maps import resize_map
from .results import LikelyParts

#: Parts kept per pixel.
NUM_LIKELY = 4


def likely_parts(logits: Tensor, size: tuple[int, int]) -> LikelyParts:
    """The likeliest parts of each pixel.

    Args:
        logits: (classes, h, w) of any float type.
        size: (height, width) of the frame.

    Returns:
        On the CPU. What the parts that aren't kept had is given to those that are, in proportion, and what rounding
        leaves over to the first: the probabilities of parts and those of all others sum to 1 exactly.
    """
    smaller = tuple(min(sides) for sides in zip(logits.shape[-2:], size, strict=True))
    probabilities, ids = resize_map(logits, smaller).softmax(dim=0).topk(min(NUM_LIKELY, len(logits)), dim=0)
    in_bytes = (probabilities / probabilities.sum(dim=0) * 255).round().to(torch.uint8)
    in_bytes[0] = 255 - in_bytes[1:].sum(dim=0)
    return LikelyParts(ids.to(torch.uint8).cpu(), in_bytes.cpu())


def probability_of(likely: LikelyParts, parts: tuple[int, ...], size: tuple[int, int]) -> Tensor:
    """How likely each pixel belongs to any of some parts.

    Args:
        likely: of a frame.
        parts: ids.
        size: (height, width) of the frame.

    Returns:
        (*size) uint8, in 1/255.
    """
    is_chosen = torch.zeros(256, dtype=torch.bool)
    is_chosen[list(parts)] = True
    total = torch.zeros(likely.ids.shape[1:], dtype=torch.uint8)
    for ids, probabilities in zip(likely.ids, likely.probabilities, strict=True):
        total += probabilities * is_chosen[ids.int()]
    if tuple(total.shape) == size:
        return total
    enlarged = F.interpolate(total[None, None].float(), size, mode="bilinear", align_corners=False)[0, 0]
    return enlarged.round_().to(torch.uint8)
