"""Losses: transformers' numbers where it has them, known numbers elsewhere, and what masks and wrong shapes do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.loss.loss_utils import ForSemanticSegmentationLoss

from sapiens2_core.losses import (
    albedo_loss,
    heatmap_loss,
    matting_loss,
    normal_loss,
    pointmap_loss,
    segmentation_loss,
)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def matting(mattes: Tensor, labels: Tensor, valid_mask: Tensor | None = None) -> Tensor:
    return matting_loss(mattes[:, 3:], mattes[:, :3], labels, valid_mask)


def pointmap(points: Tensor, labels: Tensor, valid_mask: Tensor | None = None) -> Tensor:
    return pointmap_loss(points, labels, valid_mask=valid_mask)


#: Those that take a mask, and their number of channels.
DENSE = {normal_loss: 3, pointmap: 3, matting: 4, albedo_loss: 3}
dense = pytest.mark.parametrize(("loss", "channels"), DENSE.items(), ids=lambda value: getattr(value, "__name__", ""))


def test_heatmap_loss_is_the_weighted_mean_of_squares():
    heatmaps, labels, weights = random(2, 5, 8, 6), random(2, 5, 8, 6, seed=1), random(2, 5, 8, 6, seed=2).abs()
    torch.testing.assert_close(heatmap_loss(heatmaps, labels), F.mse_loss(heatmaps, labels))
    expected = (weights * (heatmaps - labels) ** 2).sum() / weights.sum()
    torch.testing.assert_close(heatmap_loss(heatmaps, labels, weights), expected)


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 1, 1), (1, 5, 1, 1), (1,), (8, 6)])
def test_weights_of_heatmaps_are_expanded(shape):
    heatmaps, labels, weights = random(2, 5, 8, 6), random(2, 5, 8, 6, seed=1), random(*shape, seed=2).abs()
    full = weights[..., None, None] if shape == (2, 5) else weights
    expected = heatmap_loss(heatmaps, labels, full.expand(2, 5, 8, 6))
    torch.testing.assert_close(heatmap_loss(heatmaps, labels, weights), expected)


@pytest.mark.parametrize("size", [(16, 12), (32, 24), (21, 13)])
@pytest.mark.parametrize("ignore_index", [255, 3])
def test_segmentation_loss_is_the_references(size, ignore_index):
    logits = random(2, 7, 16, 12)
    labels = torch.randint(0, 7, (2, *size), generator=torch.Generator().manual_seed(1))
    labels[0, :5] = ignore_index
    expected = ForSemanticSegmentationLoss(logits, labels, ignore_index=ignore_index)
    torch.testing.assert_close(segmentation_loss(logits, labels, ignore_index), expected)
    torch.testing.assert_close(segmentation_loss(logits, labels.to(torch.uint8), ignore_index), expected)


def test_segmentation_without_a_class_to_learn_is_zero_where_the_reference_is_nan():
    logits = random(1, 7, 8, 8).requires_grad_()
    labels = torch.full((1, 8, 8), 255)
    assert ForSemanticSegmentationLoss(logits, labels).isnan()
    loss = segmentation_loss(logits, labels)
    loss.backward()
    assert loss == 0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_heatmaps_of_nobody_are_zero():
    heatmaps = random(2, 5, 8, 6).requires_grad_()
    loss = heatmap_loss(heatmaps, random(2, 5, 8, 6, seed=1), torch.zeros(2, 5))
    loss.backward()
    assert loss == 0
    assert torch.equal(heatmaps.grad, torch.zeros_like(heatmaps))


def test_normals_at_right_angles_cost_their_cosine_and_their_distance():
    labels = torch.zeros(1, 3, 2, 2)
    labels[:, 2] = 1
    normals = torch.zeros(1, 3, 2, 2)
    normals[:, 0] = 3
    assert normal_loss(normals, labels).item() == pytest.approx(1 + 3 + 1)
    assert normal_loss(2 * labels, labels).item() == pytest.approx(1)
    assert normal_loss(labels, labels).item() == pytest.approx(0)


def test_points_are_measured_in_mean_depths_of_their_image():
    """Both images are off by a tenth of their depth, on one axis: one is 2 away, the other 20."""
    labels = torch.ones(2, 3, 4, 4) * torch.tensor([2.0, 20.0]).view(2, 1, 1, 1)
    points = labels.clone()
    points[:, 0] *= 1.1
    assert pointmap_loss(points, labels).item() == pytest.approx(0.1)
    scales, scale_labels = torch.tensor([[1.0], [2.0]]), torch.tensor([1.5, 2.5])
    for given in (scale_labels, scale_labels[:, None]):
        assert pointmap_loss(points, labels, scales, given).item() == pytest.approx(0.1 + 0.5)
    assert pointmap_loss(points, labels, scales).item() == pytest.approx(0.1)


def test_mean_depth_is_that_of_valid_pixels():
    labels, mask = torch.full((1, 3, 4, 4), 2.0), torch.ones(1, 4, 4)
    labels[..., 2:], mask[..., 2:] = 1000.0, 0
    points = labels.clone()
    points[:, 1] += 1
    assert pointmap_loss(points, labels, valid_mask=mask).item() == pytest.approx(0.5)


def test_points_far_off_are_clamped_and_teach_nothing():
    points = torch.full((1, 3, 4, 4), 50.0, requires_grad=True)
    scales = torch.zeros(1, 1, requires_grad=True)
    loss = pointmap_loss(points, torch.ones(1, 3, 4, 4), scales, torch.ones(1))
    loss.backward()
    assert loss.item() == pytest.approx(4 + 1)
    assert not points.grad.any()
    assert scales.grad.item() == -1


def test_points_without_depth_do_not_divide_by_zero():
    loss = pointmap_loss(torch.full((1, 3, 4, 4), 0.01), torch.zeros(1, 3, 4, 4))
    assert loss.item() == pytest.approx(3 * 0.01 / 0.04)


def test_an_edge_of_a_matte_costs_its_gradient():
    """Alpha is off by 1 in one of 4 columns, at an edge that 3 of 12 pairs of neighbours cross."""
    labels = torch.zeros(1, 4, 3, 5)
    mattes = labels.clone()
    mattes[:, 3, :, 4] = 1
    assert matting(mattes, labels).item() == pytest.approx(1 / 5 + 3 / 12)


def test_albedo_is_not_clamped():
    assert albedo_loss(torch.full((1, 3, 2, 2), 1.5), torch.ones(1, 3, 2, 2)).item() == pytest.approx(1.5)


@dense
@pytest.mark.parametrize("as_map", [True, False])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32])
def test_what_is_masked_does_not_count_and_may_be_anything(loss, channels, as_map, dtype):
    labels = random(2, channels, 6, 8).abs() + 0.5
    prediction = (labels + 0.1 * random(2, channels, 6, 8, seed=1)).requires_grad_()
    mask = torch.ones(2, 1, 6, 8, dtype=dtype)
    mask[:, :, :, 5:] = 0
    loss(prediction[..., :5], labels[..., :5]).backward()
    expected, prediction.grad = prediction.grad, None

    labels[..., 5:] = float("nan")
    masked = loss(prediction, labels, mask if as_map else mask[:, 0])
    masked.backward()
    assert masked.isfinite()
    torch.testing.assert_close(prediction.grad, expected)
    assert not prediction.grad[..., 5:].any()


@dense
def test_an_empty_mask_gives_zero_and_no_gradient(loss, channels):
    prediction = random(2, channels, 6, 8).requires_grad_()
    result = loss(prediction, random(2, channels, 6, 8, seed=1), torch.zeros(2, 6, 8))
    result.backward()
    assert result == 0
    assert torch.equal(prediction.grad, torch.zeros_like(prediction))


@dense
def test_losses_are_float32_whatever_the_network_runs_in(loss, channels):
    labels = random(2, channels, 6, 8).abs() + 0.5
    prediction = (labels + 0.1 * random(2, channels, 6, 8, seed=1)).to(torch.bfloat16)
    result = loss(prediction, labels)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, loss(prediction.float(), labels))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: heatmap_loss(random(1, 5, 8, 6), random(1, 5, 32, 24)), r"\(1, 5, 32, 24\), .* needs \(1, 5, 8, 6\)"),
        (lambda: heatmap_loss(random(2, 5, 8, 6), random(2, 5, 8, 6), random(2, 4)), "label_weights have shape"),
        (lambda: heatmap_loss(random(2, 5, 8, 6), random(2, 5, 8, 6), random(1, 2, 5, 8, 6)), "label_weights have"),
        (lambda: segmentation_loss(random(2, 7, 8, 8), torch.zeros(1, 8, 8).long()), r"needs \(2, 8, 8\)"),
        (lambda: segmentation_loss(random(2, 7, 8, 8), torch.zeros(2, 1, 8, 8).long()), r"needs \(2, 8, 8\)"),
        (lambda: segmentation_loss(random(2, 1, 8, 8), torch.zeros(2, 8, 8).long()), "knows one class"),
        (lambda: normal_loss(random(1, 3, 8, 8), random(1, 3, 4, 4)), r"needs \(1, 3, 8, 8\)"),
        (lambda: normal_loss(random(1, 3, 8, 8), random(1, 3, 8, 8), random(1, 3, 8, 8)), "valid_mask have shape"),
        (lambda: matting(random(1, 4, 8, 8), random(1, 3, 8, 8)), r"needs \(1, 4, 8, 8\)"),
        (lambda: albedo_loss(random(1, 3, 8, 8), random(2, 3, 8, 8)), r"needs \(1, 3, 8, 8\)"),
        (
            lambda: pointmap_loss(random(2, 3, 8, 8), random(2, 3, 8, 8), random(2, 1), random(3)),
            r"scale_labels have shape \(3, 1\)",
        ),
        (lambda: pointmap_loss(random(2, 3, 8, 8), random(2, 3, 8, 8), None, random(2)), "no scale branch"),
    ],
)
def test_labels_of_another_shape_are_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
