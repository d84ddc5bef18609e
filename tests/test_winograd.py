"""3 × 3 convolutions by fewer products, against PyTorch's own in double precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sapiens2_core import onednn, winograd


def exactly(maps: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The convolution of (B, rows, columns, inputs) maps in double precision."""
    bias = None if bias is None else bias.double()
    return F.conv2d(maps.permute(0, 3, 1, 2).double(), weight.double(), bias, padding=1).permute(0, 2, 3, 1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tiles", [1, 7, 768])
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (5, 2), (6, 3), (7, 4), (12, 11), (9, 16)])
def test_every_size_of_map_and_strip_gives_the_convolution(monkeypatch, size, tiles, bias):
    monkeypatch.setattr(winograd, "_TILES", tiles)
    torch.manual_seed(0)
    maps, weight = torch.randn(2, *size, 5), torch.randn(3, 5, 3, 3)
    bias = torch.randn(3) if bias else None
    before = maps.clone()
    with torch.inference_mode():
        found = winograd.convolve(maps, weight, bias)
    assert maps.equal(before)
    torch.testing.assert_close(found.double(), exactly(maps, weight, bias), rtol=1e-5, atol=2e-5)


def test_at_the_size_of_a_head_it_is_as_exact_as_the_direct_way():
    torch.manual_seed(1)
    maps, weight, bias = torch.randn(1, 12, 16, 512), torch.randn(64, 512, 3, 3) / 68, torch.randn(64)
    exact = exactly(maps, weight, bias)
    with torch.inference_mode():
        found = winograd.convolve(maps, weight, bias)
        direct = F.conv2d(maps.permute(0, 3, 1, 2), weight, bias, padding=1).permute(0, 2, 3, 1)
    error = (found - exact).square().mean().sqrt()
    assert error < 2e-6
    assert error < 2 * (direct - exact).square().mean().sqrt()  # half of it on AVX-512; other libraries sum otherwise


@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("columns", [8, 6])
def test_a_heads_layer_takes_it_and_gives_the_same(monkeypatch, side, columns):
    torch.manual_seed(2)
    calls = []
    convolve = winograd.convolve
    monkeypatch.setattr(winograd, "convolve", lambda *given: calls.append(1) or convolve(*given))
    layer, x = nn.Conv2d(256, 8 * side**2, 3, padding=1), torch.randn(2, 256, 5, columns)
    with torch.inference_mode():
        found = onednn.finish(onednn.convolve(layer, x, side), onednn.standardiser)
    assert calls
    shuffled = F.pixel_shuffle(layer.double()(x.double()), side).detach()
    torch.testing.assert_close(found.double(), F.silu(F.instance_norm(shuffled)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(128, 8, 3, padding=1),
        nn.Conv2d(256, 8, 1),
        nn.Conv2d(256, 8, 3),
        nn.Conv2d(256, 8, 3, stride=2, padding=1),
        nn.ConvTranspose2d(256, 8, 3, padding=1),
    ],
    ids=["few channels", "one by one", "no border", "stride", "transposed"],
)
def test_other_layers_keep_the_usual_way(layer):
    assert not winograd.pays(layer, torch.zeros(1, layer.in_channels, 4, 4))


def test_bf16_keeps_the_usual_way():
    layer = nn.Conv2d(256, 8, 3, padding=1)
    assert winograd.pays(layer, torch.zeros(1, 256, 4, 4))
    assert not winograd.pays(layer.bfloat16(), torch.zeros(1, 256, 4, 4, dtype=torch.bfloat16))
