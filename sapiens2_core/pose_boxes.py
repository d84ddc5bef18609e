"""A box in every frame around a part of one person, steady enough to cut a clip out with it; points for SAM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .keypoints import VISIBLE_SCORE
from .openpose import HAND_LEFT_21, HAND_RIGHT_21, frame_to_openpose
from .pose_selection import check_person
from .results import FramePose, PersonPose, Pose
from .tracking import track

Floats = NDArray[np.float64]

_EARS = tuple(range(220, 272))
_FACE = (*range(70, 220), *range(272, 308))
_HEAD = (*range(5), *_FACE, *_EARS)
_EYES, _CHIN = (299, 290), 77


@dataclass(frozen=True)
class _Part:
    """A part of a person.

    Attributes:
        points: keypoints in it.
        least: how many of them must be visible for the part to be seen.
        prompts: those of them that lie well inside of it.
        has_head: the box reaches up to the crown.
    """

    points: tuple[int, ...]
    least: int
    prompts: tuple[int, ...]
    has_head: bool = False


_UPPER = (*_HEAD, *range(5, 11), *range(21, 70))

#: Parts that can be boxed; left and right are the person's own.
PARTS = {
    "person": _Part(tuple(range(308)), 4, (0, 69, *range(5, 15), 41, 62), has_head=True),
    "face": _Part(_FACE, 12, (71, 178, 188, 189, 290, 299)),
    "head": _Part(_HEAD, 4, (0, 1, 2, 70, 76), has_head=True),
    "upper body": _Part(_UPPER, 4, (0, 69, *range(5, 11)), has_head=True),
    "left hand": _Part(HAND_LEFT_21, 5, (62, 45, 49, 53, 57, 61)),
    "right hand": _Part(HAND_RIGHT_21, 5, (41, 24, 28, 32, 36, 40)),
}

#: How boxes can be held steady over the clip: not at all; size and place smoothed; one size, its place smoothed.
STEADY = ("off", "smooth", "constant size")

_SMOOTHING_FRAMES = 4.0  # standard deviation; a sixth of a second at 24 frames a second
_LEAST_HEAD_WIDTH = 0.8  # over the height of a head, from any side


def _head_points(points: Floats, visible: NDArray[np.bool_]) -> Floats:
    """The crown, which none of the keypoints marks: the eyes lie half-way between it and the chin. (0 or 1, 2)."""
    if not visible[[*_EYES, _CHIN]].all():
        return np.zeros((0, 2))
    return (2 * points[list(_EYES)].mean(axis=0) - points[_CHIN])[None]


def _widen_head(box: Floats, points: Floats, visible: NDArray[np.bool_]) -> Floats:
    """x1, y1, x2, y2 of a head with room for its back, which lies beyond the ears where they are seen from a side."""
    width, height = box[2] - box[0], box[3] - box[1]
    lacking = _LEAST_HEAD_WIDTH * height - width
    if lacking <= 0:
        return box
    ears = points[[index for index in _EARS if visible[index]], 0]
    share = 0.5 if not len(ears) or width <= 0 else float(np.clip((ears.mean() - box[0]) / width, 0, 1))
    return box + np.array([share - 1, 0, share, 0]) * lacking


def _part_box(person: PersonPose, part: str, threshold: float, size: tuple[int, int]) -> Floats | None:
    """x1, y1, x2, y2 around one person's part, None where it isn't seen."""
    rule = PARTS[part]
    points, scores = person.keypoints.double().numpy(), person.scores.double().numpy()
    visible = scores > threshold
    indices = [index for index in rule.points if visible[index]]
    if len(indices) < rule.least:
        return None
    found = points[indices]
    if part == "face":  # the fitted jaw line is not among the keypoints
        (openpose,) = frame_to_openpose(FramePose((person,), *size), threshold)["people"]
        found = np.concatenate([found, np.reshape(openpose["face_keypoints_2d"], (70, 3))[:, :2]])
    elif rule.has_head:
        found = np.concatenate([found, _head_points(points, visible)])
    box = np.concatenate([found.min(axis=0), found.max(axis=0)])
    return _widen_head(box, points, visible) if part == "head" else box


def _person_of(frame: FramePose, identities: list[int], number: int) -> PersonPose | None:
    return frame.people[identities.index(number)] if number in identities else None


def _measure(pose: Pose, part: str, number: int, threshold: float) -> Floats:
    """(frames, 4) x1, y1, x2, y2; NaN where the part isn't seen."""
    if part not in PARTS:
        raise ValueError(f"part is {part!r}; choose one of {', '.join(PARTS)}.")
    identities = track(pose)
    check_person(number, identities)
    boxes = np.full((len(pose.frames), 4), np.nan)
    for index, frame in enumerate(pose.frames):
        person = _person_of(frame, identities[index], number)
        box = None if person is None else _part_box(person, part, threshold, (frame.height, frame.width))
        if box is not None:
            boxes[index] = box
    if np.isnan(boxes).all():
        raise ValueError(
            f"The {part} of person {number} isn't seen in any frame. Lower score_threshold (it is {threshold:g}), "
            "or choose another part or person."
        )
    return boxes


