"""Weights in eight bits: what they lose, what they save, and that nothing else changes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sapiens2_core import Estimator
from sapiens2_core.checkpoint import load
from sapiens2_core.config import official_config, tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.fp8 import is_stored_in_fp8, quantise
from sapiens2_core.tasks import TASKS

E4M3 = [  # every finite value of the format, from its definition
    sign * (mantissa / 8 * 2**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    for sign in (1, -1)
    for exponent in range(16)
    for mantissa in range(8)
    if (exponent, mantissa) != (15, 7)
]


@pytest.mark.parametrize("exponent", [-14, -3, 0, 5])
def test_what_the_format_holds_is_kept_to_the_last_bit(exponent):
    values = torch.tensor(E4M3) * 2.0**exponent
    stored, scale = quantise(values)
    assert scale == 2.0**exponent
    assert torch.equal(stored.float() * scale, values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_other_weight_goes_to_the_nearest_that_it_holds(dtype):
    weight = (0.02 * torch.randn(500, generator=torch.Generator().manual_seed(0))).to(dtype)
    stored, scale = quantise(weight)
    assert 224 < stored.float().abs().max() <= 448  # the range is used
    nearest = (weight.double()[:, None] / scale - torch.tensor(E4M3, dtype=torch.float64)).abs().min(dim=1).values
    distance = (weight.double() / scale - stored.double()).abs()
    torch.testing.assert_close(distance, nearest, rtol=1e-6, atol=1e-9)


def test_a_weight_of_zeros_stays_one():
    stored, scale = quantise(torch.zeros(3, 4))
    assert torch.equal(stored.float() * scale, torch.zeros(3, 4))


def outputs(model: torch.nn.Module) -> list[Tensor]:
    pixel_values = torch.randn(2, 3, 128, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return [value for value in vars(model(pixel_values)).values() if isinstance(value, Tensor)]


@pytest.mark.parametrize("task", TASKS)
def test_a_network_gives_what_its_rounded_weights_give(task, tmp_path):
    path = tmp_path / "model.safetensors"
    torch.manual_seed(0)
    full = build(tiny_config(task), task).eval()
    full.save_checkpoint(path)
    small = load(path, torch.float32, fp8_weights=True)
    stored = {name for name, parameter in small.named_parameters() if parameter.dtype == torch.float8_e4m3fn}
    assert len(stored) == 18 * 7  # four maps of attention and three of the gated MLP in each layer
    assert all(is_stored_in_fp8(name) for name in stored)
    with torch.no_grad():
        for name, parameter in full.named_parameters():
            if name in stored:
                weight, scale = quantise(parameter)
                parameter.copy_(weight.float() * scale)
    for found, expected in zip(outputs(small), outputs(full), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * expected.std().item())


def test_the_largest_network_takes_about_half_of_bf16():
    with torch.device("meta"):
        sizes = {name: p.numel() for name, p in build(official_config("5b", "normal"), "normal").named_parameters()}
    in_eight = sum(count for name, count in sizes.items() if is_stored_in_fp8(name))
    total = sum(sizes.values())
    assert (2 * total - in_eight) / (2 * total) < 0.53  # convolutions of the head keep their type


def test_an_estimator_takes_them_by_the_name_of_the_precision(tmp_path):
    build(tiny_config("normal"), "normal").save_checkpoint(tmp_path / "model.safetensors")
    frame = torch.rand(3, 64, 48, generator=torch.Generator().manual_seed(0))
    exact, small = (
        next(Estimator.from_checkpoint(tmp_path / "model.safetensors", precision, "cpu").predict([frame]))[0]
        for precision in ("fp32", "fp8 weights")
    )
    cosine = (exact * small).sum(dim=0)
    assert 0.9 < cosine.mean() < 1 - 1e-6
