"""Labels that the processor makes: target heatmaps and class maps, against transformers' processor."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Sapiens2ImageProcessor as ReferenceProcessor
from transformers.models.sapiens2.image_processing_sapiens2 import box_xywh_to_cxcywh
from transformers.models.sapiens2.image_processing_sapiens2 import crop_and_resize as reference_crop

from sapiens2_core.heatmaps import decode_heatmaps
from sapiens2_core.image_processor import Sapiens2ImageProcessor

ASTRONAUT = Path(__file__).parent.parent / "assets" / "astronaut.jpg"
SIZE = {"height": 256, "width": 192}
BOXES = [[[101.5, 20.25, 210.0, 300.0], [-60.0, -30.0, 200.0, 90.0]], [[250.0, 10.0, 130.0, 140.0]]]


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    photo = Image.open(ASTRONAUT).convert("RGB")
    return [photo.resize((400, 360)), photo.resize((400, 200))]


@pytest.fixture(scope="module")
def keypoints() -> list:
    """Everywhere: in the crop, on its borders, far outside, without visibility; of 3 people in 2 images."""
    generator = torch.Generator().manual_seed(2)
    people = torch.rand(3, 60, 3, generator=generator) * torch.tensor([700.0, 700.0, 2.0]) - torch.tensor([150, 150, 1])
    return [[people[0].tolist(), people[1].tolist()], [people[2].tolist()]]


def both(photos, **options) -> tuple[dict, dict]:
    size = options.pop("size", SIZE)
    ours = Sapiens2ImageProcessor(size=size)(photos, return_tensors="pt", **options)
    theirs = ReferenceProcessor(size=size)(photos, return_tensors="pt", **options)
    return ours, theirs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keypoint_heatmap_sigma": 2.0},
        {"keypoint_heatmap_sigma": 2.5, "keypoint_heatmap_downscale_factor": 2},
        {"keypoint_heatmap_downscale_factor": 5},
        {"size": {"height": 128, "width": 160}},
    ],
)
def test_target_heatmaps_are_the_references(photos, keypoints, options):
    ours, theirs = both(photos, boxes=BOXES, keypoints=keypoints, **options)
    assert ours.keys() == theirs.keys() == {"pixel_values", "labels", "label_weights"}
    torch.testing.assert_close(ours.labels, theirs["labels"], rtol=0, atol=1e-5)
    assert torch.equal(ours.label_weights, theirs["label_weights"])
    assert set(ours.label_weights.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(ours.pixel_values, theirs["pixel_values"], rtol=0, atol=1e-5)


def test_keypoints_without_visibility_are_visible(photos, keypoints):
    pairs = [[[point[:2] for point in person] for person in image] for image in keypoints]
    ours, theirs = both(photos, boxes=BOXES, keypoints=pairs)
    assert torch.equal(ours.label_weights, theirs["label_weights"])
    torch.testing.assert_close(ours.labels, theirs["labels"], rtol=0, atol=1e-5)


def test_gaussians_are_cut_off_where_the_references_are(photos):
    """A keypoint walks out of the crop: its weight falls when the last pixel of its window does."""
    points = [[[float(x), 120.0, 1.0] for x in range(-200, 600, 3)]]
    ours, theirs = both(photos[:1], boxes=[[BOXES[0][0]]], keypoints=[points], keypoint_heatmap_sigma=2.0)
    assert torch.equal(ours.label_weights, theirs["label_weights"])
    assert torch.equal(ours.labels > 0, theirs["labels"] > 0)


def test_people_without_keypoints_give_empty_targets(photos):
    options = {"boxes": [[BOXES[0][0]]], "keypoints": [[[]]]}
    ours, theirs = both(photos[:1], **options)
    assert ours.labels.shape == theirs["labels"].shape == (1, 0, 64, 48)
    assert ours.label_weights.shape == theirs["label_weights"].shape == (1, 0)


def test_keypoints_are_found_again_in_their_target(photos):
    """Box to target to decoded keypoint is a round trip."""
    places = torch.tensor([[150.0, 60.0], [220.5, 200.25], [180.0, 130.0], [280.0, 300.0]])
    processor = Sapiens2ImageProcessor(size=SIZE)
    boxes = [[BOXES[0][0]]]
    labels = processor(
        photos[0], boxes=boxes, keypoints=[[places]], keypoint_heatmap_sigma=2.0, return_tensors="pt"
    ).labels

    class Outputs:
        heatmaps = labels

    person = processor.post_process_pose_estimation(Outputs, boxes)[0][0]
    torch.testing.assert_close(person["keypoints"], places, rtol=0, atol=0.1)
    torch.testing.assert_close(decode_heatmaps(labels)[1], torch.ones(1, 4), rtol=0, atol=0.15)


def test_unlabelled_keypoints_may_be_anywhere(photos):
    keypoints = [[[[float("nan"), 5.0, 0.0], [150.0, 60.0, 2.0]]]]
    result = Sapiens2ImageProcessor(size=SIZE)(
        photos[0], boxes=[[BOXES[0][0]]], keypoints=keypoints, return_tensors="pt"
    )
    assert result.label_weights.tolist() == [[0.0, 1.0]]
    assert torch.equal(result.labels[0, 0], torch.zeros(64, 48))
    assert result.labels[0, 1].max() > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keypoints": [[[[1.0, 2.0]]]]}, "keypoints need boxes"),
        ({"keypoints": [[[[1.0, 2.0]]]], "boxes": [[[0, 0, 9, 9]]], "do_center_crop": True}, "do_center_crop"),
        ({"keypoints": [[]], "boxes": [[[0, 0, 9, 9]]]}, "Image 0 has keypoints of 0 people, but 1 boxes"),
        ({"keypoints": [[], []], "boxes": [[]]}, "keypoints of 2 images, but 1 images"),
        ({"keypoints": [[[[1.0]]]], "boxes": [[[0, 0, 9, 9]]]}, r"person 0 in image 0 have shape \(1, 1\)"),
        ({"keypoints": [[[[float("inf"), 0.0]]]], "boxes": [[[0, 0, 9, 9]]]}, "person 0 in image 0 is not finite"),
        ({"keypoints": [[]], "boxes": [[]]}, "no box in any image"),
        ({"segmentation_maps": np.zeros((2, 8, 8), int)}, "2 segmentation maps for 1 images"),
        ({"segmentation_maps": np.zeros((1, 2, 8, 8), int)}, r"Segmentation map 0 has shape \(1, 2, 8, 8\)"),
        ({"segmentation_maps": np.full((8, 8), 0.5)}, "Segmentation map 0 holds numbers that are not whole"),
        ({"segmentation_maps": np.zeros((8, 8), int), "boxes": [[[0, 0, 9, 9]]]}, "8 × 8 pixels, but its image 400"),
    ],
)
def test_labels_that_do_not_fit_are_an_error(photos, options, message):
    with pytest.raises(ValueError, match=message):
        Sapiens2ImageProcessor(size=SIZE)(photos[0], return_tensors="pt", **options)


def class_map(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Blocks of random classes 0..28, and some pixels of 255."""
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 29, (height // 20 + 1, width // 20 + 1))
    blocks[1, 1] = 255
    return np.kron(blocks, np.ones((20, 20), int))[:height, :width].astype(np.uint8)


MAPS = [class_map(360, 400), class_map(200, 400, 1)]
AS_KIND = {
    "numpy": lambda values: values,
    "pil": Image.fromarray,
    "torch": torch.from_numpy,
    "int64": lambda values: values.astype(np.int64),
}


@pytest.mark.parametrize("kind", AS_KIND)
@pytest.mark.parametrize("options", [{}, {"do_reduce_labels": True}, {"do_pad": True}, {"do_center_crop": True}])
def test_label_maps_are_the_references_where_it_resizes_by_nearest_neighbour(photos, kind, options):
    maps = [AS_KIND[kind](values) for values in MAPS]
    ours, theirs = both(photos, segmentation_maps=maps, resample=0, **options)
    assert ours.labels.dtype == theirs["labels"].dtype == torch.int64
    assert torch.equal(ours.labels, theirs["labels"])
    torch.testing.assert_close(ours.pixel_values, theirs["pixel_values"], rtol=0, atol=1e-5)


def test_classes_are_never_made_up(photos):
    """transformers resizes class ids like colours by default: between classes 0 and 28 it finds all others."""
    edge = np.zeros((360, 400), np.uint8)
    edge[:, 201:] = 28
    ours, theirs = both(photos[:1], segmentation_maps=edge)
    assert ours.labels.unique().tolist() == [0, 28]
    assert set(theirs["labels"].unique().tolist()) > {0, 28}
    assert torch.equal(ours.labels, both(photos[:1], segmentation_maps=edge, resample=0)[1]["labels"])


def test_padding_of_reduced_labels_is_ignored(photos):
    """transformers reduces first and pads with 0 then, which calls the padding the first class."""
    ones = np.ones((200, 400), np.uint8)
    ours, theirs = both(photos[1:], segmentation_maps=ones, do_reduce_labels=True, do_pad=True, resample=0)
    assert ours.labels[0, 128].unique().tolist() == [0]
    assert ours.labels[0, 0].unique().tolist() == [255]
    assert theirs["labels"][0, 0].unique().tolist() == [0]


def test_label_maps_are_cropped_by_boxes(photos):
    """Two classes, so that transformers' blend of them tells which is nearer."""
    halves = np.zeros((360, 400), np.float32)
    halves[:150, :190] = 1
    labels = Sapiens2ImageProcessor(size=SIZE)(
        photos[0], segmentation_maps=halves.astype(np.uint8), boxes=[BOXES[0]], return_tensors="pt"
    ).labels
    boxes = box_xywh_to_cxcywh(torch.tensor(BOXES[0]))
    blend = reference_crop(torch.from_numpy(halves)[None], boxes=boxes, output_size=(256, 192))[:, 0]
    clear = (blend - 0.5).abs() > 0.02
    assert clear.float().mean() > 0.98
    assert torch.equal(labels[clear], (blend > 0.5).long()[clear])
    assert set(labels[0].unique().tolist()) == set(labels[1].unique().tolist()) == {0, 1}


@pytest.mark.parametrize(
    "options",
    [
        {"resample": 0},
        {"resample": 2},
        {"resample": 3},
        {"resample": 3, "do_pad": True},
        {"do_center_crop": True},
        {"do_center_crop": True, "crop_size": 101},
        {"do_center_crop": True, "crop_size": (90, 301)},
        {"do_center_crop": True, "crop_size": {"height": 301, "width": 91}, "do_resize": False},
        {"do_center_crop": True, "boxes": BOXES},
        {"default_to_square": True, "size": 64},
        {"default_to_square": False},
        {"disable_grouping": True},
        {"disable_grouping": False},
        {"pad_size": {"height": 300, "width": 300}},
        {"pad_size": {"height": 300, "width": 300}, "do_pad": True},
        {"data_format": "channels_first"},
        {"image_seq_length": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("as_floats", [False, True])
def test_other_options_do_what_they_do_in_the_reference(photos, options, as_floats):
    if as_floats:
        photos = [np.array(photo).astype(np.float32) for photo in photos]
    ours, theirs = both(photos, **options)
    torch.testing.assert_close(ours.pixel_values, theirs["pixel_values"], rtol=0, atol=1e-5)


def test_integers_resize_bicubically_as_in_the_reference():
    pixels = torch.randint(0, 2, (3, 40, 30), generator=torch.Generator().manual_seed(0), dtype=torch.int16) * 1000
    ours, theirs = both(pixels, resample=3, rescale_factor=0.001)
    torch.testing.assert_close(ours.pixel_values, theirs["pixel_values"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resample": 1}, "resample is 1"),
        ({"resample": None}, "resample is None"),
        ({"size": 64, "default_to_square": False}, "size is 64 with default_to_square=False"),
        ({"data_format": "channels_last"}, 'always "channels_first"'),
        ({"crop_size": (3, 0)}, "crop_size is"),
    ],
)
def test_what_is_not_supported_is_an_error(photos, options, message):
    with pytest.raises(ValueError, match=message):
        Sapiens2ImageProcessor(**options)
    with pytest.raises(ValueError, match=message):
        Sapiens2ImageProcessor()(photos[0], **options)
