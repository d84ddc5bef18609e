"""Pose decoding against transformers, the authors' numbers and maps whose peak is known."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import Sapiens2ImageProcessor as ReferenceProcessor
from transformers.models.sapiens2.image_processing_sapiens2 import (
    get_keypoint_predictions,
    post_dark_unbiased_data_processing,
)

from sapiens2_core import heatmaps as module
from sapiens2_core.heatmaps import decode_heatmaps
from sapiens2_core.image_processor import Sapiens2ImageProcessor

GOLDEN = Path(__file__).parent / "golden" / "pose_decode.safetensors"


def gaussians(points: Tensor, height: int, width: int, sigma: float = 2.0, noise: float = 0.0) -> Tensor:
    """(..., h, w) maps with a peak at each point (..., 2) x, y."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    distance = (x - points[..., 0, None, None]) ** 2 + (y - points[..., 1, None, None]) ** 2
    maps = torch.exp(-0.5 * distance / sigma**2)
    return maps + noise * torch.rand(maps.shape, generator=torch.Generator().manual_seed(9))


@pytest.fixture(scope="module")
def points() -> Tensor:
    """(2, 20, 2) anywhere on maps of 64 × 48, the borders included."""
    return torch.rand(2, 20, 2, generator=torch.Generator().manual_seed(4)) * torch.tensor([47.0, 63.0])


def reference(heatmaps: Tensor, kernel_size: int = 11) -> tuple[Tensor, Tensor]:
    peaks, scores = get_keypoint_predictions(heatmaps)
    return post_dark_unbiased_data_processing(peaks, heatmaps, kernel_size), scores


@pytest.mark.parametrize("kernel_size", [3, 7, 11, 17])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_keypoints_and_scores_are_the_references(points, kernel_size, noise):
    heatmaps = gaussians(points, 64, 48, noise=noise) * 0.8
    keypoints, scores = decode_heatmaps(heatmaps, kernel_size=kernel_size)
    expected, expected_scores = reference(heatmaps, kernel_size)
    torch.testing.assert_close(keypoints, expected, rtol=0, atol=0.01)
    assert torch.equal(scores, expected_scores)


def awkward_maps(kind: str) -> Tensor:
    """(1, 200, 64, 48) maps with one highest pixel each, of which the clamp before the logarithm touches some."""
    generator = torch.Generator().manual_seed(8)
    places = torch.rand(1, 200, 2, generator=generator) * torch.tensor([47.0, 63.0])
    if kind == "weak":  # maxima from 0.0003 to 0.03: the lower limit of 0.001 acts on all values, on some, on none
        return gaussians(places, 64, 48) * torch.logspace(-3.5, -1.5, 200)[:, None, None]
    if kind == "strong":  # the upper limit of 50 acts from the middle on
        return gaussians(places, 64, 48) * torch.linspace(20, 90, 200)[:, None, None]
    if kind == "border":
        places[..., 0] = torch.where(places[..., 0] < 24, -2 * places[..., 0] / 24, 45 + places[..., 0] / 12)
        return gaussians(places, 64, 48, noise=0.01) * 0.5
    if kind == "clipped":  # flat tops of about 6 × 6 pixels, the highest pixel a hair above the others
        maps = (gaussians(places, 64, 48, sigma=3.0) * 1.6).clamp(max=1.0)
        top = maps.flatten(2).argmax(dim=-1, keepdim=True)
        return maps.flatten(2).scatter_add(2, top, torch.full(top.shape, 1e-4)).unflatten(2, (64, 48))
    noise = torch.randn(1, 200, 64, 48, generator=generator)  # "noise": negative values beside every peak
    return noise * torch.logspace(-3, 1, 200)[:, None, None]


@pytest.mark.parametrize("kind", ["weak", "strong", "border", "clipped", "noise"])
def test_keypoints_are_the_references_where_the_clamp_acts_too(kind):
    heatmaps = awkward_maps(kind)
    keypoints, scores = decode_heatmaps(heatmaps)
    expected, expected_scores = reference(heatmaps)
    # Where a determinant happens to be nearly zero, the step is hundreds of pixels long and rounding shows in it.
    peaks, _ = get_keypoint_predictions(heatmaps)
    usual = (expected - peaks).norm(dim=-1) < 48
    assert usual.float().mean() > 0.9
    torch.testing.assert_close(keypoints[usual], expected[usual], rtol=1e-4, atol=0.01)
    torch.testing.assert_close(keypoints[~usual], expected[~usual], rtol=0.01, atol=0.01)
    assert torch.equal(scores, expected_scores)


