"""From keypoints to heatmaps: what the pose network is trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .crops import Size, boxes_to_crop_params, image_to_crop

Keypoints = Sequence[Sequence[Sequence[Sequence[float]]]] | Sequence[Tensor] | Tensor | np.ndarray
"""Per image, per person, per keypoint: (x, y) or (x, y, visibility) in pixels of the image."""


def as_keypoints(keypoints: Keypoints, boxes: list[Tensor]) -> list[Tensor]:
    """Checks keypoints.

    Args:
        keypoints: per image and box the person's keypoints, (K, 2) x, y or (K, 3) x, y, visibility (COCO's: 0 where
            the keypoint is not labelled, whatever its x and y).
        boxes: per image (n, 4).

    Returns:
        Per box (K, 3) float32 on the CPU; visibility 1 where none was given.

    Raises:
        ValueError: numbers of images, boxes and people that don't agree; keypoints that aren't 2 or 3 numbers each; a
            visible one that isn't finite. The message names the person.
    """
    if len(keypoints) != len(boxes):
        raise ValueError(f"There are keypoints of {len(keypoints)} images, but {len(boxes)} images.")
    people = []
    for index, (image_keypoints, image_boxes) in enumerate(zip(keypoints, boxes, strict=True)):
        if len(image_keypoints) != len(image_boxes):
            raise ValueError(
                f"Image {index} has keypoints of {len(image_keypoints)} people, but {len(image_boxes)} boxes."
            )
        for number, person in enumerate(image_keypoints):
            rows = torch.as_tensor(person, dtype=torch.float32, device="cpu")
            if not len(rows):
                rows = torch.empty(0, 3)
            if rows.ndim != 2 or rows.shape[1] not in (2, 3):
                raise ValueError(
                    f"The keypoints of person {number} in image {index} have shape {tuple(rows.shape)}; give "
                    "(keypoints, 2) x, y or (keypoints, 3) x, y, visibility."
                )
            if rows.shape[1] == 2:
                rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
            if not torch.isfinite(rows[rows[:, 2] > 0]).all():
                raise ValueError(f"A visible keypoint of person {number} in image {index} is not finite.")
            people.append(rows)
    return people


def keypoints_to_heatmaps(
    keypoints: Tensor, boxes: Tensor, crop_size: Size, downscale_factor: int = 4, sigma: float = 6.0
) -> tuple[Tensor, Tensor]:
    """Gaussians at the places of keypoints in their persons' crops.

    exp(−d² / (2 σ²)) with d the distance in pixels of the heatmap, cut off at 3 σ from the pixel next to the keypoint;
    places by UDP, see :func:`~sapiens2_core.crops.crop_to_image`. As transformers' generate_udp_gaussian_heatmaps,
    after the authors' UDPHeatmap.

    Args:
        keypoints: (N, K, 3) x, y in pixels of the image, visibility.
        boxes: (N, 4) x, y, width, height in pixels of the image.
        crop_size: (height, width) of the crops.
        downscale_factor: how many pixels of a crop make one of its heatmap.
        sigma: in pixels of the heatmap.

    Returns:
        heatmaps: (N, K, height // downscale_factor, width // downscale_factor) float32, 0..1.
        weights: (N, K) float32: 1 for a visible keypoint whose Gaussian reaches into the heatmap, else 0, and then
            the heatmap is zero.
    """
    size = crop_size[0] // downscale_factor, crop_size[1] // downscale_factor
    centers, scales = boxes_to_crop_params(boxes, crop_size)
    visible = keypoints[..., 2] > 0
    points = image_to_crop(keypoints[..., :2], centers, scales, size).masked_fill(~visible[..., None], 0.0)
    radius = int(3 * sigma)
    nearest = (points + 0.5).to(torch.int64)
    first, last = nearest - radius, nearest + radius
    sides = torch.tensor([size[1], size[0]], device=points.device)
    is_inside = ((first < sides) & (last >= -1)).all(dim=-1)  # one pixel short of the border still counts, as there
    weights = (visible & is_inside).float()

    def profile(axis: int) -> Tensor:
        """(N, K, side): a Gaussian in two dimensions is the product of two in one."""
        pixels = torch.arange(int(sides[axis]), device=points.device)
        distance = pixels - points[..., axis, None]
        is_near = (pixels >= first[..., axis, None]) & (pixels <= last[..., axis, None])
        return torch.exp(-(distance**2) / (2 * sigma**2)) * is_near

    horizontal, vertical = profile(0) * weights[..., None], profile(1)
    return vertical[..., :, None] * horizontal[..., None, :], weights
