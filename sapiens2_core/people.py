"""Which boxes of a frame are its people: no duplicates, as many as wanted, in an order; and boxes from a mask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

Box = tuple[float, float, float, float]
"""x, y, width, height in pixels."""

#: How people can be ordered: by the middle of their boxes, by the size of their boxes, or not at all.
ORDERS = ("left to right", "area", "as given")


def whole_frame(height: int, width: int) -> Box:
    """The box of somebody who is looked for in the whole frame.

    As in the authors' demo it reaches from the centre of the first pixel to that of the last.
    """
    return 0.0, 0.0, float(max(width - 1, 1)), float(max(height - 1, 1))


def sort_boxes(boxes: Sequence[Box], order: str) -> list[int]:
    """Indices of the boxes in one of the :data:`ORDERS`; "area" begins with the largest. Equals stay as given."""
    indices = list(range(len(boxes)))
    if order == "left to right":
        indices.sort(key=lambda index: boxes[index][0] + boxes[index][2] / 2)
    elif order == "area":
        indices.sort(key=lambda index: -boxes[index][2] * boxes[index][3])
    elif order != "as given":
        raise ValueError(f"order is {order!r}; choose one of {', '.join(ORDERS)}.")
    return indices


def suppress_duplicates(boxes: Sequence[Box], scores: Sequence[float], max_iou: float) -> list[int]:
    """Non-maximum suppression: of two boxes that overlap by more than ``max_iou``, the one with the lower score goes.

    Args:
        boxes: of one frame.
        scores: one per box; of equal ones the earlier box stays.
        max_iou: intersection over union, 0..1; 1 drops nothing.

    Returns:
        Indices of the boxes that stay, in the order given.
    """
    import cv2

    if len(boxes) < 2:
        return list(range(len(boxes)))
    above = 1 - min(scores)  # OpenCV drops what scores 0 or less
    kept = cv2.dnn.NMSBoxes(
        [tuple(map(float, box)) for box in boxes], [float(score + above) for score in scores], 0.0, max_iou
    )
    return sorted(int(index) for index in kept)


def choose_people(
    boxes: Sequence[Box],
    scores: Sequence[float],
    *,
    max_iou: float = 0.7,
    max_people: int = 0,
    order: str = ORDERS[0],
) -> list[Box]:
    """The people among one frame's boxes.

    Args:
        boxes: of people only.
        scores: one per box; the same for all where nobody knows.
        max_iou: of two boxes that overlap more, one goes. The usual detectors give no duplicates, so this is high:
            two dancers overlap by more than a half.
        max_people: how many stay, 0 for all: the largest, or with order "as given" the first.
        order: one of :data:`ORDERS`.
    """
    people = [boxes[index] for index in suppress_duplicates(boxes, scores, max_iou)]
    if max_people:
        ranked = sort_boxes(people, "as given" if order == "as given" else "area")[:max_people]
        people = [people[index] for index in sorted(ranked)]
    return [people[index] for index in sort_boxes(people, order)]


def boxes_from_mask(mask: Tensor, min_area: float = 0.001, merge: float = 0.0) -> list[Box]:
    """A box around each connected component of a mask, left to right.

    Args:
        mask: (H, W), 0..1 or bool; a pixel belongs to somebody from 0.5 on. Pixels that touch at a corner are
            connected.
        min_area: smaller components are left out; a share of the frame, so that a speck is one at any resolution.
        merge: components with at most about so many pixels between them are one: a person behind a pole stays whole.
    """
    import cv2
    from scipy.ndimage import find_objects

    inside = (mask.float() >= 0.5).cpu().numpy().astype(np.uint8)
    joined = inside
    if merge > 0 and inside.any():
        # Each side of a gap of n pixels reaches its middle, which lies (n + 1) / 2 from the nearest pixel inside.
        distance = cv2.distanceTransform(1 - inside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        joined = (distance <= (merge + 1) / 2).astype(np.uint8)
    _, labels = cv2.connectedComponents(joined, connectivity=8)
    labels *= inside
    areas = np.bincount(labels.ravel())
    boxes = []
    for label, found in enumerate(find_objects(labels), start=1):
        if areas[label] >= max(min_area * inside.size, 1):
            rows, columns = found
            box = columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start
            boxes.append(tuple(map(float, box)))
    return [boxes[index] for index in sort_boxes(boxes, "left to right")]