def _fill_gaps(boxes: Floats) -> Floats:
    """Boxes where there are none: on the way from the one before to the one after, at the ends the nearest."""
    seen = ~np.isnan(boxes[:, 0])
    frames = np.arange(len(boxes))
    return np.stack([np.interp(frames, frames[seen], boxes[seen, axis]) for axis in range(4)], axis=1)


def _smooth(values: Floats) -> Floats:
    """(frames, n) smoothed over time. The ends go on as they were going, so that they don't lag."""
    from scipy.ndimage import gaussian_filter1d

    beyond = round(4 * _SMOOTHING_FRAMES)
    extended = np.pad(values, ((beyond, beyond), (0, 0)), mode="reflect", reflect_type="odd")
    return gaussian_filter1d(extended, _SMOOTHING_FRAMES, axis=0)[beyond : beyond + len(values)]


def boxes_from_pose(
    pose: Pose,
    part: str,
    person: int = 0,
    *,
    square: bool = True,
    padding: float = 0.2,
    steady: str = "smooth",
    threshold: float = VISIBLE_SCORE,
) -> list[tuple[int, int, int, int]]:
    """Exactly one box per frame around a part of one person.

    Boxes lie inside their frames: at a border they are moved, not cut, so that a square stays one; a box larger than
    its frame becomes as large as fits. Frames in which the part isn't seen have boxes between their neighbours'.

    Args:
        pose: a clip.
        part: one of :data:`PARTS`.
        person: number in order of appearance (:func:`~sapiens2_core.tracking.track`).
        square: the shorter side becomes as long as the longer one.
        padding: room on each side, as a share of the box's width and height.
        steady: one of :data:`STEADY`. Smoothing looks at the frames before and after alike, so boxes don't lag;
            a smoothed size is that of the largest box nearby.
        threshold: a keypoint is visible when its score is above this.

    Returns:
        Per frame x, y, width, height in whole pixels, so that readers that cut whole pixels off keep the size.

    Raises:
        ValueError: a part that isn't seen at all, or a person who isn't there.
    """
    from scipy.ndimage import maximum_filter1d

    if steady not in STEADY:
        raise ValueError(f"steady is {steady!r}; choose one of {', '.join(STEADY)}.")
    boxes = _fill_gaps(_measure(pose, part, person, threshold))
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    # Pixels have an extent: from the first one's centre to the last one's is one less than they are.
    tight = boxes[:, 2:] - boxes[:, :2] + 1
    sides = tight * (1 + 2 * padding)
    if steady != "off":
        steadied = _smooth(centers)
        # Where the part starts or stops so fast that the padding can't hold it, the box grows.
        sides = np.maximum(sides, tight + 2 * np.abs(steadied - centers))
        centers = steadied
    if square:
        sides = np.repeat(sides.max(axis=1, keepdims=True), 2, axis=1)
    if steady == "smooth":
        sides = _smooth(maximum_filter1d(sides, 2 * round(_SMOOTHING_FRAMES) + 1, axis=0))
    elif steady == "constant size":
        sides = np.broadcast_to(np.percentile(sides, 95, axis=0), sides.shape)  # a frame or two may be wrong
    return [
        _inside(center, side, (frame.width, frame.height), square)
        for center, side, frame in zip(centers, sides, pose.frames, strict=True)
    ]


def _inside(center: Floats, sides: Floats, frame: tuple[int, int], square: bool) -> tuple[int, int, int, int]:
    """A box in whole pixels within a frame of (width, height)."""
    limits = np.full(2, min(frame)) if square else np.array(frame)
    sides = np.rint(sides).clip(1, limits).astype(int)
    corner = np.rint(center - (sides - 1) / 2).clip(0, np.array(frame) - sides).astype(int)
    return tuple(map(int, (*corner, *sides)))


def prompt_points(pose: Pose, part: str, person: int = 0, threshold: float = VISIBLE_SCORE) -> list[tuple[int, int]]:
    """Pixels x, y well inside a part of one person, in the first frame in which it is seen.

    Where none of the keypoints that lie inside is visible and within the frame, the middle of the part is given.

    Raises:
        ValueError: as :func:`boxes_from_pose`.
    """
    boxes = _measure(pose, part, person, threshold)
    first = int(np.flatnonzero(~np.isnan(boxes[:, 0]))[0])
    frame = pose.frames[first]
    found = _person_of(frame, track(pose)[first], person)
    rows = list(PARTS[part].prompts)
    points, scores = found.keypoints[rows].round().int().tolist(), found.scores[rows].tolist()
    inside = [
        (x, y)
        for (x, y), score in zip(points, scores, strict=True)
        if score > threshold and 0 <= x < frame.width and 0 <= y < frame.height
    ]
    middle = ((boxes[first, :2] + boxes[first, 2:]) / 2).round().clip(0, (frame.width - 1, frame.height - 1))
    return inside or [(int(middle[0]), int(middle[1]))]
