"""Steady skeletons: a clip's keypoints without jitter, flicker and short gaps, and without lag.

A clip is there as a whole, so every frame is estimated from what comes before and after it alike: nothing trails
behind. How far one looks is decided keypoint by keypoint and frame by frame (Lepski's method): as far as the wider view
agrees, within the noise, with all narrower ones. A hand at rest is averaged over a second, one that claps hardly at
all. The noise itself is measured on the keypoint's own path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from .results import FramePose, PersonPose, Pose
from .tracking import track, visible_box

Floats = NDArray[np.float64]

#: Standard deviation, in frames, of the widest view at strength 1; half of it by default.
_WIDEST = 28.0
_NARROWEST = 0.7

#: By how many standard deviations of its noise a narrower view may differ from a wider one that is still trusted.
_TOLERANCE = 3.75

#: What can be noise, as shares of the person's longer side, at strength 1: less always is, more is motion.
_LEAST_NOISE, _MOST_NOISE = 0.002, 0.02

#: Frames around a fast moment that are taken as fast.
_FAST_FRAMES = 2

#: A score below this share of those on both sides of a short gap is part of the gap.
_GAP_SHARE = 0.5

#: At strength 1: standard deviation in frames of the mean over scores, and how far a score must move to count.
_SCORE_SPREAD, _SCORE_BAND = 4.0, 0.2

#: Bounds the memory that long clips take.
_KEYPOINTS_AT_ONCE = 44

#: Ridge on slope and bend of a local polynomial, so that one or two points give a level one.
_RIDGE = 0.05


@dataclass
class _Path:
    """One person from first to last sighting.

    Attributes:
        first: its first frame.
        points: (T, 308, 2) pixels, zeros where it was not seen.
        scores: (T, 308), zeros where it was not seen.
        boxes: (T, 4) x, y, width, height.
        places: (T,) its place among the people of the frame, -1 where it was not seen.
    """

    first: int
    points: Floats
    scores: Floats
    boxes: Floats
    places: NDArray[np.int64]

    @classmethod
    def of(cls, pose: Pose, sightings: list[tuple[int, int]]) -> _Path:
        first, last = sightings[0][0], sightings[-1][0]
        length, num_keypoints = last - first + 1, pose.frames[first].people[sightings[0][1]].scores.numel()
        path = cls(
            first,
            np.zeros((length, num_keypoints, 2)),
            np.zeros((length, num_keypoints)),
            np.zeros((length, 4)),
            np.full(length, -1),
        )
        for frame, place in sightings:
            person, at = pose.frames[frame].people[place], frame - first
            path.points[at], path.scores[at] = person.keypoints.numpy(), person.scores.numpy()
            path.boxes[at], path.places[at] = person.box, place
        return path

    @property
    def size(self) -> float:
        """The person's longer side in pixels, the median over its frames."""
        sides = [
            (box[2:] - box[:2]).max()
            for box in (
                visible_box(self.points[at], self.scores[at], tuple(self.boxes[at])) for at in self._seen_frames()
            )
        ]
        return max(float(np.median(sides)), 1.0)

    def _seen_frames(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.places >= 0)

    def fill_people(self, most: int) -> None:
        """Puts the person into gaps of up to ``most`` frames: its box and place; keypoints come later."""
        seen = self._seen_frames()
        for before, after in pairwise(seen):
            gap = np.arange(before + 1, after)
            if 0 < len(gap) <= most:
                share = ((gap - before) / (after - before))[:, None]
                self.boxes[gap] = self.boxes[before] + share * (self.boxes[after] - self.boxes[before])
                self.places[gap] = self.places[before]


def _close(scores: Floats, most: int) -> Floats:
    """Raises dips of up to ``most`` frames to the lower of what is on their two sides (a grey closing over time)."""
    from scipy.ndimage import grey_closing

    if not most:
        return scores
    edge = ((most + 1, most + 1), (0, 0))  # beyond its ends a path has no keypoints: nothing is filled there
    return grey_closing(np.pad(scores, edge), size=(most + 1, 1))[most + 1 : -most - 1]


def _interpolate(points: Floats, gaps: NDArray[np.bool_]) -> Floats:
    """(T, K, 2) points with those in ``gaps`` (T, K) on straight ways between their neighbours outside."""
    points = points.copy()
    frames = np.arange(len(points))
    for keypoint in np.flatnonzero(gaps.any(axis=0)):
        gap = gaps[:, keypoint]
        for axis in (0, 1):
            points[gap, keypoint, axis] = np.interp(frames[gap], frames[~gap], points[~gap, keypoint, axis])
    return points


