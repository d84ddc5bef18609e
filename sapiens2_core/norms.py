"""Normalisation layers and the learned scale, over parameters that may lie on another device than their input.

ComfyUI's partial loading moves the layers of its ``operations`` namespace on demand, but can leave a bare parameter
where it was: so each is cast to its input's device and type where it is used.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import onednn


class RMSNorm(nn.Module):
    """Root-mean-square normalisation of the last dimension, with a weight."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(…, size) → the same shape."""
        return F.rms_norm(x, self.weight.shape, self.weight.to(x), self.eps)


class ChannelRMSNorm(RMSNorm):
    """RMSNorm over the channels of a (B, C, H, W) map, at each pixel (the albedo head's)."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → the same shape."""
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)

    def for_strips(self, _maps: Tensor) -> Callable[[Tensor], Tensor]:
        """See :func:`.onednn.finish`."""
        return super().forward


class InstanceNorm(nn.Module):
    """InstanceNorm2d without parameters. Functional: ComfyUI's operations namespace has no such layer."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → the same shape, each channel of mean 0 and variance 1."""
        return F.instance_norm(x)

    def for_strips(self, maps: Tensor) -> Callable[[Tensor], Tensor]:
        """See :func:`.onednn.finish`."""
        return onednn.standardiser(maps)


class LayerScale(nn.Module):
    """A learned factor per channel."""

    def __init__(self, size: int, initial: float) -> None:
        super().__init__()
        self.lambda1 = nn.Parameter(torch.full((size,), float(initial)))

    def forward(self, x: Tensor) -> Tensor:
        """(…, size) → the same shape."""
        return x * self.lambda1.to(x)
