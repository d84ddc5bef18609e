"""ComfyUI's own detector of people: an RT-DETR, as its Load Diffusion Model node gives it.

Beside host.py the only file that imports comfy.*.
"""

from __future__ import annotations

import math
from typing import Any

import comfy.model_management
import comfy.utils
from torch import Tensor

from .boxes import PERSON, Detection

#: Side of the square that a frame is stretched to, which the network was trained on, and frames at once.
_SIDE, _FRAMES = 640, 8


def _check(detector: Any) -> list[str]:
    """Names of the network's classes; ValueError unless it is an RT-DETR."""
    try:
        from comfy.ldm.rt_detr.rtdetr_v4 import COCO_CLASSES, RTv4
    except ImportError as error:
        raise ValueError("detector needs a newer ComfyUI, one that has RT-DETR: update it, or use boxes.") from error
    network = detector.model.diffusion_model
    if not isinstance(network, RTv4):
        raise ValueError(
            f"detector takes an RT-DETR model from Load Diffusion Model; this one is a {type(network).__name__}. "
            "Connect that, or boxes of another detector."
        )
    return COCO_CLASSES


def detect_people(detector: Any, image: Tensor, threshold: float) -> list[list[Detection]]:
    """Finds the people in each frame.

    Args:
        detector: what a MODEL socket brought.
        image: (B, H, W, 1, 3 or 4) 0..1.
        threshold: of the score.

    Returns:
        Per frame the boxes in pixels with their scores, best first.

    Raises:
        ValueError: the model is no RT-DETR.
    """
    person = _check(detector).index(PERSON)
    num_frames, height, width = image.shape[:3]
    comfy.model_management.load_models_gpu([detector])
    bar = comfy.utils.ProgressBar(num_frames)
    people: list[list[Detection]] = []
    for start in range(0, num_frames, _FRAMES):
        comfy.model_management.throw_exception_if_processing_interrupted()
        frames = image[start : start + _FRAMES, ..., :3].movedim(-1, 1)
        frames = frames.expand(-1, 3, -1, -1)  # grey
        pixels = comfy.utils.common_upscale(frames, _SIDE, _SIDE, "bilinear", crop="disabled")
        for found in detector.model.diffusion_model(pixels, (width, height)):
            keep = (found["labels"] == person) & (found["scores"] > threshold)
            rows, scores = found["boxes"][keep].float().tolist(), found["scores"][keep].float().tolist()
            people.append(_usable(rows, scores, height, width))
        bar.update_absolute(len(people))
    return people


def _usable(rows: list[list[float]], scores: list[float], height: int, width: int) -> list[Detection]:
    """Corners as COCO boxes, without those that have no area in the frame."""
    found = []
    for (x1, y1, x2, y2), score in sorted(zip(rows, scores, strict=True), key=lambda row: -row[1]):
        is_inside = x1 < x2 and y1 < y2 and x1 < width and y1 < height and x2 > 0 and y2 > 0
        if is_inside and all(map(math.isfinite, (x1, y1, x2, y2))):
            found.append(((x1, y1, x2 - x1, y2 - y1), score))
    return found
