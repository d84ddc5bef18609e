"""The same layers, faster on x86 CPUs: which memory format and which library PyTorch is led to.

Measured on two cores of an AMD EPYC with AVX-512, at the sizes of Sapiens2 0.4b on 1024 × 768 pixels in fp32:

* A linear layer goes to MKL, at 150 to 175 GFLOP/s; the same product as a 1 × 1 convolution goes to oneDNN, at 180 to
  215. In bf16 both go to oneDNN, but the layer first copies its bias to every row: 330 to 400 against 415.
* Convolutions of channels-last maps run at 190 GFLOP/s where those of the usual format fall to 60, which is in the
  last and largest maps of every head. Those of many channels do with half the products: see winograd.py.
* PyTorch's instance norm copies a channels-last map twice, and its batch norm loses digits there (4e-4 at a million
  pixels). Here a map is normalised, activated and, after a pixel shuffle's convolution, moved to its place in strips
  that stay in the cache.

All of it is for inference on the CPU, where :func:`helps` says so; elsewhere layers are what their classes say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import winograd
from .precision import cpu_computes_bf16

#: Values of a map that are worked on at once, 8 MB in fp32: caches hold them, and there are few steps to wait for.
_STRIP = 2**21


def helps(layer: nn.Module, x: Tensor) -> bool:
    """Whether a layer's weights can be used as they lie, and PyTorch has both libraries: x86, that is.

    Not while gradients are recorded, since work is done in place; nor in compiled networks, which fuse by themselves.
    """
    return (
        not torch.compiler.is_compiling()  # first: the questions below can't be compiled
        and x.device.type == "cpu"
        and layer.weight.device == x.device
        and layer.weight.dtype == x.dtype
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkl.is_available()
        and not torch.is_grad_enabled()
    )


class OneDnnLinear(nn.Module):
    """Mixed into a linear layer: its forward through oneDNN where that helps."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, inputs) → (…, outputs)."""
        is_fast = x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and cpu_computes_bf16())
        if not is_fast or not helps(self, x):
            return super().forward(x)
        columns = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)  # (1, inputs, rows, 1), channels last
        product = F.conv2d(columns, self.weight[:, :, None, None], self.bias)
        return product.permute(0, 2, 3, 1).reshape(*x.shape[:-1], -1)


class Linear(OneDnnLinear, nn.Linear):
    """nn.Linear through oneDNN where that helps."""


@cache
def linear_class(operations) -> type[nn.Linear]:
    """The linear layer of a namespace of layers, through oneDNN where that helps."""
    return Linear if operations is nn else type("Linear", (OneDnnLinear, operations.Linear), {})


def convolve(layer: nn.Conv2d | nn.ConvTranspose2d, x: Tensor, side: int) -> Tensor:
    """A channels-last convolution; (B, C, H, W) → (B, H', W', side, side, outputs).

    ``side`` is 1, or 2 where a pixel shuffle follows: each position's channels are then sorted by the pixel that they
    become, so that whole pixels can be moved.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    if isinstance(layer, nn.ConvTranspose2d):
        maps = F.conv_transpose2d(x, layer.weight, layer.bias, layer.stride, layer.padding)
    else:
        weight, bias = layer.weight, layer.bias
        if side > 1:
            weight, bias = (one.unflatten(0, (-1, side**2)).transpose(0, 1).flatten(0, 1) for one in (weight, bias))
        if winograd.pays(layer, x):
            maps = winograd.convolve(x.permute(0, 2, 3, 1), weight, bias)
            return maps.unflatten(-1, (side, side, -1))
        maps = F.conv2d(x, weight, bias, layer.stride, layer.padding)
    maps = maps.contiguous(memory_format=torch.channels_last)  # a map of one channel or one pixel may say otherwise
    return maps.permute(0, 2, 3, 1).unflatten(-1, (side, side, -1))


def standardiser(maps: Tensor, eps: float = 1e-5) -> Callable[[Tensor], Tensor]:
    """Instance norm of one (rows, columns, side, side, C) map: a function that changes fp32 strips of it in place.

    Mean and sum of squares around it are joined from those of strips (Chan, Golub & LeVeque 1983), so that the map is
    read once; all in fp32, and nothing cancels.
    """
    pixels = maps.flatten(0, -2)
    mean = torch.zeros(pixels.shape[1])
    squares, count = torch.zeros_like(mean), 0
    for strip in pixels.split(max(1, _STRIP // len(mean))):
        strip = strip.float()
        own_mean = strip.mean(0)
        difference = own_mean - mean
        total = count + len(strip)
        squares += (strip - own_mean).square_().sum(0) + difference.square() * (count * len(strip) / total)
        mean += difference * (len(strip) / total)
        count = total
    factor = (squares / count + eps).rsqrt()
    return lambda strip: strip.sub_(mean).mul_(factor)


def finish(maps: Tensor, normaliser: Callable[[Tensor], Callable[[Tensor], Tensor]]) -> Tensor:
    """Normalises and activates what :func:`convolve` gave, and shuffles its pixels, strip by strip.

    Args:
        maps: (B, rows, columns, side, side, C); overwritten.
        normaliser: takes one sample's map and gives what normalises fp32 strips of it, as :func:`standardiser` does.

    Returns:
        (B, C, rows · side, columns · side), channels last.
    """
    batch, rows, columns, side, _, channels = maps.shape
    finished = maps if side == 1 else maps.new_empty(batch, rows, side, columns, side, channels).transpose(2, 3)
    height = max(1, _STRIP // maps[0, 0].numel())
    for sample, target in zip(maps, finished, strict=True):
        normalise = normaliser(sample)
        for strip, place in zip(sample.split(height), target.split(height), strict=True):
            place.copy_(F.silu(normalise(strip.float()), inplace=True))
    finished = finished.transpose(2, 3).reshape(batch, rows * side, columns * side, channels)
    return finished.permute(0, 3, 1, 2)
