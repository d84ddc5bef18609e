"""What a backbone sees: its patches as a picture, its CLS tokens compared."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def features_to_rgb(patch_tokens: Tensor, foreground: Tensor | None = None) -> Tensor:
    """Features as colours: the first three principal components of all patches, each spread over 0..1.

    One set of axes serves all frames, so that a clip's colours are steady. The sign of a component is arbitrary;
    here its largest loading is positive, so that a picture can be reproduced.

    Args:
        patch_tokens: (B, C, h, w) of any float type.
        foreground: (B, h, w) bool; only these patches are looked at, the others are black. None takes all.

    Returns:
        (B, 3, h, w) float32; grey where all tokens are alike, black where there is no foreground.
    """
    batch, channels, rows, columns = patch_tokens.shape
    if foreground is None:
        foreground = torch.ones(batch, rows, columns, dtype=torch.bool, device=patch_tokens.device)
    pictures = torch.zeros(batch, 3, rows, columns, device=patch_tokens.device)
    if not foreground.any():
        return pictures
    # Frame by frame: a clip's tokens may be kept in half precision, and are never all doubled at once.
    count = foreground.sum()
    mean = sum(_tokens(frame, where).sum(dim=0) for frame, where in zip(patch_tokens, foreground, strict=True)) / count
    covariance = torch.zeros(channels, channels, dtype=torch.float64, device=patch_tokens.device)
    for frame, where in zip(patch_tokens, foreground, strict=True):
        centred = _tokens(frame, where) - mean
        covariance += centred.T @ centred
    _, axes = torch.linalg.eigh(covariance)  # ascending
    axes = axes[:, -3:].flip(-1)
    axes = axes * axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign()
    projected = [(_tokens(frame, where) - mean) @ axes for frame, where in zip(patch_tokens, foreground, strict=True)]
    colours = _spread(torch.cat(projected), patch_tokens.abs().max().double())
    pictures.movedim(1, -1)[foreground] = colours.float()
    return pictures


def _tokens(frame: Tensor, where: Tensor) -> Tensor:
    """The chosen patches of (C, h, w) as (patches, C) float64."""
    return frame.movedim(0, -1)[where].double()


def _spread(components: Tensor, magnitude: Tensor) -> Tensor:
    """(N, 3) with each column's 1st and 99th percentile brought to 0 and 1; 0.5 where a column is flat."""
    count = len(components)
    ordered = components.sort(dim=0).values  # torch.quantile refuses more than 16 million numbers
    low, high = ordered[round(0.01 * (count - 1))], ordered[round(0.99 * (count - 1))]
    flat = high - low <= 1e-9 * magnitude.clamp_min(1e-30)
    scaled = ((components - low) / torch.where(flat, 1.0, high - low)).clamp(0, 1)
    return torch.where(flat, 0.5, scaled)


def cosine_similarity(cls_tokens: Tensor, others: Tensor) -> Tensor:
    """How alike images are to the network: 1 for the same, about 0 for nothing in common.

    Args:
        cls_tokens: (B, C).
        others: (B, C), or (1, C) for all.

    Returns:
        (B,) -1..1.
    """
    return F.cosine_similarity(cls_tokens.float(), others.float(), dim=-1)
