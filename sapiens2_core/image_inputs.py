"""Images as people hold them (PIL, numpy, torch; one, many, a batch) as RGB tensors, channels first."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image
from torch import Tensor

logger = logging.getLogger("sapiens2")

ImageInput: TypeAlias = Image.Image | np.ndarray | Tensor | Sequence["ImageInput"]
"""One image, an array of four dimensions (a batch), or a list of either."""

CHANNEL_COUNTS = (1, 3, 4)  # grey, RGB, RGBA


def as_rgb_images(
    images: ImageInput,
    *,
    input_data_format: str | None = None,
    do_convert_rgb: bool = False,
) -> list[Tensor]:
    """Turns images of any kind into RGB tensors; values, type and device stay as they are.

    Grey becomes three equal channels. Alpha is dropped unless ``do_convert_rgb``.

    Args:
        images: PIL images of 8 bits a channel, or numpy arrays or torch tensors, real numbers, of shape (H, W),
            (C, H, W) or (H, W, C), C 1, 3 or 4; a batch of them as an array of four dimensions or in lists.
        input_data_format: "channels_first", "channels_last" or "none" ((H, W) only) for arrays and tensors. None
            looks for a side of 1, 3 or 4, at the front first.
        do_convert_rgb: lay what is transparent on white, as transformers does with this option, instead of dropping
            the alpha channel.

    Returns:
        Per image a (3, H, W) tensor, which may share memory with the input.

    Raises:
        ValueError: there is no image, or one can't be used; the message names it.
    """
    if input_data_format not in (None, "none", "channels_first", "channels_last"):
        raise ValueError(
            f'input_data_format is "{input_data_format}"; it must be "channels_first", "channels_last", "none" or None.'
        )
    tensors = [
        as_rgb(image, input_data_format, do_convert_rgb, f"Image {index}")
        for index, image in enumerate(one_by_one(images))
    ]
    if not tensors:
        raise ValueError("There is no image to process: the batch is empty.")
    return tensors


def one_by_one(images: ImageInput) -> Iterator[ImageInput]:
    """The images of nested lists and batches, in order."""
    if isinstance(images, (list, tuple)):
        for image in images:
            yield from one_by_one(image)
    elif isinstance(images, (np.ndarray, Tensor)) and images.ndim == 4:
        yield from images
    else:
        yield images


def as_rgb(image: ImageInput, data_format: str | None, do_convert_rgb: bool, name: str) -> Tensor:
    """One image as a (3, H, W) tensor; see :func:`as_rgb_images`."""
    if isinstance(image, Image.Image):
        tensor, data_format = _from_pil(image, name), "channels_last"
    elif isinstance(image, np.ndarray):
        if image.dtype.kind not in "uif":
            raise ValueError(f"{name} is an array of {image.dtype}; pixels must be integers or floats.")
        # Copied only where torch could not share the memory: read-only, flipped or byte-swapped arrays.
        native = image.dtype.newbyteorder("=")
        tensor = torch.from_numpy(np.require(image, dtype=native, requirements=["C", "W"]))
    elif isinstance(image, Tensor):
        if image.is_complex() or image.dtype == torch.bool:
            raise ValueError(f"{name} is a tensor of {image.dtype}; pixels must be integers or floats.")
        tensor = image
    else:
        raise ValueError(
            f"{name} is a {type(image).__name__}; give PIL images, numpy arrays or torch tensors (a file is opened "
            "with PIL.Image.open)."
        )
    tensor = _channels_first(tensor, data_format, name)
    if 0 in tensor.shape:
        raise ValueError(f"{name} has no pixels: its shape is {tuple(image.shape)}.")
    if do_convert_rgb and len(tensor) == 4:
        return _over_white(tensor, name)
    return tensor[:3] if len(tensor) > 1 else tensor.expand(3, -1, -1)


def _from_pil(image: Image.Image, name: str) -> Tensor:
    """(H, W, 3), or (H, W, 4) where there is transparency, uint8."""
    if image.mode[0] in "IF":  # Pillow would clamp 16 and 32 bits to 255, which makes a white picture
        raise ValueError(
            f"{name} has Pillow's mode {image.mode}, whose range of values is not known; "
            "convert it to 8 bits a channel."
        )
    is_transparent = "A" in image.getbands() or "transparency" in image.info
    return torch.from_numpy(np.array(image.convert("RGBA" if is_transparent else "RGB")))


def _channels_first(image: Tensor, data_format: str | None, name: str) -> Tensor:
    if image.ndim == 2 and data_format in (None, "none"):
        return image[None]
    if image.ndim == 3 and data_format != "none":
        is_first, is_last = image.shape[0] in CHANNEL_COUNTS, image.shape[2] in CHANNEL_COUNTS
        if data_format is None and is_first and is_last:
            logger.warning(
                "%s has shape %s: its first or its last side could be the channels. The first is taken; "
                "input_data_format settles it.",
                name,
                tuple(image.shape),
            )
        if is_first and data_format != "channels_last":
            return image
        if is_last and data_format != "channels_first":
            return image.movedim(2, 0)
    expected = {
        None: "(height, width), or three sides of which the first or last is 1, 3 or 4 channels",
        "none": "(height, width)",
        "channels_first": "(1, 3 or 4 channels, height, width)",
        "channels_last": "(height, width, 1, 3 or 4 channels)",
    }[data_format]
    raise ValueError(f"{name} has shape {tuple(image.shape)}; expected {expected}.")


def _over_white(image: Tensor, name: str) -> Tensor:
    """An RGBA image (4, H, W), integers up to their type's largest or floats 0..1, as RGB on white, of its type."""
    if image.is_floating_point():
        if image.min() < 0 or image.max() > 1:
            raise ValueError(
                f"{name} is RGBA and has floats outside of 0..1, so its alpha can't be read. Divide it by its largest "
                "possible value, and set do_rescale=False."
            )
        return image[:3] * image[3:] + (1 - image[3:])
    white = torch.iinfo(image.dtype).max
    alpha = image[3:].float() / white
    return (image[:3].float() * alpha + white * (1 - alpha)).round().to(image.dtype)


def as_backgrounds(images: ImageInput, count: int, device: torch.device) -> list[Tensor]:
    """Turns backgrounds of mattes into (3, h, w) float32 RGB in 0..1 on ``device``, one or ``count`` of them.

    Integers are divided by their type's largest; floats stay as they are. Alpha is dropped.

    Raises:
        ValueError: another number of images, or one that can't be used.
    """
    found = []
    for index, image in enumerate(one_by_one(images)):
        # By kind instead of by shape, as torchvision reads them: a colour of shape (1, 1, 3) could be either.
        data_format = "channels_last" if isinstance(image, np.ndarray) else "channels_first"
        is_flat = getattr(image, "ndim", 3) == 2
        rgb = as_rgb(image, "none" if is_flat else data_format, do_convert_rgb=False, name=f"Background {index}")
        largest = 1 if rgb.is_floating_point() else torch.iinfo(rgb.dtype).max
        found.append(rgb.to(device).float() / largest)
    if len(found) not in (1, count):
        raise ValueError(f"There are {len(found)} backgrounds for {count} mattes; give one for all, or one each.")
    return found
