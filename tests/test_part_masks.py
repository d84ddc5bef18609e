"""Masks of body parts against shapes whose areas and edges are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.inference import Estimator
from sapiens2_core.part_masks import MaskFinish, drop_islands, feather, fill_holes, found_parts, grow, part_masks
from sapiens2_core.results import LikelyParts, Segmentation
from sapiens2_core.shots import shot_starts
from sapiens2_core.soft_labels import NUM_LIKELY, likely_parts, probability_of

HAIR, FACE = 4, 3


def distance(size=200, centre=(100, 100)) -> np.ndarray:
    y, x = np.mgrid[:size, :size]
    return np.hypot(y - centre[0], x - centre[1])


def disc(radius: float, **where) -> np.ndarray:
    return np.where(distance(**where) <= radius, 255, 0).astype(np.uint8)


def soft_disc(radius: float, width: float) -> np.ndarray:
    """Falls from 255 to 0 over ``width`` pixels around the radius."""
    return ((radius - distance()) / width * 255 + 127.5).clip(0, 255).round().astype(np.uint8)


def clip(*frames: np.ndarray, part: int = HAIR) -> Segmentation:
    return Segmentation(torch.from_numpy(np.stack(frames) > 127).to(torch.uint8) * part)


def masks(segmentation: Segmentation, parts=(HAIR,), soft=False, **finish) -> np.ndarray:
    return torch.stack(list(part_masks(segmentation, parts, soft, MaskFinish(**finish)))).numpy()


def test_a_mask_is_one_on_its_parts_alone():
    labels = torch.arange(29, dtype=torch.uint8).reshape(1, 1, 29)
    found = masks(Segmentation(labels), parts=(0, HAIR, 28))
    assert found.dtype == np.float32
    assert np.flatnonzero(found).tolist() == [0, HAIR, 28]
    assert set(np.unique(found)) == {0.0, 1.0}


@pytest.mark.parametrize("pixels", [-20, -5, 1, 7, 30])
@pytest.mark.parametrize("make", [disc, lambda radius: soft_disc(radius, 6)], ids=["hard", "soft"])
def test_a_disc_grows_and_shrinks_by_pixels(make, pixels):
    grown = grow(make(40), pixels)
    assert (grown > 127).sum() == pytest.approx(math.pi * (40 + pixels) ** 2, rel=0.03)


def test_growing_keeps_a_soft_edge_as_wide_as_it_was():
    before, after = soft_disc(40, 10)[100], grow(soft_disc(40, 10), 15)[100]
    assert np.abs(after[:85].astype(int) - before[15:100]).max() <= 1


def test_the_pictures_edge_is_no_edge_of_a_mask():
    full = np.full((20, 30), 255, np.uint8)
    assert (grow(full, -5) == 255).all()
    assert (feather(torch.ones(20, 30), 8.0) - 1).abs().max() < 1e-5
    assert not grow(255 - full, 5).any()


@pytest.mark.parametrize("pixels", [2.0, 9.0, 20.0])
def test_feather_keeps_one_half_at_the_edge_and_fades_over_its_width(pixels):
    step = torch.zeros(8, 200)
    step[:, 100:] = 1  # the edge lies between columns 99 and 100
    row = feather(step, pixels)[4].double()
    assert (row[99] + row[100]) / 2 == pytest.approx(0.5, abs=1e-4)
    sigma = pixels / 2
    places = torch.arange(200, dtype=torch.float64) - 99.5
    expected = 0.5 * (1 + torch.erf(places / (sigma * math.sqrt(2))))
    assert (row - expected).abs().max() < 0.02
    outside = 99 - int(pixels)
    assert 0.015 < (row[outside] + row[outside + 1]) / 2 < 0.035


def test_holes_up_to_the_size_are_filled_and_others_stay():
    mask = disc(80)
    mask[distance(centre=(80, 80)) <= 5] = 0
    mask[distance(centre=(130, 110)) <= 15] = 0
    filled = fill_holes(mask, 200)
    assert filled[80, 80] == 255
    assert filled[130, 110] == 0
    assert (filled == np.where(distance(centre=(80, 80)) <= 6, disc(80), mask)).all()
    assert (fill_holes(mask, 100_000) == disc(80)).all()


def test_a_bay_that_reaches_the_pictures_edge_is_no_hole():
    mask = np.full((50, 50), 255, np.uint8)
    mask[:5, 20:25] = 0
    assert (fill_holes(mask, 1000) == mask).all()


def test_islands_below_the_size_are_dropped():
    mask = disc(30) | disc(4, centre=(30, 30)) | disc(8, centre=(170, 160))
    assert (drop_islands(mask, 100) == disc(30) | disc(8, centre=(170, 160))).all()
    assert (drop_islands(mask, 1000) == disc(30)).all()
    assert not drop_islands(mask, 100_000).any()


def test_pixels_that_touch_by_corners_are_one_island():
    mask = np.eye(20, dtype=np.uint8) * 255
    assert (drop_islands(mask, 20) == mask).all()
    assert not drop_islands(mask, 21).any()


def test_a_dropped_island_leaves_no_soft_ring():
    island = (10 - distance(centre=(40, 40))) * 25 + 127.5
    mask = np.maximum(soft_disc(40, 10), island.clip(0, 255).astype(np.uint8))
    cleaned = drop_islands(mask, 1000)
    assert not cleaned[:50, :50].any()
    assert (cleaned[60:, 60:] == mask[60:, 60:]).all()


def test_flicker_is_removed_and_a_shape_that_stands_still_is_kept():
    still = disc(40)
    hole, spark = still.copy(), still.copy()
    hole[90:110, 90:110] = 0
    nothing = np.zeros_like(still)
    spark[5:15, 5:15] = 255
    steady = masks(clip(still, still, hole, still, spark, still, nothing, still, still), steady=1)
    assert all((frame * 255 == still).all() for frame in steady)


def test_a_shape_that_moves_slowly_keeps_its_place_and_size():
    moving = [disc(30, centre=(100, 60 + 3 * step)) for step in range(9)]
    steady = masks(clip(*moving), steady=2)
    for mask, frame in zip(steady, moving, strict=True):
        assert mask.sum() == pytest.approx(frame.astype(bool).sum(), rel=0.04)
        assert np.nonzero(mask)[1].mean() == pytest.approx(np.nonzero(frame)[1].mean(), abs=0.1)


def test_steadying_does_not_look_across_a_cut():
    one, other = disc(30, centre=(50, 50)), disc(30, centre=(150, 150))
    segmentation = clip(one, one, one, other, other, other)
    assert shot_starts(segmentation.labels, 3) == [0, 3]
    assert (masks(segmentation, steady=3) == masks(segmentation)).all()


def test_frames_in_which_the_network_sees_nothing_are_no_cut():
    person, nobody = disc(30), np.zeros((200, 200), np.uint8)
    labels = clip(person, person, nobody, person, person).labels
    assert shot_starts(labels, 2) == [0]
    assert shot_starts(clip(*[nobody] * 3).labels, 2) == [0]


def test_invert_is_last():
    inverted = masks(clip(disc(40)), grow=5, feather=3.0, invert=True)
    assert np.allclose(inverted, 1 - masks(clip(disc(40)), grow=5, feather=3.0))


def logits_of(probabilities: torch.Tensor) -> torch.Tensor:
    return probabilities.clamp_min(1e-9).log()


def test_probabilities_survive_the_way_through_bytes():
    torch.manual_seed(0)
    probabilities = torch.zeros(29, 20, 16)
    shares = torch.rand(NUM_LIKELY, 20, 16)
    places = torch.stack([torch.randperm(29)[:NUM_LIKELY] for _ in range(320)], dim=1).reshape(NUM_LIKELY, 20, 16)
    probabilities.scatter_(0, places, shares / shares.sum(dim=0))
    likely = likely_parts(logits_of(probabilities), (20, 16))
    assert likely.probabilities.int().sum(dim=0).eq(255).all()
    for parts in ((0,), (HAIR, FACE), tuple(range(1, 29))):
        expected = probabilities[list(parts)].sum(dim=0) * 255
        assert (probability_of(likely, parts, (20, 16)) - expected).abs().max() <= 2.01  # three roundings of a half


def test_probabilities_of_parts_and_of_all_others_sum_to_one():
    torch.manual_seed(0)
    likely = likely_parts(torch.randn(29, 12, 10), (12, 10))
    some, others = (HAIR, FACE, 0), tuple(set(range(29)) - {HAIR, FACE, 0})
    total = probability_of(likely, some, (12, 10)).int() + probability_of(likely, others, (12, 10)).int()
    assert total.eq(255).all()


@pytest.mark.parametrize("size", [(48, 40), (300, 200), (20, 500)])
def test_probabilities_take_less_room_than_the_frame(size):
    likely = likely_parts(torch.randn(29, 96, 80), size)
    assert likely.ids.nbytes + likely.probabilities.nbytes <= size[0] * size[1] * 12
    assert probability_of(likely, (HAIR,), size).shape == size


def test_soft_masks_are_the_probability_and_hard_ones_where_it_wins():
    ramp = torch.linspace(0.02, 0.98, 64).expand(8, 64)
    likely = likely_parts(logits_of(torch.stack([1 - ramp, ramp])), (8, 64))
    segmentation = Segmentation((ramp > 0.5).to(torch.uint8)[None], (likely,))
    soft, hard = masks(segmentation, (1,), soft=True), masks(segmentation, (1,))
    assert np.abs(soft - ramp.numpy()).max() < 1 / 255
    assert ((soft > 0.5) == (hard == 1)).all()


def test_soft_masks_are_resized_smoothly():
    ramp = torch.linspace(0, 1, 32).expand(4, 32)
    likely = LikelyParts(
        ids=torch.tensor([1, 0], dtype=torch.uint8)[:, None, None].expand(2, 4, 32),
        probabilities=torch.stack([ramp, 1 - ramp]).mul(255).round().to(torch.uint8),
    )
    row = probability_of(likely, (1,), (8, 256))[4].int()
    assert (row.diff() >= 0).all()
    assert row.diff().max() <= 2


def test_soft_masks_without_probabilities_are_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match="Turn on soft in Segment Body Parts"):
        part_masks(clip(disc(10)), (HAIR,), soft=True)


def test_found_parts_are_shares_of_the_clip_without_the_background():
    labels = torch.zeros(2, 10, 10, dtype=torch.uint8)
    labels[0, :5] = HAIR
    labels[1, :1] = FACE
    assert found_parts(labels) == {FACE: 0.05, HAIR: 0.25}


@pytest.mark.parametrize("size", [(40, 30), (128, 96), (200, 170)])
def test_the_estimator_gives_probabilities_when_asked(size):
    torch.manual_seed(0)
    runner = Estimator(build(tiny_config("seg"), "seg"))
    frames = [torch.rand(3, *size), torch.rand(3, *size)]
    hard = [labels for batch in runner.predict(frames) for labels in batch]
    for frame, labels in zip(
        (frame for batch in runner.predict(frames, soft=True) for frame in batch), hard, strict=True
    ):
        assert frame.labels.equal(labels)
        assert frame.likely.ids.shape == (NUM_LIKELY, min(size[0], 128), min(size[1], 96))
        if size <= (128, 96):  # at the frame's own size the likeliest part is the label
            assert frame.likely.ids[0].equal(labels)


def test_probabilities_are_for_segmentation_alone():
    runner = Estimator(build(tiny_config("normal"), "normal"))
    with pytest.raises(ValueError, match=r"soft.* are for seg; this checkpoint estimates"):
        next(runner.predict([torch.rand(3, 128, 96)], soft=True))
