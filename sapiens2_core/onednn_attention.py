"""Attention in bf16 through oneDNN, faster on x86 CPUs than PyTorch's fused kernel.

That kernel multiplies, takes exponentials and multiplies again in loops of its own; of 3081 tokens' time, as Sapiens2
has at 1024 × 768 pixels, a third is spent on products. Here both products are oneDNN's, and the exponentials come with
the first: oneDNN can apply a sigmoid to a product before it is rounded to bf16, and far below zero the sigmoid *is* the
exponential, sigmoid(x) = eˣ / (1 + eˣ). Logits are shifted there, which cancels in the softmax's quotient. So logits
stay in fp32, as in the fused kernel, and only weights are rounded, as there.

1.5 times as fast as the fused kernel on two cores of an AMD EPYC with AVX512-BF16.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from .precision import cpu_computes_bf16

#: Logits end up below this: e⁻⁸ differs from its sigmoid by 3e-4 of itself, a twelfth of bf16's step.
_HIGHEST = -8.0

#: Every query's largest logit ends up above this, so that keys of e⁻¹⁴ of its weight are still above fp32's and bf16's
#: smallest number of full precision, e⁻⁸⁷.
_LOWEST = -73.0

#: Logits computed at once: 2 MB in bf16, which caches hold.
_BLOCK = 2**20


def helps(query: Tensor) -> bool:
    """Whether (B, heads, tokens, d) queries can be attended with here."""
    return (
        not torch.compiler.is_compiling()
        and query.device.type == "cpu"
        and query.dtype == torch.bfloat16
        and query.shape[-1] == 64  # √d is a power of two: queries are divided by it without rounding
        and not torch.is_grad_enabled()
        and cpu_computes_bf16()
        and _has_fused_sigmoid()
    )


def shift_of_logits(query: Tensor, key: Tensor) -> Tensor | None:
    """What to add to each key/value head's logits, (B, kv heads); None if they spread too far for one shift.

    By Cauchy and Schwarz no logit is above the product of the longest query and the longest key; and every query's
    largest logit is at least its mean logit.
    """
    groups = query.shape[1] // key.shape[1]
    query, key = query.float() * query.shape[-1] ** -0.5, key.float()
    longest_query = query.norm(dim=-1).amax(-1).unflatten(1, (-1, groups)).amax(-1)
    highest = longest_query * key.norm(dim=-1).amax(-1)
    means = torch.matmul(query, key.mean(2, keepdim=True).repeat_interleave(groups, dim=1).transpose(2, 3))
    lowest = means.amin((2, 3)).unflatten(1, (-1, groups)).amin(-1)
    if not (highest - lowest <= _HIGHEST - _LOWEST).all():
        return None
    return _HIGHEST - highest


def attend(query: Tensor, key: Tensor, value: Tensor, shift: Tensor) -> Tensor:
    """Attention of (B, heads, tokens, d) queries over (B, kv heads, tokens, d) keys and values.

    Args:
        query, key, value: bf16, where :func:`helps` says so.
        shift: what :func:`shift_of_logits` gave.
    """
    batch, heads, tokens, size = query.shape
    groups = heads // key.shape[1]
    outputs = query.new_empty(batch, tokens, heads, size).transpose(1, 2)
    blocks = -(-tokens * key.shape[2] // _BLOCK)
    for sample in range(batch):
        for head in range(heads):
            source = sample, head // groups
            keys, values = key[source].contiguous(), value[source].contiguous()
            shifts = keys.new_full(keys.shape[:1], shift[source].item())
            queries = query[sample, head] * size**-0.5
            targets = outputs[sample, head].tensor_split(blocks)
            for block, target in zip(queries.tensor_split(blocks), targets, strict=True):
                weights = _sigmoid_of_product(block, keys, shifts)
                torch.div(weights @ values, weights.sum(1, keepdim=True, dtype=torch.float32), out=target)
    return outputs


def _sigmoid_of_product(rows: Tensor, columns: Tensor, shifts: Tensor) -> Tensor:
    """sigmoid(rows · columnsᵀ + shifts), rounded once."""
    return torch.ops.mkldnn._linear_pointwise(rows, columns, shifts, "sigmoid", [], "")


@cache
def _has_fused_sigmoid() -> bool:
    """Whether this PyTorch has the fused operation, and it does what is said above.

    torch.compile uses it on CPUs, from PyTorch 2.0 on, but it has no public name: so it is asked once for a known sum.
    """
    # 64 · 1/8 · 1/8 = 1, and sigmoid(1 − 41) = e⁻⁴⁰ to bf16's eight bits; a product rounded before it would be 0.
    rows, shifts = torch.full((16, 64), 0.125, dtype=torch.bfloat16), torch.full((16,), -41.0, dtype=torch.bfloat16)
    try:
        with torch.no_grad():
            found = _sigmoid_of_product(rows, rows, shifts)
    except (AttributeError, RuntimeError, TypeError):
        return False
    expected = torch.full((16, 16), -40.0).exp()
    return found.shape == expected.shape and bool(torch.allclose(found.float(), expected, rtol=2**-8, atol=0))
