"""Class ids of pixels as training labels. Ids are names: they are never blended, whatever happens to the picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .image_inputs import ImageInput

#: What stands for "no class": the networks' default ``semantic_loss_ignore_index``.
IGNORED = 255


def as_label_maps(maps: ImageInput, images: list[Tensor], as_large: bool) -> list[Tensor]:
    """Turns segmentation maps of any kind into tensors.

    Args:
        maps: one for each image: (H, W) arrays or tensors of whole numbers, PIL images of one channel (palette
            indices count), a list of them or a batch (N, H, W).
        images: (3, H, W), whose number and devices count.
        as_large: whether maps have to be as large as their images: boxes are in pixels of both.

    Returns:
        Per image (1, H, W) int64, on the image's device.

    Raises:
        ValueError: another number of maps; a map that isn't (H, W) whole numbers, or is of another size. The message
            names it.
    """
    found = [_as_label_map(value, f"Segmentation map {index}") for index, value in enumerate(_one_by_one(maps))]
    if len(found) != len(images):
        raise ValueError(f"There are {len(found)} segmentation maps for {len(images)} images.")
    for index, (values, image) in enumerate(zip(found, images, strict=True)):
        if as_large and values.shape[1:] != image.shape[1:]:
            (height, width), (image_height, image_width) = values.shape[1:], image.shape[1:]
            raise ValueError(
                f"Segmentation map {index} has {width} × {height} pixels, but its image {image_width} × "
                f"{image_height}; to be cropped by the same boxes they need the same size."
            )
    return [values.to(image.device) for values, image in zip(found, images, strict=True)]


def _one_by_one(maps: ImageInput) -> list[Any]:
    if isinstance(maps, (list, tuple)):
        return [part for value in maps for part in _one_by_one(value)]
    is_batch = isinstance(maps, (np.ndarray, Tensor)) and maps.ndim == 3
    return list(maps) if is_batch else [maps]


def _as_label_map(value: Any, name: str) -> Tensor:
    if isinstance(value, Image.Image):
        value = np.array(value)
    labels = torch.as_tensor(value)
    if labels.ndim != 2 or 0 in labels.shape:
        raise ValueError(f"{name} has shape {tuple(labels.shape)}; expected (height, width) class ids.")
    ids = labels.to(torch.int64)
    if not torch.equal(ids.to(labels.dtype), labels):
        raise ValueError(f"{name} holds numbers that are not whole; class ids are.")
    return ids[None]


def reduce_labels(labels: Tensor) -> Tensor:
    """Class ids less one; background, 0, becomes :data:`IGNORED`, which stays as it is."""
    return torch.where((labels == 0) | (labels == IGNORED), IGNORED, labels - 1)
