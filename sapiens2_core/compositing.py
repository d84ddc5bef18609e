"""A foreground, its alpha and a background: laid over each other, and the colour taken apart again."""

from __future__ import annotations

import torch
from torch import Tensor

from .maps import resize_map


def composite(foreground: Tensor, alpha: Tensor, background: Tensor) -> Tensor:
    """A premultiplied foreground over a background: foreground + (1 − alpha) · background.

    Args:
        foreground: (…, 3, H, W), premultiplied by alpha.
        alpha: (…, 1, H, W), 1 = foreground.
        background: (…, 3, H, W), or anything that broadcasts to it: (3, 1, 1) is one colour.
    """
    return foreground + (1 - alpha) * background


def straight_colour(foreground: Tensor, alpha: Tensor) -> Tensor:
    """The colour of a premultiplied foreground: foreground / alpha, clamped to 0..1; 0 where alpha is 0.

    Args:
        foreground: (…, 3, H, W), premultiplied by alpha.
        alpha: (…, 1, H, W).
    """
    covered = alpha > 0
    return torch.where(covered, foreground / torch.where(covered, alpha, 1.0), 0.0).clamp(0, 1)


def composite_bytes(foreground: Tensor, alpha: Tensor, background: Tensor) -> Tensor:
    """Lays a premultiplied foreground over a background: foreground + (1 − alpha) · background.

    Args:
        foreground: (3, H, W) 0..1, premultiplied.
        alpha: (1, H, W) 0..1.
        background: (3, h, w) 0..1; resized to (H, W) where it differs.

    Returns:
        (3, H, W) uint8. A value v becomes floor(v · 255.999), as torchvision turns floats into bytes.
    """
    if background.shape[-2:] != foreground.shape[-2:]:
        background = resize_map(background, tuple(foreground.shape[-2:]))
    return composite(foreground, alpha, background).clamp_(0.0, 1.0).mul_(256 - 1e-3).to(torch.uint8)
