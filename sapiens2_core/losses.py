"""What networks are trained to lower, one function for each task.

Those for heatmaps and body parts give transformers' numbers. transformers has none for the other tasks; theirs are
made of the authors' terms (sapiens/dense/src/models/losses and .../heads), here with weights of one. All are computed
in float32. Where nothing is valid the loss is 0 and so is its gradient, where a mean of nothing would be NaN.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: A network can't be thrown off by one bad batch: the authors' ceiling for the pointmap's terms (their PointmapHead).
MAX_POINTS_LOSS = 4.0

#: Metres in front of the canonical camera below which the authors take no sample (their PointmapPackInputs).
MIN_DEPTH = 0.04


def _check_shape(labels: Tensor, expected: tuple[int, ...], name: str = "labels") -> None:
    if tuple(labels.shape) != tuple(expected):
        raise ValueError(f"{name} have shape {tuple(labels.shape)}, but this output needs {tuple(expected)}.")


def _as_mask(valid_mask: Tensor | None, like: Tensor) -> Tensor:
    """``valid_mask`` as (B, 1, H, W) bool; everything where there is none."""
    shape = (like.shape[0], 1, *like.shape[2:])
    if valid_mask is None:
        return like.new_ones(shape, dtype=torch.bool)
    if valid_mask.ndim == 3:
        valid_mask = valid_mask[:, None]
    _check_shape(valid_mask, shape, "The values of valid_mask")
    return valid_mask.to(like.device) != 0


def _prepare(prediction: Tensor, labels: Tensor, valid_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Both as float32, and the mask; labels are 0 where invalid, since NaN there would spread through gradients."""
    _check_shape(labels, tuple(prediction.shape))
    mask = _as_mask(valid_mask, prediction)
    labels = labels.to(device=prediction.device, dtype=torch.float32)
    return prediction.float(), labels.masked_fill(~mask, 0.0), mask


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the valid pixels of (B, C, H, W) ``values``, summed over channels; 0 where there are none.

    As in the authors' L1Loss: sum(values · mask) / sum(mask).
    """
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def heatmap_loss(heatmaps: Tensor, labels: Tensor, label_weights: Tensor | None = None) -> Tensor:
    """Weighted mean squared error: sum(w · (heatmaps − labels)²) / sum(w).

    As transformers' F.mse_loss(heatmaps, labels, weight=label_weights), but weights need not be as large as the maps.

    Args:
        heatmaps: (B, K, h, w).
        labels: the same shape.
        label_weights: (B, K) as the image processor gives them, or anything that expands to the labels' shape, such as
            (B, K, 1, 1); 0 leaves a keypoint out. None weighs all alike.

    Raises:
        ValueError: shapes that don't fit.
    """
    _check_shape(labels, tuple(heatmaps.shape))
    squares = (heatmaps.float() - labels.to(heatmaps.device).float()) ** 2
    if label_weights is None:
        return squares.mean()
    weights = label_weights.to(heatmaps.device).float()
    if weights.shape == heatmaps.shape[:2]:
        weights = weights[..., None, None]
    fits = weights.ndim <= 4 and all(
        have in (1, want) for have, want in zip(weights.shape[::-1], squares.shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"label_weights have shape {tuple(label_weights.shape)}, which doesn't expand to that of the labels, "
            f"{tuple(labels.shape)}."
        )
    weights = weights.expand_as(squares)
    total = weights.sum()
    return (squares * weights).sum() / torch.where(total == 0, 1.0, total)


def segmentation_loss(logits: Tensor, labels: Tensor, ignore_index: int = 255) -> Tensor:
    """Cross entropy, averaged over the pixels that count; logits are resized to the labels (bilinear).

    As transformers' ForSemanticSegmentationLoss.

    Args:
        logits: (B, classes, h, w).
        labels: (B, H, W) class ids of any integer type.
        ignore_index: the id that doesn't count.

    Raises:
        ValueError: shapes that don't fit; a network of one class. Whether all ids are below the number of classes is
            not checked here: a GPU would have to wait for the answer.
    """
    _check_shape(labels, (len(logits), *labels.shape[-2:]))
    if logits.shape[1] == 1:
        raise ValueError("This network knows one class, so there is nothing to tell apart; it needs two or more.")
    logits = F.interpolate(logits.float(), size=labels.shape[-2:], mode="bilinear", align_corners=False)
    labels = labels.to(device=logits.device, dtype=torch.int64)
    total = F.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")
    return total / (labels != ignore_index).sum().clamp(min=1)


def normal_loss(normals: Tensor, labels: Tensor, valid_mask: Tensor | None = None) -> Tensor:
    """1 − cosine of the angle, plus L1: mean over valid pixels of (1 − n̂ · t̂) + ‖n − t‖₁.

    n is the network's normal as it comes, so that the second term teaches it its length; n̂ and t̂ have length 1. The
    authors' NormalCosineSimilarityLoss (which they weigh 10 times) and L1Loss.

    Args:
        normals: (B, 3, H, W).
        labels: the same shape, unit vectors.
        valid_mask: (B, 1, H, W) or (B, H, W), 0 or False where the label doesn't count and may be NaN.

    Raises:
        ValueError: shapes that don't fit.
    """
    normals, labels, mask = _prepare(normals, labels, valid_mask)
    cosine = (F.normalize(normals, dim=1, eps=1e-6) * F.normalize(labels, dim=1, eps=1e-6)).sum(dim=1, keepdim=True)
    return masked_mean(1 - cosine, mask) + masked_mean((normals - labels).abs(), mask)


def pointmap_loss(
    pointmaps: Tensor,
    labels: Tensor,
    scales: Tensor | None = None,
    scale_labels: Tensor | None = None,
    valid_mask: Tensor | None = None,
) -> Tensor:
    """L1 of points in units of the image's mean depth, plus L1 of scales.

    min(mean over valid pixels of ‖p − t‖₁ / z̄, 4) + mean |scale − its label|, where z̄ is the mean of the image's own
    valid depths t_z. A batch that reaches the ceiling teaches its points nothing. The authors' L1Loss (which they weigh
    2 times), as their PointmapHead feeds and clamps it, and PointmapScaleL1Loss (4 times).

    Args:
        pointmaps: (B, 3, H, W) canonical points, as the network gives them.
        labels: the same shape, canonical too: metric points times scale.
        scales: (B, 1), as the network gives them.
        scale_labels: (B,) or (B, 1): canonical focal length / actual focal length; None leaves the second term out.
        valid_mask: as for :func:`normal_loss`.

    Raises:
        ValueError: shapes that don't fit; ``scale_labels`` for a network without a scale branch.
    """
    pointmaps, labels, mask = _prepare(pointmaps, labels, valid_mask)
    depth = (labels[:, 2:] * mask).sum(dim=(2, 3), keepdim=True) / mask.sum(dim=(2, 3), keepdim=True).clamp(min=1)
    distance = (pointmaps - labels).abs() / depth.clamp(min=MIN_DEPTH)
    loss = masked_mean(distance, mask).clamp(max=MAX_POINTS_LOSS)
    if scale_labels is None:
        return loss
    if scales is None:
        raise ValueError("There are scale_labels, but this network has no scale branch.")
    if scale_labels.ndim == 1:
        scale_labels = scale_labels[:, None]
    _check_shape(scale_labels, tuple(scales.shape), "scale_labels")
    return loss + F.l1_loss(scales.float(), scale_labels.to(scales.device).float())


def matting_loss(alphas: Tensor, foregrounds: Tensor, labels: Tensor, valid_mask: Tensor | None = None) -> Tensor:
    """L1 of alpha and premultiplied colour, plus L1 of their gradients, which keeps hair and edges sharp.

    With m the four channels: mean over valid pixels of ‖m − t‖₁ + mean over pairs of valid neighbours of
    ‖∂m − ∂t‖₁, across and down, ∂ the difference of the two. The authors publish no loss for mattes; the gradient term
    is that of "F, B, Alpha Matting" (Forte and Pitié 2020), for all four channels.

    Args:
        alphas: (B, 1, H, W), and
        foregrounds: (B, 3, H, W), in 0..1, as the network gives them.
        labels: (B, 4, H, W): premultiplied RGB, alpha, in 0..1.
        valid_mask: as for :func:`normal_loss`.

    Raises:
        ValueError: shapes that don't fit.
    """
    error, labels, mask = _prepare(torch.cat([foregrounds, alphas], dim=1), labels, valid_mask)
    error = error - labels
    loss = masked_mean(error.abs(), mask)
    for dim in (2, 3):
        pairs = mask.shape[dim] - 1
        both = mask.narrow(dim, 0, pairs) & mask.narrow(dim, 1, pairs)
        loss = loss + masked_mean(error.diff(dim=dim).abs(), both)
    return loss


def albedo_loss(albedos: Tensor, labels: Tensor, valid_mask: Tensor | None = None) -> Tensor:
    """L1: mean over valid pixels of ‖a − t‖₁, of the network's output as it comes, not clamped. The authors' L1Loss.

    Args:
        albedos: (B, 3, H, W).
        labels: the same shape, RGB in 0..1.
        valid_mask: as for :func:`normal_loss`.

    Raises:
        ValueError: shapes that don't fit.
    """
    albedos, labels, mask = _prepare(albedos, labels, valid_mask)
    return masked_mean((albedos - labels).abs(), mask)
