"""Scales that jump as the network's do, over clips whose geometry is known."""

from __future__ import annotations

import pytest
import torch

from sapiens2_core.results import Pointmap
from sapiens2_core.steady_scale import RUNNING_FRAMES, scene_cuts, steady_pointmap, steady_scales

FRAMES = 90


def jumping(true: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """True scales with 6 % of noise, and every tenth frame far off."""
    generator = torch.Generator().manual_seed(seed)
    noisy = true * torch.exp(0.06 * torch.randn(len(true), generator=generator))
    wild = torch.rand(len(true), generator=generator) < 0.1
    return torch.where(wild, noisy * (0.4 + 2 * torch.rand(len(true), generator=generator)), noisy)


def clip(depths: torch.Tensor, scales: torch.Tensor, true_scale: float = 1.5, images=None) -> Pointmap:
    """Points as the network sees them, steady in canonical units, over scales that jump."""
    canonical = depths * true_scale
    points = (canonical / scales)[:, None, None, None].expand(-1, 3, 4, 5).clone()
    images = torch.full((len(depths), 3, 8, 8), 0.5) if images is None else images
    return Pointmap(points, scales, 768 / scales, images)


def change(depth: torch.Tensor) -> torch.Tensor:
    """Mean relative change from frame to frame."""
    return (depth[1:] / depth[:-1] - 1).abs().mean()


@pytest.mark.parametrize("mode", ["clip", "running"])
def test_depth_of_a_still_scene_changes_ten_times_less(mode):
    scales = jumping(torch.full((FRAMES,), 1.5))
    pointmap = clip(torch.full((FRAMES,), 3.0), scales)
    before = change(pointmap.points[:, 2, 0, 0].clone())
    steady = steady_pointmap(pointmap, mode)
    depth = steady.points[:, 2, 0, 0]
    assert before > 0.05
    assert change(depth) < before / 10
    torch.testing.assert_close(depth, torch.full((FRAMES,), 3.0), rtol=0.05, atol=0)
    torch.testing.assert_close(steady.focal_lengths, 768 / steady.scales)


@pytest.mark.parametrize("mode", ["clip", "running"])
def test_a_dolly_move_is_kept(mode):
    true = torch.linspace(4, 2, FRAMES)
    steady = steady_pointmap(clip(true, jumping(torch.full((FRAMES,), 1.5))), mode)
    depth = steady.points[:, 2, 0, 0]
    torch.testing.assert_close(depth, true, rtol=0.05, atol=0)
    assert (depth[1:] < depth[:-1]).all()
    torch.testing.assert_close(depth[0] / depth[-1], torch.tensor(2.0), rtol=0.03, atol=0)


def test_running_follows_a_zoom_and_clip_does_not():
    true = torch.logspace(0, 1, FRAMES, base=2)
    running = steady_scales(jumping(true), "running")
    away_from_the_ends = slice(RUNNING_FRAMES, -RUNNING_FRAMES)
    torch.testing.assert_close(running[away_from_the_ends], true[away_from_the_ends], rtol=0.05, atol=0)
    assert len(steady_scales(jumping(true), "clip").unique()) == 1


def test_each_scene_has_a_scale_of_its_own():
    generator = torch.Generator().manual_seed(0)
    scenes = torch.rand(2, 3, 40, 60, generator=generator)
    images = torch.cat([scenes[:1].expand(30, -1, -1, -1), scenes[1:].expand(60, -1, -1, -1) ** 3])
    images = (images + 0.02 * torch.randn(images.shape, generator=generator)).clamp(0, 1)
    true = torch.cat([torch.full((30,), 1.0), torch.full((60,), 2.5)])
    steady = steady_pointmap(clip(torch.full((FRAMES,), 3.0), jumping(true), images=images), "clip")
    assert len(steady.scales.unique()) == 2
    torch.testing.assert_close(steady.scales, true, rtol=0.05, atol=0)


def test_cuts_are_found_and_moves_fades_and_flashes_are_not():
    generator = torch.Generator().manual_seed(0)
    picture = torch.nn.functional.interpolate(torch.rand(1, 3, 6, 20, generator=generator), (72, 240), mode="bilinear")[
        0
    ]
    pan = torch.stack([picture[:, :, 3 * step : 3 * step + 96] for step in range(20)])
    assert scene_cuts(pan) == []
    assert scene_cuts(pan * torch.linspace(1, 0, 20)[:, None, None, None]) == []
    flash = pan.clone()
    flash[10] = 1
    assert scene_cuts(flash) == []
    assert scene_cuts(torch.cat([pan, 1 - pan.flip(0)])) == [20]
    assert scene_cuts(pan[:1]) == []


def test_per_frame_changes_nothing():
    scales = jumping(torch.full((FRAMES,), 1.5))
    assert torch.equal(steady_scales(scales, "per frame"), scales)
    pointmap = clip(torch.full((FRAMES,), 3.0), scales)
    assert steady_pointmap(pointmap, "per frame") is pointmap


@pytest.mark.parametrize("mode", ["clip", "running"])
def test_scales_that_no_camera_has_are_passed_over(mode):
    scales = torch.tensor([1.0, -2.0, 1.0, 0.0, 1.0])
    assert steady_scales(scales, mode).tolist() == pytest.approx([1.0] * 5)
    hopeless = torch.tensor([-1.0, -2.0])
    assert torch.equal(steady_scales(hopeless, mode), hopeless)
