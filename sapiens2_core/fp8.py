"""Linear layers whose weights are kept in eight bits: half of bf16's memory, computed in the usual types."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Four bits of exponent, three of mantissa, no infinity; 448 is the largest.
STORAGE = torch.float8_e4m3fn

#: What the transformer's layers call their linear maps, which hold nearly all weights. Those of the scale branch have
#: other names: they are few, and every metre depends on them.
_SUFFIX = "_proj.weight"


def is_stored_in_fp8(name: str) -> bool:
    """Whether a parameter of this name is one that takes eight bits."""
    return name.endswith(_SUFFIX)


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A weight as ``stored`` · ``scale``: in eight bits, and a power of two by which it uses their range.

    A power of two, since multiplying by it costs no digits in any type.

    Args:
        weight: of any float type.

    Returns:
        ``stored`` of type :data:`STORAGE`, and ``scale`` as a float32 scalar on the CPU.
    """
    largest = float(weight.abs().max())
    exponent = math.ceil(math.log2(largest / torch.finfo(STORAGE).max)) if largest > 0 else 0
    scale = 2.0**exponent
    return (weight.float() / scale).to(STORAGE), torch.tensor(scale)


class _CastingLinear(nn.Linear):
    """torch's, with its weights cast to the input's type."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, inputs) → (…, outputs)."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


class _ScaledLinear(nn.Module):
    """Mixed into a linear layer that casts its weights: the stored weight's scale, put on the input."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.register_buffer("weight_scale", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…, inputs) → (…, outputs)."""
        return super().forward(x if self.weight_scale is None else x * self.weight_scale)


@cache
def fp8_operations(operations=nn) -> type:
    """A namespace of layers like ``operations``, whose linear ones can hold weights of :func:`quantise`."""
    linear = type("Linear", (_ScaledLinear, _CastingLinear if operations is nn else operations.Linear), {})
    others = {name: getattr(operations, name) for name in ("Conv2d", "ConvTranspose2d")}
    return type("Fp8Operations", (), {"Linear": linear, **others})


def set_scales(model: nn.Module, scales: dict[str, Tensor]) -> None:
    """Gives layers of :func:`fp8_operations` the scales of their weights, by the weights' names."""
    for name, scale in scales.items():
        model.get_submodule(name.removesuffix(".weight")).weight_scale = scale