def _convolve(values: Floats, kernel: Floats) -> Floats:
    """``kernel``-weighted sums over the frames around each frame (kernel[i] is for the frame i - radius later)."""
    from scipy.ndimage import correlate1d

    return correlate1d(values, kernel, axis=0, mode="constant")


@dataclass
class _View:
    """Points estimated from the frames around each frame.

    Attributes:
        points: (T, K, 2).
        noise: (T, K) its standard deviation, for points of weight 1 that have one of 1.
    """

    points: Floats
    noise: Floats


def _local_polynomial(points: Floats, weights: Floats, spread: float, order: int) -> _View:
    """At each frame the value of a weighted least-squares polynomial in time, under a Gaussian window.

    A point's variance is 1 / its weight.
    """
    radius = int(np.ceil(3 * spread))
    offsets = np.arange(-radius, radius + 1.0)
    kernel = np.exp(-0.5 * (offsets / spread) ** 2)
    powers = range(2 * order + 1)
    moments = [_convolve(weights, kernel * offsets**power) for power in powers]
    squares = [_convolve(weights, kernel**2 * offsets**power) for power in powers]
    known = moments[0] > 1e-12
    scale = np.where(known, moments[0], 1.0)

    def matrix(sums: list[Floats]) -> Floats:
        return np.stack([np.stack(sums[row : row + order + 1], -1) for row in range(order + 1)], -2)

    ridge = _RIDGE * np.diag([0.0] + [1.0] * order)
    normal = matrix(moments) / scale[..., None, None] + ridge
    normal[~known] = np.eye(order + 1)
    # The estimate is linear in the points: the first row of the inverse says how.
    row = np.linalg.solve(normal, np.eye(order + 1)[:, :1])[..., 0] / scale[..., None]
    weighted = points * weights[..., None]
    estimate = sum(row[..., power, None] * _convolve(weighted, kernel * offsets**power) for power in range(order + 1))
    variance = np.einsum("...i,...ij,...j->...", row, matrix(squares), row)
    return _View(np.where(known[..., None], estimate, points), np.where(known, np.sqrt(variance.clip(0)), 1.0))


def _views(points: Floats, weights: Floats, widest: float) -> Iterator[_View]:
    """The points themselves, then ever wider and stiffer views.

    Parabolas over ever more frames, since a path bends at the peak of a motion; then, for what moves evenly or not at
    all, a line and a mean, which are less noisy, most of all at the ends of a path.
    """
    yield _View(points, 1 / np.sqrt(weights.clip(1e-4)))
    steps = int(np.log2(widest / _NARROWEST)) if widest >= _NARROWEST else -1
    for step in range(steps, -1, -1):
        yield _local_polynomial(points, weights, widest / 2**step, order=2)
    for order in (1, 0) if steps >= 0 else ():
        yield _local_polynomial(points, weights, widest, order)


def _noise(points: Floats, scores: Floats, size: float, strength: float) -> Floats:
    """(K,) standard deviation of each keypoint's jitter in pixels.

    From fourth differences, to which even fast motion adds little: their variance is 70 times that of the points. Only
    moments with good scores are asked, where there are some.
    """
    least, most = _LEAST_NOISE * strength * size, _MOST_NOISE * strength * size
    if len(points) < 5:
        return np.full(points.shape[1], least)
    differences = np.linalg.norm(np.diff(points, n=4, axis=0), axis=2)
    windows = np.lib.stride_tricks.sliding_window_view(scores, 5, axis=0).min(axis=2)
    good = windows >= 0.5 * np.quantile(scores, 0.9, axis=0)
    good |= ~good.any(axis=0)
    median = np.nanmedian(np.where(good, differences, np.nan), axis=0)
    # The median length of a 2-D Gaussian is 1.1774 standard deviations.
    return (median / (1.1774 * np.sqrt(70))).clip(least, most)


def _steady(points: Floats, weights: Floats, noise: Floats, widest: float) -> Floats:
    """(T, K, 2) points, each from as many frames as agree."""
    from scipy.ndimage import gaussian_filter1d, minimum_filter1d

    views: list[_View] = []
    trusted = np.ones(weights.shape, dtype=bool)
    level = np.zeros(weights.shape)
    for view in _views(points, weights, widest):
        for narrower in views:
            difference = ((view.points - narrower.points) ** 2).sum(axis=2) / (noise * narrower.noise) ** 2
            trusted &= difference <= _TOLERANCE**2
        level += trusted if views else 0
        views.append(view)
    # The widest trusted parabola may already cut peaks off by as much as the noise hides: the next narrower does not.
    level = np.where(level < len(views) - 2, np.maximum(level - 1, 0), level)
    level = minimum_filter1d(level, 2 * _FAST_FRAMES + 1, axis=0, mode="nearest")
    level = gaussian_filter1d(level, _FAST_FRAMES, axis=0, mode="nearest").clip(0, len(views) - 1)
    result = np.zeros_like(points)
    for index, view in enumerate(views):
        result += view.points * (1 - np.abs(level - index)).clip(0)[..., None]
    return result


