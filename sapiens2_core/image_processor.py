"""Pixels in, results out: the one door between images and networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .batch_feature import BatchFeature
from .crops import Boxes, as_boxes, crop_and_resize, resize, resize_letterboxed
from .image_inputs import ImageInput, as_rgb_images
from .post_processing import PostProcessing

# ImageNet's, in 0..1; the authors' 123.675 116.28 103.53 and 58.395 57.12 57.375 are these × 255.
IMAGE_MEAN = (0.485, 0.456, 0.406)
IMAGE_STD = (0.229, 0.224, 0.225)


@dataclass(kw_only=True, eq=False)
class Sapiens2ImageProcessor(PostProcessing):
    """Prepares images for Sapiens2 networks and turns their outputs into results in the images' pixels.

    Every option can be overridden in one call of :meth:`preprocess`; an unknown one is a TypeError that names it.

    Attributes:
        size: the network's native input, {"height", "width"}; an int (a square) and (height, width) are taken too.
        do_resize: whether to resize to ``size``; crops by boxes have that size in any case.
        do_pad: keep the aspect ratio and pad with zeros (before normalisation) on both sides: normals, pointmaps,
            albedo. Else images are stretched: body parts, mattes.
        do_rescale: whether to multiply pixels by ``rescale_factor``; False for images in 0..1.
        rescale_factor: 1/255 for pixels in 0..255.
        do_normalize: whether to subtract ``image_mean`` and divide by ``image_std``, both of rescaled pixels.
        image_mean: per channel R, G, B.
        image_std: per channel R, G, B.
        do_convert_rgb: lay transparent pixels on white, as transformers does with this option; else alpha is dropped.
            Grey becomes RGB in any case.
    """

    size: dict[str, int] | int | Sequence[int] = field(default_factory=lambda: {"height": 1024, "width": 768})
    do_resize: bool = True
    do_pad: bool = False
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    do_normalize: bool = True
    image_mean: float | Sequence[float] = IMAGE_MEAN
    image_std: float | Sequence[float] = IMAGE_STD
    do_convert_rgb: bool | None = None

    def __post_init__(self) -> None:
        self.size = _size_dict(self.size)

    def preprocess(
        self,
        images: ImageInput,
        *,
        boxes: Boxes | None = None,
        return_tensors: str | None = None,
        input_data_format: str | None = None,
        device: torch.device | str | None = None,
        **overrides: Any,
    ) -> BatchFeature:
        """Makes images, or the people in their boxes, ready for a network.

        Args:
            images: a PIL image, array or tensor, a list of them or a batch of four dimensions (see
                :func:`~sapiens2_core.image_inputs.as_rgb_images`), in 0..255, or with ``do_rescale=False`` in 0..1.
                Whether pixels are finite is not checked.
            boxes: per image a list, empty too, of (x, y, width, height) in pixels. Each box becomes one crop: 1.25
                times as large, grown to the aspect ratio of ``size``, black where it reaches out of the image.
            return_tensors: "pt" for one tensor of all images or crops, None for a list of them.
            input_data_format: "channels_first", "channels_last" or "none"; None infers it per image.
            device: where to work; None stays where each image is.
            overrides: options of the class, for this call.

        Returns:
            {"pixel_values": (N, 3, height, width) float32, or N times (3, height, width)}. Without ``do_normalize``
            and ``do_rescale`` the images' own type, except for crops, which are always float32.

        Raises:
            ValueError: no image; an image or box that can't be used; images of several sizes that can't be stacked.
            TypeError: an unknown option.
        """
        if return_tensors not in (None, "pt"):
            raise ValueError(f'return_tensors is {return_tensors!r}; it must be "pt" or None.')
        options = dataclasses.replace(self, **overrides)
        pictures = as_rgb_images(
            images, input_data_format=input_data_format, do_convert_rgb=bool(options.do_convert_rgb)
        )
        if device is not None:
            pictures = [picture.to(device) for picture in pictures]
        if boxes is None:
            pixels = [options._normalize(options._fit(picture)) for picture in pictures]
        else:
            pixels = [
                crop
                for picture, rows in zip(pictures, as_boxes(boxes, len(pictures)), strict=True)
                for crop in options._normalize(crop_and_resize(picture, rows, options._height_width))
            ]
        if return_tensors is None:
            return BatchFeature(pixel_values=pixels)
        if not pixels:
            return BatchFeature(pixel_values=torch.empty(0, 3, *options._height_width, device=pictures[0].device))
        if len({tuple(picture.shape) for picture in pixels}) > 1:
            raise ValueError(
                "The images have different sizes, so they don't fit in one tensor; leave do_resize on, or don't ask "
                "for return_tensors."
            )
        return BatchFeature(pixel_values=torch.stack(pixels))

    __call__ = preprocess

    def _fit(self, image: Tensor) -> Tensor:
        if not self.do_resize:
            return image
        return (resize_letterboxed if self.do_pad else resize)(image, self._height_width)

    def _normalize(self, pixels: Tensor) -> Tensor:
        """Rescales and normalises (..., 3, H, W); transformers folds the factor into mean and std, and so it's here."""
        if not self.do_normalize:
            if not self.do_rescale:
                return pixels
            return (pixels if pixels.is_floating_point() else pixels.float()) * self.rescale_factor
        mean, std = (
            torch.tensor(value, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)
            * (1 / self.rescale_factor if self.do_rescale else 1)
            for value in (self.image_mean, self.image_std)
        )
        return (pixels.float() - mean).div_(std)


def _size_dict(size: dict[str, int] | int | Sequence[int]) -> dict[str, int]:
    if isinstance(size, int):
        size = (size, size)
    if isinstance(size, dict):
        size = (size.get("height"), size.get("width"))
    sides = tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f'size is {sides}; give {{"height": …, "width": …}}, (height, width) or one number of pixels.')
    return {"height": sides[0], "width": sides[1]}
