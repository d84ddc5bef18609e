"""Sapiens2's 308 keypoints as OpenPose people (ComfyUI's POSE_KEYPOINT).

OpenPose's face is dlib's 68 points and two pupils. Many readers of those 70 points ignore confidence: they take the
box of all of them. So a face point is never left at the corner of the frame unless the whole face is absent, and
dlib's jaw line, which is not among the 308, is fitted to the face.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .results import FramePose, PersonPose, Pose

#: Sapiens2's index of each OpenPose-18 body point: nose, neck, right arm, left arm, right leg, left leg, eyes, ears.
BODY_18 = (0, 69, 6, 8, 41, 5, 7, 62, 10, 12, 14, 9, 11, 13, 2, 1, 4, 3)

#: Left big toe, small toe and heel, then the right ones.
FOOT_6 = (15, 16, 17, 18, 19, 20)


def _hand(wrist: int, first: int) -> tuple[int, ...]:
    """Wrist, then thumb to little finger, each from its third joint (stored last of four) to its tip."""
    return (wrist, *(index for finger in range(first, first + 20, 4) for index in range(finger + 3, finger - 1, -1)))


HAND_RIGHT_21 = _hand(41, 21)
HAND_LEFT_21 = _hand(62, 42)

#: dlib's points 0 to 16 are the jaw line.
NUM_JAW = 17
_NOSE_BASE = (180, 184, 179, 187, 181)
_CHIN = 77
#: Per side: tragus (top, most protruding point, bottom), where the ear lobe joins the cheek, tip of the lobe.
_RIGHT_EAR = (264, 263, 262, 269, 267)
_LEFT_EAR = (238, 237, 236, 243, 241)

Floats = NDArray[np.float64]


class _Face:
    """The 308 points of one person, and the few questions that the face's map asks of them."""

    def __init__(self, points: Floats, scores: Floats, threshold: float) -> None:
        self.points = points
        self.scores = scores
        self.threshold = threshold
        self.rows: list[tuple[float, float, float]] = []

    def is_visible(self, index: int) -> bool:
        return bool(self.scores[index] > self.threshold)

    def add(self, *indices: int) -> None:
        """Adds keypoints as they are."""
        self.rows.extend((*self.points[index], self.scores[index]) for index in indices)

    def first_visible(self, *indices: int) -> int:
        return next((index for index in indices if self.is_visible(index)), indices[0])

    def ordered(self, start: int, end: int, inner: Sequence[int]) -> list[int]:
        """``inner`` in the order in which one meets them on the way from ``start`` to ``end``."""
        way = self.points[end] - self.points[start]
        return sorted(inner, key=lambda index: float(self.points[index] @ way))

    def add_along(self, start: int, end: int, inner: Sequence[int], fractions: Sequence[float]) -> None:
        """Adds points at ``fractions`` of the length of the line start – inner – end, as weak as their neighbours."""
        visible = [index for index in inner if self.is_visible(index)] or inner
        line = [start, *self.ordered(start, end, visible), end]
        lengths = np.linalg.norm(np.diff(self.points[line], axis=0), axis=1)
        reached = np.concatenate([[0.0], np.cumsum(lengths)])
        for fraction in fractions:
            at = fraction * reached[-1]
            after = int(np.clip(np.searchsorted(reached, at), 1, len(line) - 1))
            x, y = (np.interp(at, reached, self.points[line, axis]) for axis in (0, 1))
            self.rows.append((x, y, min(self.scores[line[after - 1]], self.scores[line[after]])))


def _split(face: _Face, start: int, end: int, inner: Sequence[int]) -> tuple[list[int], list[int]]:
    """``inner`` as the half near ``start`` and the half near ``end``."""
    ordered = face.ordered(start, end, inner)
    half = len(ordered) // 2
    return ordered[:half], ordered[half:]