def _hold(scores: Floats, band: float) -> Floats:
    """Scores with hysteresis: one moves only when it would leave a band around where it was, forwards and backwards.

    A score that hovers around a threshold, whichever, is then on one side of it.
    """
    passes = []
    for direction in (1, -1):
        values = scores[::direction]
        held = np.empty_like(values)
        state = values[0]
        for index, value in enumerate(values):
            state = np.clip(state, value - band, value + band)
            held[index] = state
        passes.append(held[::direction])
    return (passes[0] + passes[1]) / 2


def _steady_scores(scores: Floats, present: NDArray[np.bool_], strength: float) -> Floats:
    from scipy.ndimage import gaussian_filter1d

    spread = _SCORE_SPREAD * strength
    there = np.repeat(present[:, None].astype(np.float64), scores.shape[1], axis=1)
    mean = gaussian_filter1d(scores * there, spread, axis=0, mode="constant")
    share = gaussian_filter1d(there, spread, axis=0, mode="constant")
    held = _hold(np.where(share > 0, mean / np.where(share > 0, share, 1.0), 0.0), _SCORE_BAND * strength)
    # What is hardly there, and for longer than a gap that is filled, is not lifted into sight by its neighbours.
    return np.minimum(held, 2 * scores + 0.1)


def _smooth_path(path: _Path, strength: float, fill_gaps: int) -> tuple[Floats, Floats]:
    """(T, K, 2) points and (T, K) scores."""
    closed = _close(path.scores, fill_gaps)
    gaps = (closed > 0) & (path.scores < _GAP_SHARE * closed)  # a heatmap's maximum may be negative
    gaps[path.places < 0] = True
    points = _interpolate(path.points, gaps)
    path.fill_people(fill_gaps)
    if not strength:
        return points, closed
    present = path.places >= 0
    # What was filled in weighs little: its neighbours know better.
    weights = np.where(gaps, 0.25, 1.0) * closed.clip(0, 1) ** 2 * present[:, None]
    usual = np.quantile(weights, 0.9, axis=0)
    weights = weights / np.where(usual > 0, usual, 1.0)
    noise = _noise(points, path.scores, path.size, strength)
    for start in range(0, points.shape[1], _KEYPOINTS_AT_ONCE):
        some = slice(start, start + _KEYPOINTS_AT_ONCE)
        points[:, some] = _steady(points[:, some], weights[:, some], noise[some], _WIDEST * strength)
    return points, _steady_scores(closed, present, strength)


def smooth(pose: Pose, strength: float = 0.5, fill_gaps: int = 5) -> Pose:
    """Takes jitter, flicker and short gaps out of a clip.

    People are followed by :func:`~sapiens2_core.tracking.track`; nothing is smoothed from one person to another or
    across a scene cut. Keypoints weigh by the square of their score. Scores are averaged over a few frames and held
    until they clearly move.

    Args:
        pose: the clip.
        strength: 0 fills gaps only; 0.5 takes away about five sixths of the jitter at rest; 1 is the most.
        fill_gaps: people and keypoints that are away for up to so many frames are put back in between; 0 fills nothing.

    Raises:
        ValueError: strength is not within 0..1, or fill_gaps is negative.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"strength is {strength:g}, but goes from 0 to 1.")
    if fill_gaps < 0:
        raise ValueError(f"fill_gaps is {fill_gaps}, but counts frames: 0 or more.")
    sightings: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for frame, identities in enumerate(track(pose)):
        for place, identity in enumerate(identities):
            sightings[identity].append((frame, place))

    people: list[list[tuple[float, PersonPose]]] = [[] for _ in pose.frames]
    for found in sightings.values():
        path = _Path.of(pose, found)
        seen = path.places >= 0
        points, scores = _smooth_path(path, strength, fill_gaps)
        for at in np.flatnonzero(path.places >= 0):
            person = PersonPose(
                torch.tensor(points[at], dtype=torch.float32),
                torch.tensor(scores[at], dtype=torch.float32),
                tuple(path.boxes[at].tolist()),
            )
            # Who was put in goes before who has that place now.
            people[path.first + at].append((path.places[at] - (0 if seen[at] else 0.5), person))
    return Pose(
        tuple(
            FramePose(tuple(person for _, person in sorted(new, key=lambda entry: entry[0])), old.height, old.width)
            for new, old in zip(people, pose.frames, strict=True)
        )
    )
