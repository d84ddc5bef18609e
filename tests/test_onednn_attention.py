"""bf16 attention through oneDNN, against PyTorch's attention in double precision and its fused kernel."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sapiens2_core import attention, onednn_attention


def heads(batch: int, query_heads: int, key_heads: int, tokens: int, size: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values in bf16, as layers give them: heads moved before tokens."""
    torch.manual_seed(0)
    counts = query_heads, key_heads, key_heads
    return tuple(torch.randn(batch, tokens, n, size).bfloat16().transpose(1, 2) for n in counts)


def exactly(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query.double(), key.double(), value.double(), enable_gqa=True)


def root_mean_square(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


@pytest.fixture
def here():
    if not onednn_attention._has_fused_sigmoid():
        pytest.skip("this PyTorch or this CPU has no sigmoid fused to a bf16 product")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("block", [2**20, 900])
@pytest.mark.parametrize("scale", [0.5, 1, 2, 3])
@pytest.mark.parametrize("counts", [(2, 2, 2, 100), (1, 4, 2, 37), (2, 6, 2, 65), (1, 1, 1, 1)])
def test_it_is_as_exact_as_bf16_allows(monkeypatch, counts, scale, block):
    monkeypatch.setattr(onednn_attention, "_BLOCK", block)
    query, key, value = heads(*counts)
    query = query * scale
    with torch.inference_mode():
        shift = onednn_attention.shift_of_logits(query, key)
        found = onednn_attention.attend(query, key, value, shift)
        fused = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    exact = exactly(query, key, value)
    assert (found.shape, found.dtype) == (exact.shape, torch.bfloat16)
    rounding = 2.5e-3 * root_mean_square(exact)  # the quotient of rounded sums
    assert root_mean_square(found - exact) < 1.5 * root_mean_square(fused - exact) + rounding


@pytest.mark.usefixtures("here")
def test_keys_far_below_the_largest_keep_their_weight():
    query, key, value = heads(1, 1, 1, 64)
    query[..., 1:], key[..., 1:] = 0, 0
    query[..., 0], key[..., 0] = 8, torch.linspace(-10, 0, 64)  # logits from -10 to 0
    query[0, 0, 0, 0] = 30  # one query for which a shift far above the others' logits is needed
    with torch.inference_mode():
        shift = onednn_attention.shift_of_logits(query, key)
        found = onednn_attention.attend(query, key, value, shift)
    torch.testing.assert_close(found.double(), exactly(query, key, value), rtol=0.02, atol=0.01)


@pytest.mark.parametrize("scale", [1, 1000])
def test_the_shift_puts_every_querys_logits_where_the_sigmoid_is_the_exponential(scale):
    query, key, _ = heads(2, 4, 2, 50)
    query = query * scale
    shift = onednn_attention.shift_of_logits(query, key)
    if scale == 1000:
        assert shift is None
        return
    logits = torch.matmul(query.double(), key.double().repeat_interleave(2, dim=1).transpose(2, 3)) / 8
    shifted = logits.unflatten(1, (2, 2)) + shift[:, :, None, None, None]
    assert shifted.max() <= onednn_attention._HIGHEST + 1e-4
    assert shifted.amax(-1).min() >= onednn_attention._LOWEST


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("case", ["as it is", "spread too far", "dropout", "other size", "fp32", "gradients"])
def test_what_it_cant_do_goes_to_the_fused_kernel(monkeypatch, case):
    monkeypatch.setattr(onednn_attention, "cpu_computes_bf16", lambda: True)
    calls = []
    attend = onednn_attention.attend
    monkeypatch.setattr(onednn_attention, "attend", lambda *given: calls.append(1) or attend(*given))
    query, key, value = heads(1, 4, 2, 40, 32 if case == "other size" else 64)
    if case == "spread too far":
        query = query * 100
    if case == "fp32":
        query, key, value = query.float(), key.float(), value.float()
    with torch.inference_mode(case != "gradients"):
        found = attention.scaled_dot_product_attention(query, key, value, 1e-9 if case == "dropout" else 0.0)
    assert bool(calls) == (case == "as it is")
    torch.testing.assert_close(found.double(), exactly(query, key, value), rtol=0.02, atol=0.01)


def test_a_pytorch_without_the_fused_operation_is_not_asked_for_it(monkeypatch):
    def missing(*_):
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_linear_pointwise'")

    def rounds_the_product(rows, columns, shifts):
        return torch.sigmoid(rows @ columns.t() + shifts - 1)

    for broken in (missing, rounds_the_product):
        monkeypatch.setattr(onednn_attention, "_sigmoid_of_product", broken)
        assert not onednn_attention._has_fused_sigmoid.__wrapped__()