def _inner_face(points: Floats, scores: Floats, threshold: float) -> Floats:
    """dlib's points 17 to 67 and the pupils, as (53, 3) x, y, score.

    dlib goes from the image's left, so from the person's right. The order of points along a brow, a lash line or a
    lip is taken from where they lie: their numbers do not tell it.
    """
    face = _Face(points, scores, threshold)
    thirds = (1 / 3, 2 / 3)

    face.add(80, *face.ordered(80, 78, (81, 83, 84)), 78)  # brows
    face.add(87, *face.ordered(87, 89, (90, 92, 93)), 89)

    tip_of_nose = face.first_visible(178, 72)
    face.add(71)  # nose
    face.add_along(71, tip_of_nose, (73, 74, 75), thirds)
    face.add(tip_of_nose, *_NOSE_BASE)

    for first, second, upper, lower in ((121, 120, range(122, 129), range(163, 170)),
                                        (96, 97, range(98, 105), range(146, 153))):  # fmt: skip
        face.add(first)  # eyes: upper lash line there, lower lash line back
        face.add_along(first, second, upper, thirds)
        face.add(second)
        face.add_along(second, first, lower, thirds)

    lips = (
        (188, 190, 189, 191, (192, 193, *range(196, 200)), (194, 195, *range(200, 204)), thirds),
        (204, 206, 205, 207, (208, 209, *range(212, 216)), (210, 211, *range(216, 220)), (0.5,)),
    )
    for right, top, left, bottom, upper, lower, fractions in lips:
        upper_right, upper_left = _split(face, right, left, upper)
        lower_left, lower_right = _split(face, left, right, lower)
        face.add(right)
        face.add_along(right, top, upper_right, fractions)
        face.add(top)
        face.add_along(top, left, upper_left, fractions)
        face.add(left)
        face.add_along(left, bottom, lower_left, fractions)
        face.add(bottom)
        face.add_along(bottom, right, lower_right, fractions)

    face.add(face.first_visible(299, 2), face.first_visible(290, 1))  # pupils, or the body's eyes
    return np.array(face.rows)


# The jaw line's shape, in the frame of the face: origin at the nose root, v = 1 at the tip of the chin, u square to it
# and in the same unit. Proportions of an adult's head seen from the front.
_JAW_EXPONENT = 2.3  # of the superellipse from ear to chin: 2 is round, more is square
_EAR_LEVEL = 0.15  # v of the tragus when no ear is seen
_WIDTH_OVER_EYES = 1.45  # half width at the ears over the distance of the outer corner of the eye from the middle
_EAR_BEHIND_EYES = 0.6  # what a profile adds to that width, as the ear lies behind the eye
_CHIN_OVER_MOUTH = 1.65  # nose root to chin over nose root to mouth
_CHIN_OVER_EYES = 1.3  # nose root to chin over the distance of the eyes' outer corners
_CHIN_OVER_BROWS = 1.15  # the same over the distance of the brows' outer ends
_CHIN_OVER_NOSE = 2.2  # nose root to chin over nose root to nose base
_CHIN_OVER_REST = 3.0  # nose root to chin over the longer side of what is visible when that is little
_USUAL_WIDTH = 0.6  # half width at the ears when neither ear nor eye is seen on either side
_NOSE_IN_PROFILE = 0.2  # distance of the nose's tip from the line nose root to chin, seen from the side
_LEAST_WIDTH = 0.02
_MARGIN = 1.05  # by how much the line clears the outermost point of the face


class _FaceFrame:
    """Coordinates of a face: v from nose root to chin, u to the person's left."""

    def __init__(self, root: Floats, chin: Floats) -> None:
        self.root = root
        self.length = max(float(np.linalg.norm(chin - root)), 1e-6)
        self.down = (chin - root) / self.length
        self.across = np.array([self.down[1], -self.down[0]])

    def coordinates(self, xy: Floats) -> tuple[Floats, Floats]:
        """(n, 2) pixels → u and v."""
        return (xy - self.root) @ self.across / self.length, (xy - self.root) @ self.down / self.length

    def pixels(self, u: Floats, v: Floats) -> Floats:
        """The way back."""
        return self.root + self.length * (u[:, None] * self.across + v[:, None] * self.down)


def _face_frame(points: Floats, scores: Floats, inner: Floats, threshold: float) -> _FaceFrame:
    """The frame of a face. What it rests on may be weak: then it follows from what is visible."""

    def middle(*groups: tuple[int, ...]) -> Floats | None:
        """Of the first group of dlib's points that are all visible."""
        for group in groups:
            rows = inner[[number - NUM_JAW for number in group]]
            if (rows[:, 2] > threshold).all():
                return rows[:, :2].mean(axis=0)
        return None

    chin = points[_CHIN] if scores[_CHIN] > threshold else None
    mouth = middle((48, 54), (51, 57), (62, 66))
    root = middle((27,), (39, 42), (21, 22), (39,), (42,))
    visible = inner[inner[:, 2] > threshold, :2]
    if root is None and mouth is not None and chin is not None:
        root = (_CHIN_OVER_MOUTH * mouth - chin) / (_CHIN_OVER_MOUTH - 1)
    elif root is None:
        root = np.array([visible[:, 0].mean(), visible[:, 1].min()])
    return _FaceFrame(root, _guess_chin(root, mouth, middle, visible) if chin is None else chin)


