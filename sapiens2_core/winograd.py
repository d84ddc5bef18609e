"""3 × 3 convolutions with half the products: Winograd's way along the columns, and the usual one along the rows.

Four neighbouring outputs of a row need six inputs and, for each of the kernel's three rows, six products where the
direct way takes twelve: F(4, 3) of Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks" (arXiv
1509.09308), with the points 0, 1, −1, 2, −2 and ∞. Six 3 × 1 convolutions of maps with a quarter of the columns do the
work. Fewer products are also fewer roundings: in fp32, with 256 channels or more, the error against double precision
is half of the direct way's. In both directions at once, F(4 × 4, 3 × 3) saves more and is ten times less exact.

In bf16 the sums before the products would be rounded to three digits, so this is for fp32 alone.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Fewer channels are moved more than multiplied, and the direct way is faster.
_CHANNELS = 256

#: Groups of four outputs that are worked on at once: enough for the products, and few enough for the caches.
_TILES = 768


def pays(layer: nn.Module, x: Tensor) -> bool:
    """Whether a layer is a 3 × 3 convolution of single steps that this module computes faster."""
    return (
        x.dtype == torch.float32
        and isinstance(layer, nn.Conv2d)
        and (layer.kernel_size, layer.stride, layer.padding) == ((3, 3), (1, 1), (1, 1))
        and layer.in_channels >= _CHANNELS
    )


def convolve(maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution with a border of zeros.

    Args:
        maps: (B, rows, columns, inputs), fp32.
        weight: (outputs, inputs, 3, 3).
        bias: (outputs,) or None.

    Returns:
        (B, rows, columns, outputs).
    """
    batch, rows, columns, _ = maps.shape
    tiles = -(-columns // 4)
    kernels = _transform_kernel(weight)
    outputs = maps.new_empty(batch, rows, tiles, 4, len(weight))
    height = max(1, _TILES // tiles)
    for sample, target in zip(maps, outputs, strict=True):
        for top in range(0, rows, height):
            bottom = min(top + height, rows)
            strip = sample[max(0, top - 1) : bottom + 1]
            border = (0, 0, 1, 4 * tiles + 1 - columns, int(top == 0), int(bottom == rows))
            _convolve_strip(F.pad(strip, border), kernels, bias, target[top:bottom])
    return outputs.flatten(2, 3)[:, :, :columns]


def _transform_kernel(weight: Tensor) -> list[Tensor]:
    """(outputs, inputs, 3, 3) → six of (outputs, inputs, 3, 1)."""
    left, middle, right = weight.split(1, dim=3)
    outer, far = left + right, left + 4 * right
    return [
        left / 4,
        (outer + middle) / -6,
        (outer - middle) / -6,
        torch.add(far, middle, alpha=2) / 24,
        torch.sub(far, middle, alpha=2) / 24,
        right,
    ]


def _transform_inputs(strip: Tensor) -> list[Tensor]:
    """(rows, 4 · tiles + 2, inputs) → six of (rows, tiles, inputs)."""
    d0, d1, d2, d3, d4, d5 = (strip[:, first : strip.shape[1] - 5 + first : 4] for first in range(6))
    even, odd = torch.sub(d4, d2, alpha=4), torch.sub(d3, d1, alpha=4)
    even_far, odd_far = d4 - d2, d3 - d1
    return [
        torch.sub(d0, d2).mul_(4).add_(even_far),
        even + odd,
        even.sub_(odd),
        torch.add(even_far, odd_far, alpha=2),
        torch.sub(even_far, odd_far, alpha=2),
        torch.sub(d5, d3).sub_(odd_far, alpha=4),
    ]


def _convolve_strip(strip: Tensor, kernels: list[Tensor], bias: Tensor | None, target: Tensor) -> None:
    """(rows + 2, 4 · tiles + 2, inputs) → into (rows, tiles, 4, outputs)."""
    biases = (None, bias, None, None, None, None)  # the second product is in each of the four outputs once
    first, plus, minus, plus_far, minus_far, last = (
        F.conv2d(inputs.permute(2, 0, 1)[None], kernel, one_bias)[0].permute(1, 2, 0)
        for inputs, kernel, one_bias in zip(_transform_inputs(strip), kernels, biases, strict=True)
    )
    even, odd = plus + minus, plus.sub_(minus)
    even_far, odd_far = plus_far + minus_far, plus_far.sub_(minus_far)
    torch.add(first.add_(even), even_far, out=target[:, :, 0])
    torch.add(odd, odd_far, alpha=2, out=target[:, :, 1])
    torch.add(even, even_far, alpha=4, out=target[:, :, 2])
    torch.add(last.add_(odd), odd_far, alpha=8, out=target[:, :, 3])
