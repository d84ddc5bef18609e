"""The layers' second way, for inference on x86 CPUs, against PyTorch's own in double precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sapiens2_core import onednn
from sapiens2_core.heads import Sapiens2ConvLayer

if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
    pytest.skip("this PyTorch has no MKL or no oneDNN, so layers keep their usual way", allow_module_level=True)

KINDS = {
    "convolution": lambda: Sapiens2ConvLayer(nn.Conv2d(6, 8, 3, padding=1), 8, False, None),
    "one by one": lambda: Sapiens2ConvLayer(nn.Conv2d(6, 8, 1), 8, False, None),
    "stride": lambda: Sapiens2ConvLayer(nn.Conv2d(6, 8, 3, stride=2, padding=1), 8, False, None),
    "pixel shuffle": lambda: Sapiens2ConvLayer(nn.Conv2d(6, 32, 3, padding=1), 8, True, None),
    "transposed": lambda: Sapiens2ConvLayer(nn.ConvTranspose2d(6, 8, 4, 2, 1, bias=False), 8, False, None),
    "RMS": lambda: Sapiens2ConvLayer(nn.Conv2d(6, 8, 3, padding=1), 8, False, 1e-6),
    "RMS, pixel shuffle": lambda: Sapiens2ConvLayer(nn.Conv2d(6, 32, 3, padding=1), 8, True, 1e-6),
}


def exactly(layer: Sapiens2ConvLayer, x: torch.Tensor) -> torch.Tensor:
    """What the layer gives in double precision, the usual way: gradients are recorded."""
    return layer.double()(x.double()).detach()


@pytest.mark.parametrize("strip", [2**22, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_a_heads_layer_gives_what_pytorchs_layers_give(monkeypatch, kind, strip):
    monkeypatch.setattr(onednn, "_STRIP", strip)
    torch.manual_seed(0)
    layer = KINDS[kind]()
    if hasattr(layer.norm, "weight"):
        nn.init.uniform_(layer.norm.weight, 0.5, 2)
    x = torch.randn(2, 6, 10, 7) + 0.5
    before = x.clone()
    with torch.inference_mode():
        assert onednn.helps(layer.convolution, x)
        found = layer(x)
    assert x.equal(before)
    torch.testing.assert_close(found.double(), exactly(layer, x), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bf16_is_as_near_as_its_digits_allow(kind):
    torch.manual_seed(1)
    layer = KINDS[kind]().bfloat16()
    x = torch.randn(2, 6, 10, 7).bfloat16()
    with torch.inference_mode():
        found = layer(x)
    assert found.dtype == torch.bfloat16
    assert (found - exactly(layer, x)).abs().max() < 0.05


def test_no_digits_are_lost_over_a_large_map_far_from_zero():
    torch.manual_seed(2)
    maps = torch.randn(1, 512, 768, 1, 1, 4) * 0.1 + 20
    values = maps.permute(0, 5, 3, 4, 1, 2).reshape(1, 4, 512, 768).double()
    expected = F.silu(F.instance_norm(values))
    found = onednn.finish(maps, onednn.standardiser)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("shape", [(6,), (5, 6), (2, 5, 6), (2, 3, 4, 6)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_gives_the_same(shape, bias):
    torch.manual_seed(3)
    layer, x = onednn.Linear(6, 9, bias), torch.randn(shape)
    with torch.inference_mode():
        found = layer(x)
    exact = F.linear(x.double(), layer.weight.double(), None if bias is False else layer.bias.double())
    torch.testing.assert_close(found.double(), exact.detach(), rtol=1e-5, atol=1e-6)


def test_a_linear_layer_takes_parts_of_a_tensor():
    torch.manual_seed(4)
    layer, x = onednn.Linear(6, 9), torch.randn(2, 7, 12)[:, 1:5, ::2]
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), rtol=1e-5, atol=1e-6)


def test_other_weights_gradients_and_devices_keep_the_usual_way():
    layer, x = nn.Linear(6, 9), torch.randn(2, 6)
    assert not onednn.helps(layer, x)  # gradients
    with torch.inference_mode():
        assert onednn.helps(layer, x)
        assert not onednn.helps(layer, x.bfloat16())  # a host casts such weights as it uses them
        assert not onednn.helps(layer, x.to("meta"))


def test_a_hosts_linear_layer_is_still_one():
    class HostLinear(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2  # seen where the usual way is taken

    class Operations:
        Linear = HostLinear

    cls = onednn.linear_class(Operations)
    assert issubclass(cls, HostLinear)
    assert onednn.linear_class(Operations) is cls
    layer, x = cls(6, 9), torch.randn(2, 6)
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias) * 2)