def _guess_chin(root: Floats, mouth: Floats | None, middle: Callable[..., Floats | None], visible: Floats) -> Floats:
    """Where the tip of the chin is when it isn't seen: by proportion, from the surest of what is."""
    if mouth is not None:
        return root + _CHIN_OVER_MOUTH * (mouth - root)
    for right, left, proportion in ((36, 45, _CHIN_OVER_EYES), (17, 26, _CHIN_OVER_BROWS)):
        if (start := middle((right,))) is not None and (end := middle((left,))) is not None:
            x, y = end - start
            return root + proportion * np.array([-y, x])
    for group, proportion in ((48,), _CHIN_OVER_MOUTH), ((54,), _CHIN_OVER_MOUTH), ((33,), _CHIN_OVER_NOSE):
        if (below := middle(group)) is not None:
            return root + proportion * (below - root)
    return root + np.array([0.0, _CHIN_OVER_REST * np.ptp(visible, axis=0).max()])


def _half_width(down: Floats) -> Floats:
    """Half width of the jaw at 0 (ear) to 1 (chin), for a half width of 1 at the ear and above it."""
    return (1 - down.clip(0, 0.98) ** _JAW_EXPONENT) ** (1 / _JAW_EXPONENT)


@dataclass(frozen=True)
class _Side:
    """One side of a face in its frame: u counts from the middle outwards, only visible points are kept.

    Attributes:
        top: v of the tragus.
        width: half width at ``top``, or None when neither ear nor eye tells it.
        needed: half width that encloses the visible points of the face.
    """

    top: float
    width: float | None
    needed: float


def _turn(frame: _FaceFrame, inner: Floats, threshold: float, sign: int, otherwise: float) -> float:
    """How far a face is turned to a side, 0 to 1 (a profile), as the nose tells; ``otherwise`` where it is hidden."""
    tip = inner[30 - NUM_JAW]
    if tip[2] <= threshold:
        return otherwise
    return min(max(sign * float(frame.coordinates(tip[None, :2])[0][0]) / _NOSE_IN_PROFILE, 0.0), 1.0)


def _measure_side(
    frame: _FaceFrame, points: Floats, scores: Floats, inner: Floats, threshold: float, sign: int
) -> _Side:
    """The left side for ``sign`` 1, the right side for −1."""
    ear, corners = (_LEFT_EAR, (45, 26, 54)) if sign > 0 else (_RIGHT_EAR, (36, 17, 48))
    seen_ear = [index for index in ear if scores[index] > threshold]
    u, v = frame.coordinates(points[seen_ear].reshape(-1, 2))
    tragus = v[: sum(index in ear[:3] for index in seen_ear)]
    top = min(float(tragus.min()), 0.9) if len(tragus) else _EAR_LEVEL

    rows = inner[[corner - NUM_JAW for corner in corners]]
    eye_seen = rows[0, 2] > threshold
    rows = rows[rows[:, 2] > threshold]
    side_u, side_v = frame.coordinates(rows[:, :2])
    needed = _MARGIN * sign * side_u / _half_width((side_v - top) / (1 - top))

    width = None
    if seen_ear:
        share = _half_width((v - top) / (1 - top))
        width = sign * float(u @ share / (share @ share))
    elif eye_seen:
        away = _turn(frame, inner, threshold, -sign, otherwise=0.0)
        width = _WIDTH_OVER_EYES * sign * float(side_u[0]) + _EAR_BEHIND_EYES * away
    return _Side(top, width, float(needed.max(initial=_LEAST_WIDTH)))


def _half_jaw(frame: _FaceFrame, top: float, width: float, sign: int) -> Floats:
    """Nine points from an ear to the chin, in even steps."""
    angles = np.linspace(0, np.pi / 2, 129)
    u, v = (np.abs(f(angles)) ** (2 / _JAW_EXPONENT) for f in (np.cos, np.sin))
    curve = frame.pixels(sign * width * u, top + (1 - top) * v)
    reached = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    steps = np.linspace(0, reached[-1], 9)
    return np.stack([np.interp(steps, reached, curve[:, axis]) for axis in (0, 1)], axis=1)


