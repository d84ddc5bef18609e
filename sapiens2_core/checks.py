"""Checks of what an Estimator is given, before it works."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .people import Box


def check_frame(frame: Tensor, number: int) -> None:
    """Raises ValueError unless a frame is of a shape and type that can be used."""
    if not isinstance(frame, Tensor):
        raise ValueError(f"Frame {number} is a {type(frame).__name__}; frames are (3, height, width) tensors.")
    if frame.ndim != 3 or frame.shape[0] not in (1, 3, 4) or 0 in frame.shape:
        raise ValueError(f"Frame {number} has shape {tuple(frame.shape)} instead of (1, 3 or 4, height, width).")
    if not (frame.is_floating_point() or frame.dtype == torch.uint8):
        raise ValueError(f"Frame {number} is of type {frame.dtype}; frames are floats in 0..1, or uint8.")


def check_boxes(boxes: Sequence[Box], height: int, width: int, of: str) -> None:
    """Raises ValueError, naming whose they are, unless each box is x, y, width, height with area inside a frame."""
    for box in boxes:
        if len(box) != 4:
            raise ValueError(f"A box of {of} has {len(box)} numbers instead of x, y, width, height.")
        x, y, box_width, box_height = box
        if not all(math.isfinite(value) for value in box):
            raise ValueError(f"A box of {of} holds a number that is not finite: {tuple(box)}.")
        if not (box_width > 0 and box_height > 0):
            raise ValueError(f"A box of {of} has no area: {box_width:g} × {box_height:g} pixels.")
        if x >= width or y >= height or x + box_width <= 0 or y + box_height <= 0:
            raise ValueError(
                f"A box of {of}, x {x:g} y {y:g} width {box_width:g} height {box_height:g}, lies outside "
                f"of its {width} × {height} pixels."
            )
