"""Where pixels come from and where results go back to: boxes and affine crops, the letterbox and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Size = tuple[int, int]
"""(height, width) in pixels."""

Boxes = Sequence[Sequence[Sequence[float]]] | Sequence[Tensor] | Tensor | np.ndarray
"""Per image its boxes (x, y, width, height) in pixels."""

BOX_PADDING = 1.25
"""How much wider and higher than a person's box his crop is (the authors' GetBBoxCenterScale, and transformers')."""


@dataclass(frozen=True)
class Letterbox:
    """Where an image lies in a larger canvas, in pixels of the canvas."""

    top: int
    left: int
    height: int
    width: int

    def cut(self, maps: Tensor) -> Tensor:
        """The image's part (..., height, width) of maps (..., H, W) as large as the canvas, without copying."""
        return maps[..., self.top : self.top + self.height, self.left : self.left + self.width]


def letterbox(source_size: Size, canvas_size: Size) -> Letterbox:
    """The largest place in a canvas for an image that keeps its aspect ratio, centred.

    Sides are rounded down and an odd rest of the padding goes right and below, as in transformers; a very long image
    keeps at least one pixel of its short side, where transformers raises.

    Args:
        source_size: the image's (height, width).
        canvas_size: the canvas's (height, width).
    """
    height, width = source_size
    canvas_height, canvas_width = canvas_size
    scale = min(canvas_height / height, canvas_width / width)
    new_height, new_width = max(1, int(height * scale)), max(1, int(width * scale))
    return Letterbox((canvas_height - new_height) // 2, (canvas_width - new_width) // 2, new_height, new_width)


def resize(image: Tensor, size: Size, mode: str = "bilinear") -> Tensor:
    """Resizes (C, H, W) to (C, *size), with antialiasing but for "nearest-exact".

    Each type goes the way it goes in torchvision, and so in transformers: float32, float64 and, on the CPU or in mode
    "nearest-exact", uint8 natively; all others through float32, back to their own type (integers rounded).

    Args:
        image: of any real type.
        size: (height, width).
        mode: "bilinear", "bicubic" or "nearest-exact".
    """
    if tuple(image.shape[-2:]) == tuple(size):
        return image
    if size[1] == 1 < size[0]:
        # A column one pixel wide, all that is left of a very long image: PyTorch (2.9 to 2.14, CPU, floats) gets it
        # wrong, and a row right.
        return resize(image.mT, (1, size[0]), mode).mT
    is_nearest, is_byte = mode == "nearest-exact", image.dtype == torch.uint8
    is_native_byte = is_byte and (is_nearest or image.device.type == "cpu")
    native = image.dtype in (torch.float32, torch.float64) or is_native_byte
    pixels = image if native else image.float()
    resized = F.interpolate(pixels[None], size=size, mode=mode, antialias=not is_nearest)[0]
    if not native and is_byte:
        resized = resized.clamp_(0, 255)  # a bicubic kernel overshoots
    if not (native or image.is_floating_point()):
        resized = resized.round_()
    return resized.to(image.dtype)


def resize_letterboxed(image: Tensor, size: Size, mode: str = "bilinear") -> Tensor:
    """Resizes (C, H, W) into the :func:`letterbox` of a canvas; the canvas (C, *size) is zero around it."""
    box = letterbox(tuple(image.shape[-2:]), size)
    right, bottom = size[1] - box.left - box.width, size[0] - box.top - box.height
    return F.pad(resize(image, (box.height, box.width), mode), (box.left, right, box.top, bottom))


def center_crop(image: Tensor, size: Size) -> Tensor:
    """The middle (C, *size) of (C, H, W), zeros where the image is smaller.

    Of an odd rest the larger half is cut, or padded, to the right and below, as in transformers.
    """
    (height, width), (crop_height, crop_width) = image.shape[-2:], size
    lacking = max(0, crop_width - width), max(0, crop_height - height)
    image = F.pad(image, (lacking[0] // 2, -(-lacking[0] // 2), lacking[1] // 2, -(-lacking[1] // 2)))
    top, left = (max(0, height - crop_height)) // 2, (max(0, width - crop_width)) // 2
    return image[..., top : top + crop_height, left : left + crop_width]


def as_boxes(boxes: Boxes, num_images: int | None) -> list[Tensor]:
    """Checks boxes.

    Args:
        boxes: per image a list, empty too, of (x, y, width, height).
        num_images: how many lists there should be; None takes any number.

    Returns:
        Per image (n, 4) float32 on the CPU.

    Raises:
        ValueError: another number of lists; a box that is not 4 finite numbers, or has no area. The message names it.
    """
    if num_images is not None and len(boxes) != num_images:
        raise ValueError(f"There are lists of boxes for {len(boxes)} images, but {num_images} images.")
    checked = []
    for index, image_boxes in enumerate(boxes):
        rows = [torch.as_tensor(box, dtype=torch.float32, device="cpu") for box in image_boxes]
        for number, row in enumerate(rows):
            if row.shape != (4,):
                raise ValueError(f"Box {number} of image {index} has to be 4 numbers: x, y, width, height.")
            if not torch.isfinite(row).all():
                raise ValueError(f"Box {number} of image {index} holds a number that is not finite: {row.tolist()}.")
            if not (row[2:] > 0).all():
                raise ValueError(f"Box {number} of image {index} has no area: {row[2]:g} × {row[3]:g} pixels.")
        checked.append(torch.stack(rows) if rows else torch.empty(0, 4))
    return checked


def boxes_to_crop_params(boxes: Tensor, output_size: Size, padding: float = BOX_PADDING) -> tuple[Tensor, Tensor]:
    """Centres and sizes of the crops for boxes: padded, then grown to the output's aspect ratio.

    Args:
        boxes: (N, 4) x, y, width, height in pixels (transformers' function of this name takes centres).
        output_size: (height, width) whose aspect ratio the crops take.
        padding: factor on width and height.

    Returns:
        centers: (N, 2) x, y in pixels of the image.
        scales: (N, 2) width, height in pixels of the image.
    """
    corner, extent = boxes[:, :2], boxes[:, 2:]
    width, height = (extent * padding).unbind(-1)
    aspect_ratio = output_size[1] / output_size[0]
    is_wide = width > height * aspect_ratio
    scales = torch.stack(
        [torch.where(is_wide, width, height * aspect_ratio), torch.where(is_wide, width / aspect_ratio, height)], dim=-1
    )
    return corner + 0.5 * extent, scales


def crop_to_image(points: Tensor, centers: Tensor, scales: Tensor, grid_size: Size) -> Tensor:
    """Maps points on crops' grids (the crop itself, or its heatmap) back to the image.

    The unit of length is side − 1 (UDP: "The Devil is in the Details", Huang et al. 2020): the centres of a grid's
    outer pixels lie on the crop's edges.

    Args:
        points: (N, K, 2) x, y in pixels of the grid.
        centers: (N, 2), and
        scales: (N, 2), as :func:`boxes_to_crop_params` gives them.
        grid_size: (height, width) of the grid, at least 2 × 2.

    Returns:
        (N, K, 2) x, y in pixels of the image.
    """
    height, width = grid_size
    units = points.new_tensor([width - 1, height - 1])
    return points / units * scales[:, None] + centers[:, None] - 0.5 * scales[:, None]


def image_to_crop(points: Tensor, centers: Tensor, scales: Tensor, grid_size: Size) -> Tensor:
    """The inverse of :func:`crop_to_image`: points in pixels of the image to pixels of crops' grids, (N, K, 2) each."""
    height, width = grid_size
    return ((points - centers[:, None]) / scales[:, None] + 0.5) * points.new_tensor([width - 1, height - 1])


def crop_and_resize(image: Tensor, boxes: Tensor, output_size: Size, mode: str | None = None) -> Tensor:
    """Crops people out of an image by UDP affine warps (see :func:`crop_to_image`); black outside of the image.

    A crop that shrinks along an axis is sampled bilinearly, one that grows bicubically: the authors' cv2.warpAffine,
    as transformers does it.

    Args:
        image: (C, H, W) of any real type.
        boxes: (N, 4) x, y, width, height in pixels, on the CPU.
        output_size: (height, width) of the crops, at least 2 × 2.
        mode: "nearest", for what can't be mixed; None chooses as said.

    Returns:
        (N, C, *output_size) float32, on the image's device.
    """
    device = image.device
    if device.type == "mps":
        image = image.cpu()  # PyTorch has no bicubic grid_sample for Apple's GPUs
    image = image.float()[None]
    *_, height, width = image.shape
    if 1 in (height, width):
        # grid_sample spreads −1..1 over side − 1 pixels. A side of one pixel has none; a second one, of the zeros that
        # lie outside anyway, changes no sample.
        image = F.pad(image, (0, int(width == 1), 0, int(height == 1)))
    sides = image.shape[-1], image.shape[-2]
    output_height, output_width = output_size
    centers, scales = boxes_to_crop_params(boxes, output_size)
    crops = image.new_empty(len(boxes), image.shape[1], output_height, output_width)
    # One at a time: a grid is as large as two thirds of a crop. The arithmetic's order is transformers', since a
    # coordinate's last bit shows in the fifth decimal of a sharp pixel.
    for crop, center, scale in zip(crops, centers, scales, strict=True):
        zoom = (output_width - 1) / scale[0], (output_height - 1) / scale[1]
        x, y = (
            2.0 * (torch.arange(length, dtype=torch.float32) / zoom[axis] + center[axis] - 0.5 * scale[axis])
            / (sides[axis] - 1) - 1.0
            for axis, length in enumerate((output_width, output_height))
        )  # fmt: skip
        grid = torch.stack(torch.meshgrid(x.to(image.device), y.to(image.device), indexing="xy"), dim=-1)
        sampling = mode or ("bilinear" if min(zoom) < 1.0 else "bicubic")
        crop.copy_(F.grid_sample(image, grid[None], mode=sampling, padding_mode="zeros", align_corners=True)[0])
    return crops.to(device)