def test_whole_maps_are_blurred_only_where_the_clamp_acts(monkeypatch):
    blurred = []
    blur = module._blur
    monkeypatch.setattr(module, "_blur", lambda maps, kernel: blurred.append(tuple(maps.shape)) or blur(maps, kernel))
    inside = torch.rand(1, 30, 2, generator=torch.Generator().manual_seed(5)) * torch.tensor([31.0, 47.0]) + 8
    heatmaps = gaussians(inside, 64, 48)
    decode_heatmaps(heatmaps * 0.5)
    decode_heatmaps(heatmaps * 1e-3)
    assert blurred == [(30, 13, 13)] * 2
    heatmaps[0, 7] *= 60
    decode_heatmaps(heatmaps)
    assert blurred[3:] == [(1, 64 + 10, 48 + 10)]


def test_known_peaks_are_found_between_pixels():
    inside = torch.rand(1, 30, 2, generator=torch.Generator().manual_seed(5)) * torch.tensor([31.0, 47.0]) + 8
    keypoints, scores = decode_heatmaps(gaussians(inside, 64, 48))
    torch.testing.assert_close(keypoints, inside, rtol=0, atol=0.02)
    assert ((scores > 0.9) & (scores <= 1)).all()


def test_authors_numbers():
    """The first two maps have no peak: the authors give NaN. They multiply by the sides of their input, 192 × 256."""
    golden = load_file(GOLDEN)
    keypoints, scores = decode_heatmaps(golden["heatmaps"][None])
    height, width = golden["heatmaps"].shape[-2:]
    in_pixels = keypoints[0] / torch.tensor([width - 1, height - 1]) * torch.tensor([192, 256])
    torch.testing.assert_close(scores[0], golden["scores"], rtol=0, atol=1e-4)
    torch.testing.assert_close(in_pixels[2:], golden["keypoints"][2:], rtol=0, atol=1e-4)
    assert golden["keypoints"][:2].isnan().all()
    assert torch.equal(keypoints[0, :2], torch.full((2, 2), -1.0))


def test_degenerate_maps_give_finite_keypoints_and_the_references_scores():
    spike = torch.zeros(64, 48)
    spike[30, 20] = 1.0
    negative_but_one = torch.full((64, 48), -5.0)
    negative_but_one[10, 10] = 0.1
    maps = torch.stack(
        [
            torch.zeros(64, 48),
            torch.full((64, 48), -1.0),
            torch.full((64, 48), 0.5),
            torch.full((64, 48), 100.0),
            torch.full((64, 48), 1e-30),
            torch.full((64, 48), 1e30),
            spike,
            spike * 1e-6,
            negative_but_one,
            torch.linspace(0, 1, 48).expand(64, 48),
        ]
    )[None]
    keypoints, scores = decode_heatmaps(maps)
    assert torch.isfinite(keypoints).all()
    assert torch.equal(scores, get_keypoint_predictions(maps)[1])
    assert torch.equal(keypoints[0, :2], torch.full((2, 2), -1.0))
    torch.testing.assert_close(keypoints[0, 6], torch.tensor([20.0, 30.0]), rtol=0, atol=1e-3)
    assert torch.equal(keypoints[0, 8], torch.tensor([10.0, 10.0]))


