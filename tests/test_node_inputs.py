"""Checks of pictures that come in through a node. Loaded by path: our ``nodes`` and ComfyUI's must never meet."""

import importlib.util
from pathlib import Path

import pytest
import torch

spec = importlib.util.spec_from_file_location("sapiens2_inputs", Path(__file__).parents[1] / "nodes" / "inputs.py")
inputs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(inputs)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pictures_of_one_three_and_four_channels_pass(channels):
    inputs.check_image(torch.rand(2, 5, 7, channels))
    inputs.check_image(torch.rand(2, 5, 7, channels).half())


def test_companion_of_another_length_is_named_with_what_it_accompanies():
    inputs.check_companion(torch.zeros(1, 5, 7, 3), "background", 3)
    inputs.check_companion(torch.zeros(3, 5, 7, 3), "background", 3)
    with pytest.raises(ValueError, match="background holds 2 frames, but image has 3"):
        inputs.check_companion(torch.zeros(2, 5, 7, 3), "background", 3)
    with pytest.raises(ValueError, match="image holds 2 frames, but pose has 3"):
        inputs.check_companion(torch.zeros(2, 5, 7, 3), "image", 3, of="pose")


@pytest.mark.parametrize("shape", [(0, 5, 7, 3), (1, 0, 7, 3), (1, 5, 0, 3)])
def test_empty_batch_is_refused(shape):
    with pytest.raises(ValueError, match="image is empty"):
        inputs.check_image(torch.zeros(shape))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_pixels_that_are_not_finite_are_refused_with_their_frame(value):
    image = torch.rand(3, 5, 7, 3)
    image[2, 4, 6, 1] = value
    with pytest.raises(ValueError, match=r"background_image has pixels that aren't finite.* in frame 2"):
        inputs.check_image(image, "background_image")


@pytest.mark.parametrize("shape", [(5, 7, 3), (1, 5, 7, 2), (1, 3, 5, 7)])
def test_what_is_no_picture_is_refused_with_its_shape(shape):
    with pytest.raises(ValueError, match="has the shape"):
        inputs.check_image(torch.rand(shape))


def test_frame_colors_drops_alpha_and_spreads_grey():
    image = torch.rand(2, 5, 7, 4)
    assert torch.equal(inputs.frame_colors(image, 1), image[1, ..., :3].permute(2, 0, 1))
    grey = torch.rand(1, 5, 7, 1)
    assert torch.equal(inputs.frame_colors(grey, 0), grey[0, ..., 0].expand(3, 5, 7))


def test_cover_keeps_the_aspect_and_cuts_around_the_centre():
    columns = torch.linspace(0, 1, 400).expand(3, 100, 400)
    covered = inputs.cover(columns, 50, 60)
    assert covered.shape == (3, 50, 60)
    # 400 × 100 becomes 200 × 50, of which the middle 60 columns stay.
    assert covered[0, 0, 0].item() == pytest.approx(70 / 200, abs=0.01)
    assert covered[0, 0, -1].item() == pytest.approx(130 / 200, abs=0.01)


@pytest.mark.parametrize("size", [(50, 60), (33, 100), (101, 7), (100, 400)])
def test_cover_fills_any_size(size):
    assert inputs.cover(torch.ones(3, 100, 400), *size).shape == (3, *size)
    assert torch.allclose(inputs.cover(torch.ones(3, 100, 400), *size), torch.ones(3, *size))


def test_a_mask_that_is_zero_everywhere_is_warned_of(caplog):
    with caplog.at_level("WARNING", "sapiens2"):
        inputs.warn_of_empty_mask(torch.zeros(2, 5, 7))
        inputs.warn_of_empty_mask(torch.zeros(2, 5, 7, dtype=torch.bool))
    assert [record.message.startswith("mask is 0 everywhere") for record in caplog.records] == [True, True]


def test_no_mask_and_masks_of_somebody_are_not_warned_of(caplog):
    mask = torch.zeros(2, 5, 7)
    mask[1, 2, 3] = 0.5
    with caplog.at_level("WARNING", "sapiens2"):
        inputs.warn_of_empty_mask(None)
        inputs.warn_of_empty_mask(mask)
    assert not caplog.records
