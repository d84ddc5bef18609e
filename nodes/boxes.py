"""Every form in which a graph brings boxes -> the core's: (x, y, width, height) in float pixels, with their scores.

This file imports nothing of ComfyUI or of the pack, so that its rules can be tested on their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

Box = tuple[float, float, float, float]
Detection = tuple[Box, float]
"""A box and its score."""

#: Label that detectors trained on COCO give to people; boxes with another label are dropped.
PERSON = "person"

FORMS = (
    "boxes takes dicts with x, y, width and height (BOUNDING_BOX) or (x1, y1, x2, y2) corners (BBOX): "
    "one for all frames, a list for all frames, or a list per frame"
)


def boxes_per_frame(boxes: Any, num_frames: int, height: int, width: int) -> list[list[Detection]]:
    """What a BOUNDING_BOX or BBOX socket brought: per frame a list of COCO boxes with their scores.

    A dict is a COCO box and four numbers are corners (x1, y1, x2, y2). Accepted are

    * one box: every frame has it;
    * a flat list of dicts, or an array (N, 4): shared by every frame, as ComfyUI reads it; a flat list (or array) of
      corners that is as long as the clip is one box per frame, as the makers of BBOX write it;
    * a list per frame of either, possibly empty, or an array (frames, N, 4); a list of one such list is shared.

    Boxes whose label is not "person" are dropped; an empty list means nobody. A box that brings no score has 1.

    Args:
        boxes: what the socket brought.
        num_frames: frames in the clip.
        height: of the frames, in pixels.
        width: of the frames, in pixels.

    Raises:
        ValueError: another form, lists for another number of frames, a box without area, with coordinates that
            aren't finite, or wholly outside the frame.
    """
    boxes = _plain(boxes)
    if isinstance(boxes, Mapping) or _is_corners(boxes):
        frames = [[boxes]] * num_frames
    elif not isinstance(boxes, Sequence) or isinstance(boxes, str):
        raise ValueError(f"boxes can't be read from a {type(boxes).__name__}. {FORMS}.")
    elif all(isinstance(box, Mapping) for box in boxes):
        frames = [list(boxes)] * num_frames
    elif all(_is_corners(box) for box in boxes):
        frames = [[box] for box in boxes] if len(boxes) == num_frames else [list(boxes)] * num_frames
    else:
        lists = [_frame_list(entry) for entry in boxes]
        if len(lists) not in (1, num_frames):
            raise ValueError(
                f"boxes holds lists for {len(lists)} frames, but image has {num_frames}. "
                "Give one list per frame, or one list for all of them."
            )
        frames = lists * num_frames if len(lists) == 1 else lists
    return [
        [(_coco(box, index, height, width), _score(box)) for box in frame if _is_person(box)]
        for index, frame in enumerate(frames)
    ]


def _plain(value: Any) -> Any:
    """Tensors and arrays as nested lists; everything else as it is, its items likewise."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _is_corners(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(_is_number(item) for item in value)


def _frame_list(entry: Any) -> list[Any]:
    """One frame's boxes out of a list per frame: a list of boxes, one box, or None for nobody."""
    if entry is None:
        return []
    if isinstance(entry, Mapping) or _is_corners(entry):
        return [entry]
    if isinstance(entry, list) and all(isinstance(box, Mapping) or _is_corners(box) for box in entry):
        return entry
    raise ValueError(f"boxes holds an entry that isn't a box: {entry!r:.100}. {FORMS}.")


def _is_person(box: Any) -> bool:
    label = box.get("label") if isinstance(box, Mapping) else None
    return label is None or str(label).strip().lower() in ("", PERSON)


def _score(box: Any) -> float:
    score = _plain(box.get("score")) if isinstance(box, Mapping) else None
    return float(score) if _is_number(score) and math.isfinite(score) else 1.0


def _coco(box: Any, frame: int, height: int, width: int) -> Box:
    if isinstance(box, Mapping):
        missing = [key for key in ("x", "y", "width", "height") if key not in box]
        if missing:
            raise ValueError(f"A box of frame {frame} lacks {', '.join(missing)}: {dict(box)!r:.100}. {FORMS}.")
        x, y, w, h = (float(box[key]) for key in ("x", "y", "width", "height"))
    else:
        x1, y1, x2, y2 = (float(corner) for corner in box)
        x, y, w, h = x1, y1, x2 - x1, y2 - y1
    where = f"The box x {x:g}, y {y:g}, width {w:g}, height {h:g} of frame {frame}"
    if not all(math.isfinite(value) for value in (x, y, w, h)):
        raise ValueError(f"{where} has coordinates that aren't finite numbers. Check the node that makes boxes.")
    if w <= 0 or h <= 0:
        raise ValueError(f"{where} has no area. Remove it, or check the node that makes boxes.")
    if x >= width or y >= height or x + w <= 0 or y + h <= 0:
        raise ValueError(
            f"{where} lies outside of the {width} × {height} pixel frame. "
            "Boxes are in pixels of image: was it resized after they were made?"
        )
    return x, y, w, h
