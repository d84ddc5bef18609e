"""Dense maps against torch's own resizing, and how much memory they take."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from sapiens2_core.compositing import composite_bytes
from sapiens2_core.crops import letterbox
from sapiens2_core.maps import resize_argmax, resize_map, restore_maps


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(29, 64, 48), (3, 7, 5), (1, 20, 30)])
@pytest.mark.parametrize("size", [(64, 48), (333, 501), (20, 11), (1, 1), (500, 1)])
def test_labels_are_those_of_resizing_all_classes_at_once(shape, size):
    logits = noise(*shape)
    expected = F.interpolate(logits[None], size=size, mode="bilinear")[0].argmax(dim=0)
    labels = resize_argmax(logits, size)
    assert labels.dtype == torch.int64
    assert torch.equal(labels, expected)


def test_of_equal_classes_the_first_wins():
    logits = torch.zeros(5, 4, 4)
    logits[[2, 4]] = 1.0
    assert torch.equal(resize_argmax(logits, (9, 9)), torch.full((9, 9), 2))


def test_labels_of_half_precision_are_compared_in_float32():
    logits = noise(29, 32, 24).bfloat16()
    expected = F.interpolate(logits.float()[None], size=(100, 90), mode="bilinear")[0].argmax(dim=0)
    assert torch.equal(resize_argmax(logits, (100, 90)), expected)


PEAK = """
import resource, sys, torch
from sapiens2_core.maps import resize_argmax
from sapiens2_core.soft_labels import likely_parts, probability_of
def hard(size):
    resize_argmax(logits, size)
def soft(size):
    hard(size)
    probability_of(likely_parts(logits, size), (4, 13, 23), size)
kind = {"hard": hard, "soft": soft}[sys.argv[1]]
logits = torch.randn(29, 1024, 768)
kind((64, 64))  # what torch takes on its first call
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kind((2160, 3840))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_labels_of_a_4k_photo_take_less_than_600_mb(kind):
    root = Path(__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", PEAK, kind], cwd=root, capture_output=True, text=True, check=True)
    assert float(run.stdout) < 600  # all 29 classes at once: 919 MiB, and torch's argmax on top


def test_maps_are_cut_out_of_the_letterbox_and_resized():
    maps, sources = noise(3, 2, 64, 48), [(100, 300), (300, 100), (64, 48)]
    results = list(restore_maps(maps, sources, None, do_remove_padding=True))
    for values, source, result in zip(maps, sources, results, strict=True):
        cut = letterbox(source, (64, 48)).cut(values)
        assert torch.equal(result, F.interpolate(cut[None], size=source, mode="bilinear")[0])


def test_maps_without_sizes_keep_theirs_and_are_decoded_in_float32():
    maps = noise(2, 3, 8, 6).half()
    results = list(restore_maps(maps, None, None, False, decode=lambda values, index: values * (index + 1)))
    assert torch.equal(results[0], maps[0].float())
    assert torch.equal(results[1], maps[1].float() * 2)


def test_resizing_a_map_is_torchs():
    values = noise(4, 9, 7).bfloat16()
    expected = F.interpolate(values.float()[None], size=(20, 30), mode="bilinear", align_corners=False)[0]
    assert torch.equal(resize_map(values, (20, 30)), expected)


def test_a_premultiplied_foreground_covers_what_its_alpha_says():
    alpha = torch.tensor([0.0, 0.25, 1.0]).view(1, 1, 3)
    foreground = torch.tensor([0.8, 0.4, 0.2]).view(3, 1, 1) * alpha
    background = torch.tensor([0.0, 1.0, 0.5]).view(3, 1, 1)
    result = composite_bytes(foreground, alpha, background)
    expected = torch.tensor([[0.0, 0.2, 0.8], [1.0, 0.85, 0.4], [0.5, 0.425, 0.2]]).unsqueeze(1)
    assert result.dtype == torch.uint8
    torch.testing.assert_close(result.float() / 255, expected, rtol=0, atol=1 / 255)