def fit_jaw(points: Floats, scores: Floats, inner: Floats, threshold: float) -> Floats:
    """dlib's jaw line, points 0 to 16, fitted to the visible points of a face.

    Each half is a quarter of a superellipse from the tragus to the tip of the chin. Its width is the least-squares
    fit to the visible points of that ear (tragus and lobe), or follows from the eye where the ear is hidden, or from
    the other side, and is widened where a visible point of brow, eye or mouth would lie outside.

    Args:
        points: (308, 2) pixels.
        scores: (308,).
        inner: (53, 3) x, y, score of dlib's points 17 to 67 and the pupils.
        threshold: a point is visible when its score is above this.

    Returns:
        (17, 2) from the person's right ear over the chin to the left ear, in even steps on each half.
    """
    frame = _face_frame(points, scores, inner, threshold)
    sides = {sign: _measure_side(frame, points, scores, inner, threshold, sign) for sign in (-1, 1)}
    halves = []
    for sign, side in sides.items():
        width = side.width
        if width is None:
            other = sides[-sign].width
            turn = _turn(frame, inner, threshold, sign, otherwise=0.5)
            width = _USUAL_WIDTH if other is None else other * (1 - min(turn, 0.95))
        halves.append(_half_jaw(frame, side.top, max(width, side.needed), sign))
    right, left = halves
    return np.concatenate([right, left[-2::-1]])


def _face_70(points: Floats, scores: Floats, threshold: float) -> Floats:
    """OpenPose's face as (70, 3) x, y, score; a weak or fitted point has score 0, an absent face is all zeros."""
    inner = _inner_face(points, scores, threshold)
    visible = inner[:, 2] > threshold
    if not visible.any():
        return np.zeros((70, 3))
    jaw = fit_jaw(points, scores, inner, threshold)
    # A weak point is where a heatmap without a peak happens to be largest, which may be far off: it may stray from
    # the visible ones by their extent, no more.
    anchors = np.concatenate([inner[visible, :2], jaw])
    low, high = anchors.min(axis=0), anchors.max(axis=0)
    inner[~visible, :2] = inner[~visible, :2].clip(low, high)
    inner[~visible, 2] = 0
    return np.concatenate([np.pad(jaw, ((0, 0), (0, 1))), inner])


def _flat(rows: Floats, real_confidence: bool) -> list[float]:
    rows = rows.copy()
    rows[:, 2] = rows[:, 2].clip(0, 1) if real_confidence else rows[:, 2] > 0
    return [float(value) for value in rows.reshape(-1)]


def _person(person: PersonPose, threshold: float, real_confidence: bool) -> dict[str, list[float]]:
    points = person.keypoints.double().numpy()
    scores = person.scores.double().numpy()
    rows = np.concatenate([points, scores[:, None]], axis=1)
    rows[scores <= threshold] = 0  # an absent point of body, foot or hand
    return {
        "pose_keypoints_2d": _flat(rows[list(BODY_18)], real_confidence),
        "foot_keypoints_2d": _flat(rows[list(FOOT_6)], real_confidence),
        "face_keypoints_2d": _flat(_face_70(points, scores, threshold), real_confidence),
        "hand_left_keypoints_2d": _flat(rows[list(HAND_LEFT_21)], real_confidence),
        "hand_right_keypoints_2d": _flat(rows[list(HAND_RIGHT_21)], real_confidence),
    }


def frame_to_openpose(frame: FramePose, threshold: float, real_confidence: bool = False) -> dict[str, Any]:
    """One frame of :func:`to_openpose`."""
    return {
        "people": [_person(person, threshold, real_confidence) for person in frame.people],
        "canvas_width": frame.width,
        "canvas_height": frame.height,
    }


def to_openpose(pose: Pose, threshold: float, real_confidence: bool = False) -> list[dict[str, Any]]:
    """A clip's people in ComfyUI's POSE_KEYPOINT form.

    Args:
        pose: the clip.
        threshold: a keypoint is present when its score is above this; 0 or more.
        real_confidence: write scores, clamped to 0..1, instead of 1.0 for a present keypoint. Off by default:
            comfyui_controlnet_aux drops every keypoint whose confidence is below 1.0.

    Returns:
        Per frame ``{"people", "canvas_width", "canvas_height"}``. A person has flat lists of x, y, confidence in
        pixels: ``pose_keypoints_2d`` (18 points), ``foot_keypoints_2d`` (6), ``hand_left_keypoints_2d`` and
        ``hand_right_keypoints_2d`` (21), ``face_keypoints_2d`` (70: dlib's 68, right pupil, left pupil).
        An absent point of body, foot or hand is 0, 0, 0. A weak face point, and the fitted jaw line (0 to 16),
        is x, y, 0; only a face without any visible point is all zeros.
    """
    return [frame_to_openpose(frame, threshold, real_confidence) for frame in pose.frames]
