"""Which kinds of pictures are taken, and what becomes of grey and of alpha."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Sapiens2ImageProcessor as ReferenceProcessor

from sapiens2_core.image_inputs import as_rgb_images
from sapiens2_core.image_processor import Sapiens2ImageProcessor

ASTRONAUT = Path(__file__).parent.parent / "assets" / "astronaut.jpg"


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    return Image.open(ASTRONAUT).convert("RGB").resize((90, 120))


@pytest.fixture(scope="module")
def cutout(photo) -> Image.Image:
    """The photo with alpha that falls from left to right."""
    alpha = np.linspace(255, 0, 90).round().astype(np.uint8)
    result = photo.copy()
    result.putalpha(Image.fromarray(np.tile(alpha, (120, 1))))
    return result


def chw(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image.convert("RGB"))).movedim(-1, 0)


def test_alpha_is_dropped(cutout, photo):
    pixels = np.array(cutout)
    given = [cutout, pixels, torch.from_numpy(pixels), torch.from_numpy(pixels).movedim(-1, 0)]
    for rgb in as_rgb_images(given):
        assert torch.equal(rgb, chw(photo))


def test_grey_is_repeated(photo):
    grey = photo.convert("L")
    pixels = np.array(grey)
    given = [grey, pixels, pixels[None], pixels[..., None], torch.from_numpy(pixels)]
    for rgb in as_rgb_images(given):
        assert torch.equal(rgb, chw(grey))


@pytest.mark.parametrize("mode", ["LA", "P", "1", "CMYK", "YCbCr", "HSV"])
def test_pillows_modes_become_rgb(photo, mode):
    image = photo.convert(mode)
    assert torch.equal(as_rgb_images(image)[0], chw(image))


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_pillows_deep_modes_are_refused_instead_of_turning_white(mode):
    with pytest.raises(ValueError, match=f"Image 0 has Pillow's mode {mode}"):
        as_rgb_images(Image.new(mode, (8, 8)))


@pytest.mark.parametrize("kind", ["pil", "numpy", "torch", "torch float"])
def test_do_convert_rgb_lays_transparency_on_white_as_the_reference_does(cutout, kind):
    pixels = np.array(cutout)
    tensor = torch.from_numpy(pixels).movedim(-1, 0)
    image = {"pil": cutout, "numpy": pixels, "torch": tensor, "torch float": tensor.float() / 255}[kind]
    options = {"size": {"height": 120, "width": 90}, "do_convert_rgb": True, "do_normalize": False}
    options |= {"do_rescale": kind != "torch float"}
    ours = Sapiens2ImageProcessor(**options)(image, return_tensors="pt").pixel_values
    theirs = ReferenceProcessor(**options)(image, return_tensors="pt").pixel_values
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 if kind == "torch float" else 1.001 / 255)


@pytest.mark.parametrize("kind", ["pil", "numpy", "torch"])
def test_do_convert_rgb_takes_grey_as_the_reference_does(photo, kind):
    grey = photo.convert("L")
    image = {"pil": grey, "numpy": np.array(grey)[..., None], "torch": torch.from_numpy(np.array(grey))[None]}[kind]
    options = {"size": {"height": 64, "width": 48}, "do_convert_rgb": True}
    ours = Sapiens2ImageProcessor(**options)(image, return_tensors="pt").pixel_values
    theirs = ReferenceProcessor(**options)(image, return_tensors="pt").pixel_values
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_floats_of_unknown_range_have_no_readable_alpha(cutout):
    with pytest.raises(ValueError, match=r"Image 0 is RGBA and has floats outside of 0\.\.1"):
        as_rgb_images(np.array(cutout).astype(np.float32), do_convert_rgb=True)


def test_alpha_and_grey_go_all_the_way(cutout):
    pixels = Sapiens2ImageProcessor(size=(32, 24))([cutout, cutout.convert("L")], return_tensors="pt").pixel_values
    assert pixels.shape == (2, 3, 32, 24)


def test_channels_are_found_at_either_end(photo, caplog):
    last = np.array(photo)
    for given in (last, np.moveaxis(last, -1, 0), torch.from_numpy(last)):
        assert torch.equal(as_rgb_images(given)[0], chw(photo))
    assert not caplog.records


def test_ambiguous_channels_are_taken_from_the_front_with_a_warning(caplog):
    rows = torch.arange(3 * 7 * 3, dtype=torch.uint8).view(3, 7, 3)
    assert torch.equal(as_rgb_images(rows)[0], rows)
    assert "input_data_format" in caplog.text
    caplog.clear()
    assert torch.equal(as_rgb_images(rows, input_data_format="channels_last")[0], rows.movedim(-1, 0))
    assert not caplog.records


@pytest.mark.parametrize(
    ("shape", "data_format", "message"),
    [
        ((10, 12, 2), None, r"shape \(10, 12, 2\)"),
        ((3, 10, 12), "channels_last", "expected .height, width, 1, 3 or 4 channels"),
        ((10, 12, 3), "channels_first", "expected .1, 3 or 4 channels, height, width"),
        ((10, 12, 3), "none", "expected .height, width"),
        ((10, 12), "channels_last", "expected .height, width, 1, 3 or 4 channels"),
        ((10,), None, r"shape \(10,\)"),
        ((1, 2, 3, 10, 12), None, r"shape \(1, 2, 3, 10, 12\)"),
        ((0, 12, 3), None, "has no pixels"),
        ((10, 12, 3), "HWC", "input_data_format is"),
    ],
)
def test_shapes_that_are_no_picture_are_named(shape, data_format, message):
    with pytest.raises(ValueError, match=message):
        as_rgb_images([np.zeros(shape, np.uint8)], input_data_format=data_format)


@pytest.mark.parametrize("empty", [[], (), np.zeros((0, 10, 12, 3), np.uint8), torch.zeros(0, 3, 10, 12)])
def test_an_empty_batch_is_an_error(empty):
    with pytest.raises(ValueError, match="batch is empty"):
        Sapiens2ImageProcessor()(empty)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("photo.jpg", "Image 1 is a str; .* PIL.Image.open"),
        (None, "Image 1 is a NoneType"),
        (np.zeros((8, 8, 3), bool), "Image 1 is an array of bool"),
        (np.full((8, 8, 3), "x"), "Image 1 is an array of <U1"),
        (torch.zeros(3, 8, 8, dtype=torch.bool), "Image 1 is a tensor of torch.bool"),
        (torch.zeros(3, 8, 8, dtype=torch.complex64), "Image 1 is a tensor of torch.complex64"),
    ],
)
def test_things_that_are_no_picture_are_named(photo, image, message):
    with pytest.raises(ValueError, match=message):
        as_rgb_images([photo, image])


def test_arrays_that_torch_cannot_share_are_copied(photo):
    pixels = np.array(photo)
    frozen = pixels.copy()
    frozen.flags.writeable = False
    swapped = pixels.astype(">f4")
    for given in (pixels[::-1, :, ::-1][::-1, :, ::-1], frozen, swapped):
        torch.testing.assert_close(as_rgb_images(given)[0].to(torch.uint8), chw(photo))


@pytest.mark.filterwarnings("error")
def test_sixteen_bit_arrays_are_taken(photo):
    deep = np.array(photo).astype(np.uint16) * 257
    options = {"size": (64, 48), "do_pad": True}
    expected = Sapiens2ImageProcessor(**options)(photo, return_tensors="pt").pixel_values
    for more in ({}, {"do_normalize": False}):
        result = Sapiens2ImageProcessor(**options, **more)(deep, rescale_factor=1 / 65535, return_tensors="pt")
        expected = Sapiens2ImageProcessor(**options, **more)(photo, return_tensors="pt").pixel_values
        torch.testing.assert_close(result.pixel_values, expected, rtol=0, atol=1 / 255 / min(0.224, 1))


def test_nested_lists_and_batches_are_flattened(photo):
    one = np.array(photo)
    assert len(as_rgb_images([[photo, one], np.stack([one, one]), (photo,)])) == 5