def test_a_step_that_divides_by_zero_is_not_taken():
    """Curvatures of 4 and 4, mixed 4: the ridge of 1e-7 is rounded away, and the determinant is zero."""
    flat, sloping = [0.0, 2.0, 2.0, 2.0, 2.0, 8.0, 8.0], [0.0, 3.0, 1.0, 2.0, 2.0, 8.0, 8.0]
    assert torch.equal(module._newton_step(torch.tensor([flat, sloping])), torch.zeros(2, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_decoded_in_float32(points, dtype):
    heatmaps = gaussians(points, 64, 48).to(dtype)
    mirrored = gaussians(points + 0.4, 64, 48).to(dtype)
    keypoints, scores = decode_heatmaps(heatmaps, mirrored)
    expected, expected_scores = decode_heatmaps(heatmaps.float(), mirrored.float())
    assert keypoints.dtype == scores.dtype == torch.float32
    assert torch.equal(keypoints, expected)
    assert torch.equal(scores, expected_scores)


def test_the_size_of_a_chunk_changes_nothing(points, monkeypatch):
    heatmaps = gaussians(points, 64, 48, noise=0.1)
    whole = decode_heatmaps(heatmaps)
    monkeypatch.setitem(module._CHUNK_BYTES, "cpu", 3 * 64 * 48 * 4)
    parts = decode_heatmaps(heatmaps)
    assert torch.equal(whole[0], parts[0])
    assert torch.equal(whole[1], parts[1])


@pytest.mark.parametrize("kernel_size", [1, 4, 0, -3])
def test_a_kernel_without_a_middle_is_an_error(kernel_size):
    with pytest.raises(ValueError, match="kernel_size"):
        decode_heatmaps(torch.zeros(1, 1, 8, 8), kernel_size=kernel_size)


def test_mirrored_heatmaps_of_another_shape_are_an_error():
    with pytest.raises(ValueError, match="mirrored"):
        decode_heatmaps(torch.zeros(1, 2, 8, 8), torch.zeros(1, 1, 8, 8))


BOXES = [[[10.0, 20.0, 200.0, 400.0], [300.5, 40.25, 500.0, 90.0]], [], [[-30.0, -20.0, 33.0, 44.0]]]


@pytest.fixture(scope="module")
def outputs() -> SimpleNamespace:
    places = torch.rand(3, 12, 2, generator=torch.Generator().manual_seed(6)) * torch.tensor([47.0, 63.0])
    return SimpleNamespace(heatmaps=gaussians(places, 64, 48) * torch.linspace(0.1, 1, 12)[:, None, None])


def assert_same_people(ours: list, theirs: list) -> None:
    assert [len(people) for people in ours] == [len(people) for people in theirs]
    for mine, its in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
        assert mine.keys() == its.keys()
        torch.testing.assert_close(mine["keypoints"], its["keypoints"], rtol=0, atol=0.01)
        torch.testing.assert_close(mine["scores"], its["scores"], rtol=0, atol=1e-4)
        assert torch.equal(mine["labels"], its["labels"])
        torch.testing.assert_close(mine["bbox"], its["bbox"], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threshold": 0.5},
        {"kernel_size": 17},
        {"source_sizes": [(480, 640)] * 3},
        {"source_sizes": [(480, 640), (10, 10), (300, 200)], "target_sizes": [(960, 640), (5, 5), (100, 100)]},
        {"source_sizes": torch.tensor([[480, 640]] * 3), "target_sizes": torch.tensor([[240, 320]] * 3)},
    ],
)
@pytest.mark.parametrize("size", [{"height": 256, "width": 192}, {"height": 256, "width": 320}])
def test_people_are_the_references(outputs, options, size):
    mirrored = SimpleNamespace(heatmaps=outputs.heatmaps.roll(1, dims=-1))
    for flipped in (None, mirrored):
        args = (outputs, BOXES, flipped)
        ours = Sapiens2ImageProcessor(size=size).post_process_pose_estimation(*args, **options)
        theirs = ReferenceProcessor(size=size).post_process_pose_estimation(*args, **options)
        assert_same_people(ours, theirs)


def test_frames_without_people_are_empty_lists():
    nobody = SimpleNamespace(heatmaps=torch.zeros(0, 12, 64, 48))
    assert Sapiens2ImageProcessor().post_process_pose_estimation(nobody, [[], []]) == [[], []]


@pytest.mark.parametrize(
    ("boxes", "options", "message"),
    [
        (BOXES[:2], {}, "heatmaps of 3 people, but 2 boxes"),
        (BOXES, {"target_sizes": [(1, 1)] * 3}, "need source_sizes"),
        (BOXES, {"source_sizes": [(1, 1)]}, "1 source_sizes for 3 images"),
        ([[[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]]], {}, "Box 1 of image 0 has no area"),
    ],
)
def test_what_does_not_agree_is_an_error(outputs, boxes, options, message):
    with pytest.raises(ValueError, match=message):
        Sapiens2ImageProcessor().post_process_pose_estimation(outputs, boxes, **options)
