"""Preprocessing against transformers' processor, on the pixels of a real photo."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from transformers import Sapiens2ImageProcessor as ReferenceProcessor

from sapiens2_core.image_processor import IMAGE_MEAN, IMAGE_STD, Sapiens2ImageProcessor

ASTRONAUT = Path(__file__).parent.parent / "assets" / "astronaut.jpg"
SIZES = {  # (width, height), as Pillow has them
    "square": (512, 512),
    "portrait": (301, 498),
    "landscape": (500, 233),
    "4k": (3840, 2160),
    "one pixel wide": (1, 400),
    "one pixel high": (300, 1),
    "one pixel": (1, 1),
}
KINDS = ("pil", "numpy uint8", "torch uint8", "numpy float", "torch float", "torch double", "torch half")
BOXES = [[101.5, 20.25, 210.0, 300.0], [-60.0, -30.0, 200.0, 90.0], [250.0, 300.0, 30.0, 40.0]]


@cache
def photo(name: str) -> Image.Image:
    image = Image.open(ASTRONAUT).convert("RGB")
    width, height = SIZES[name]
    return image.resize((width, height), Image.Resampling.BICUBIC)


def as_kind(image: Image.Image, kind: str) -> Image.Image | np.ndarray | Tensor:
    """Bytes stay 0..255; floats are 0..1. Numpy has its channels last, torch first."""
    pixels = np.array(image)
    tensor = torch.from_numpy(pixels).movedim(-1, 0).contiguous()
    return {
        "pil": image,
        "numpy uint8": pixels,
        "torch uint8": tensor,
        "numpy float": pixels.astype(np.float32) / 255,
        "torch float": tensor.float() / 255,
        "torch double": tensor.double() / 255,
        "torch half": tensor.half() / 255,
    }[kind]


def options_for(kind: str) -> dict:
    """Says where the channels are: a picture one pixel wide could be read either way."""
    options = {"input_data_format": "channels_last" if "numpy" in kind else "channels_first"}
    return options | ({} if "uint8" in kind or kind == "pil" else {"do_rescale": False})


def both(*args, size: dict | None = None, do_pad: bool = False, **options) -> tuple[Tensor, Tensor]:
    size = size or {"height": 256, "width": 192}
    ours = Sapiens2ImageProcessor(size=size, do_pad=do_pad)(*args, return_tensors="pt", **options)
    theirs = ReferenceProcessor(size=size, do_pad=do_pad)(*args, return_tensors="pt", **options)
    assert ours.pixel_values.dtype == torch.float32
    return ours["pixel_values"], theirs["pixel_values"]


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    # Far within the tolerance of 1/255 for bytes: the same arithmetic in the same order.
    assert torch.isfinite(theirs).all()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SIZES)
def test_plain_resize_is_the_references(name, kind):
    assert_near(*both(as_kind(photo(name), kind), **options_for(kind)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["square", "portrait", "landscape", "4k", "one pixel"])
def test_letterbox_is_the_references(name, kind):
    assert_near(*both(as_kind(photo(name), kind), do_pad=True, **options_for(kind)))


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in ("portrait", "landscape") for kind in KINDS] + [("4k", "pil"), ("4k", "torch float")],
)
def test_crops_by_boxes_are_the_references(name, kind):
    """Among the boxes: one that shrinks, one that grows, one that reaches out of the picture."""
    assert_near(*both(as_kind(photo(name), kind), boxes=[BOXES], **options_for(kind)))


def test_crops_of_a_4k_photo_at_the_native_size_are_the_references():
    pixels = as_kind(photo("4k"), "torch float")
    boxes = [[[1900.0, 100.0, 1500.0, 2000.0], [3000.3, 1500.7, 200.0, 333.0]]]
    assert_near(*both(pixels, boxes=boxes, size={"height": 1024, "width": 768}, do_rescale=False))


@pytest.mark.parametrize("do_pad", [False, True])
def test_native_size_is_the_default(do_pad):
    ours = Sapiens2ImageProcessor(do_pad=do_pad)(photo("landscape"), return_tensors="pt").pixel_values
    theirs = ReferenceProcessor(do_pad=do_pad)(photo("landscape"), return_tensors="pt").pixel_values
    assert ours.shape == (1, 3, 1024, 768)
    assert_near(ours, theirs)


def test_sixteen_bit_integers_are_the_references():
    pixels = torch.from_numpy(np.array(photo("portrait"))).movedim(-1, 0).to(torch.int16) * 100
    assert_near(*both(pixels, rescale_factor=1 / 25500))


@pytest.mark.parametrize(
    "options",
    [
        {"do_normalize": False},
        {"do_rescale": False},
        {"rescale_factor": 1 / 128},
        {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]},
        {"do_normalize": False, "do_pad": True},
        {"size": {"height": 64, "width": 160}, "do_pad": True},
    ],
)
def test_options_of_a_call_are_the_references(options):
    image = photo("portrait")
    ours = Sapiens2ImageProcessor(size={"height": 128, "width": 96})(image, return_tensors="pt", **options)
    theirs = ReferenceProcessor(size={"height": 128, "width": 96})(image, return_tensors="pt", **options)
    assert_near(ours.pixel_values, theirs.pixel_values)


def test_pixels_keep_their_type_when_nothing_is_asked_of_them():
    pixels = as_kind(photo("portrait"), "torch uint8")
    options = {"do_resize": False, "do_rescale": False, "do_normalize": False}
    result = Sapiens2ImageProcessor(**options)(pixels, return_tensors="pt").pixel_values[0]
    assert torch.equal(result, pixels)
    assert result.dtype == torch.uint8


def test_an_option_lasts_for_one_call():
    processor = Sapiens2ImageProcessor(size=(64, 48))
    assert processor(photo("square"), size=32, return_tensors="pt").pixel_values.shape[-2:] == (32, 32)
    assert processor.size == {"height": 64, "width": 48}
    assert processor(photo("square"), return_tensors="pt").pixel_values.shape[-2:] == (64, 48)


@pytest.mark.parametrize("size", [64, (64, 64), [64, 64], {"height": 64, "width": 64}])
def test_size_is_taken_as_a_number_a_pair_or_a_dict(size):
    assert Sapiens2ImageProcessor(size=size).size == {"height": 64, "width": 64}


@pytest.mark.parametrize("size", [0, (64, -1), (64,), {"height": 64}, {"shortest_edge": 64}, (64.5, 48)])
def test_a_bad_size_is_an_error(size):
    with pytest.raises(ValueError, match="size is"):
        Sapiens2ImageProcessor(size=size)


def test_an_unknown_option_is_an_error_that_names_it():
    with pytest.raises(TypeError, match="do_centre_crop"):
        Sapiens2ImageProcessor(do_centre_crop=True)
    with pytest.raises(TypeError, match="do_centre_crop"):
        Sapiens2ImageProcessor()(photo("square"), do_centre_crop=True)
    with pytest.raises(ValueError, match="return_tensors"):
        Sapiens2ImageProcessor()(photo("square"), return_tensors="np")


def test_letterbox_padding_is_zero_before_normalisation():
    pixels = Sapiens2ImageProcessor(size=(128, 96), do_pad=True)(photo("landscape"), return_tensors="pt").pixel_values
    black = -torch.tensor(IMAGE_MEAN) / torch.tensor(IMAGE_STD)
    torch.testing.assert_close(pixels[0, :, 0], black[:, None].expand(3, 96))
    torch.testing.assert_close(pixels[0, :, -1], black[:, None].expand(3, 96))
    assert (pixels[0, :, 64] != black[:, None]).any()


def test_a_photo_as_narrow_as_a_line_keeps_one_pixel_in_the_letterbox():
    """transformers rounds the short side to 0 and raises."""
    line = torch.ones(3, 4000, 1)
    pixels = Sapiens2ImageProcessor(size=(128, 96), do_pad=True, do_rescale=False, do_normalize=False)(
        line, return_tensors="pt", input_data_format="channels_first"
    ).pixel_values
    expected = torch.zeros(1, 3, 128, 96)
    expected[..., 47] = 1
    torch.testing.assert_close(pixels, expected)


def test_a_box_outside_of_the_picture_gives_a_black_crop():
    processor = Sapiens2ImageProcessor(size=(64, 48), do_normalize=False)
    crops = processor(photo("square"), boxes=[[[2000.0, 2000.0, 50.0, 60.0]]], return_tensors="pt").pixel_values
    assert torch.equal(crops, torch.zeros(1, 3, 64, 48))


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ([10, 10, 0, 20], "Box 1 of image 0 has no area: 0 × 20"),
        ([10, 10, 20, -3], "Box 1 of image 0 has no area"),
        ([float("nan"), 10, 20, 20], "Box 1 of image 0 .* not finite"),
        ([0, 0, float("inf"), 20], "Box 1 of image 0 .* not finite"),
        ([10, 10, 20], "Box 1 of image 0 has to be 4 numbers"),
    ],
)
def test_a_box_that_cannot_be_cropped_is_named(box, message):
    with pytest.raises(ValueError, match=message):
        Sapiens2ImageProcessor()(photo("square"), boxes=[[[0, 0, 10, 10], box]])


def test_as_many_lists_of_boxes_as_images_are_needed():
    with pytest.raises(ValueError, match="boxes for 1 images, but 2 images"):
        Sapiens2ImageProcessor()([photo("square")] * 2, boxes=[[[0, 0, 10, 10]]])


@pytest.mark.parametrize("kind", ["numpy", "tensor", "list of tensors"])
def test_boxes_are_taken_as_lists_arrays_and_tensors(kind):
    boxes = [BOXES, BOXES]
    given = {
        "numpy": np.array(boxes),
        "tensor": torch.tensor(boxes),
        "list of tensors": [torch.tensor(BOXES), torch.tensor(BOXES)],
    }[kind]
    processor = Sapiens2ImageProcessor(size=(64, 48))
    images = [photo("square"), photo("portrait")]
    expected = processor(images, boxes=boxes, return_tensors="pt").pixel_values
    assert torch.equal(processor(images, boxes=given, return_tensors="pt").pixel_values, expected)


def test_images_without_people_give_no_crops():
    processor = Sapiens2ImageProcessor(size=(64, 48))
    images = [photo("square"), photo("portrait")]
    crops = processor(images, boxes=[[], BOXES[:2]], return_tensors="pt").pixel_values
    only = processor(images[1], boxes=[BOXES[:2]], return_tensors="pt").pixel_values
    assert torch.equal(crops, only)
    assert processor(images, boxes=[[], []], return_tensors="pt").pixel_values.shape == (0, 3, 64, 48)
    assert processor(images, boxes=[[], []]).pixel_values == []


@pytest.mark.parametrize("do_pad", [False, True])
def test_a_mixed_batch_is_the_references(do_pad):
    images = [photo("portrait"), photo("landscape"), photo("portrait")]
    assert_near(*both(images, do_pad=do_pad))


@pytest.mark.parametrize("kind", ["numpy uint8", "torch uint8", "torch float"])
def test_an_array_of_four_dimensions_is_a_batch(kind):
    one, two = (as_kind(photo("portrait").transpose(t), kind) for t in Image.Transpose if t.name.startswith("FLIP"))
    batch = np.stack([one, two]) if kind.startswith("numpy") else torch.stack([one, two])
    assert_near(*both(batch, **options_for(kind)))


def test_a_batch_comes_as_a_list_without_return_tensors():
    images = [photo("portrait"), photo("landscape")]
    ours = Sapiens2ImageProcessor(size=(64, 48))(images)["pixel_values"]
    theirs = ReferenceProcessor(size={"height": 64, "width": 48})(images)["pixel_values"]
    assert isinstance(ours, list)
    assert_near(torch.stack(ours), torch.stack(theirs))


def test_images_of_several_sizes_do_not_stack():
    images = [photo("portrait"), photo("landscape")]
    processor = Sapiens2ImageProcessor(do_resize=False)
    assert [image.shape for image in processor(images).pixel_values] == [(3, 498, 301), (3, 233, 500)]
    with pytest.raises(ValueError, match="different sizes"):
        processor(images, return_tensors="pt")


def test_input_pixels_are_left_alone():
    pixels = as_kind(photo("portrait"), "torch float")
    before = pixels.clone()
    Sapiens2ImageProcessor(do_resize=False)(pixels, do_rescale=False)
    Sapiens2ImageProcessor(do_resize=False)(pixels)
    assert torch.equal(pixels, before)


def test_work_is_done_on_the_images_device():
    """The meta device, which holds no pixels, stands for any that is not the CPU."""
    pixels = torch.empty(3, 100, 80, device="meta")
    for options in ({}, {"do_pad": True}, {"do_normalize": False}):
        result = Sapiens2ImageProcessor(size=(64, 48), **options)(pixels, return_tensors="pt").pixel_values
        assert (result.device.type, tuple(result.shape)) == ("meta", (1, 3, 64, 48))
    crops = Sapiens2ImageProcessor(size=(64, 48))(pixels, boxes=[BOXES], return_tensors="pt").pixel_values
    assert (crops.device.type, tuple(crops.shape)) == ("meta", (3, 3, 64, 48))
    moved = Sapiens2ImageProcessor(size=(64, 48))(photo("square"), device="meta").pixel_values
    assert moved[0].device.type == "meta"


def test_the_feature_moves_its_tensors():
    feature = Sapiens2ImageProcessor(size=(64, 48))(photo("square"), return_tensors="pt")
    feature["labels"] = [torch.arange(3)]
    moved = feature.to(torch.bfloat16)
    assert moved is feature
    assert feature.pixel_values.dtype == torch.bfloat16
    assert feature["labels"][0].dtype == torch.int64
    assert feature.to("meta", torch.float32).labels[0].device.type == "meta"
    assert feature.pixel_values.dtype == torch.float32
    assert dict(**feature).keys() == {"pixel_values", "labels"}
    with pytest.raises(AttributeError, match="pixel_values"):
        _ = feature.pixels
