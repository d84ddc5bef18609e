"""Who is who from frame to frame of a clip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .keypoints import VISIBLE_SCORE
from .results import PersonPose, Pose

Floats = NDArray[np.float64]

#: Body, feet, wrists and neck: what tells people apart. The 238 points of a face would outvote them.
_BODY = [*range(21), 41, 62, 69]

#: Standard deviation, as a share of the person's longer side, of how far a keypoint gets from where it was expected.
#: Wide: within a 24th of a second a runner covers a sixth of his height, an arm swings farther.
_SPREAD = 0.2

#: Two sightings less alike than this are of two people.
_LEAST_AFFINITY = 0.1

#: Frames without a sighting after which a person is somebody new.
MAX_LOST_FRAMES = 30


def visible_box(points: Floats, scores: Floats, box: tuple[float, float, float, float]) -> Floats:
    """x1, y1, x2, y2 around the visible keypoints; where there are hardly any, of the box that the person came from.

    Args:
        points: (308, 2) pixels.
        scores: (308,).
        box: x, y, width, height.
    """
    seen = points[scores > VISIBLE_SCORE]
    if len(seen) >= 4:
        return np.concatenate([seen.min(axis=0), seen.max(axis=0)])
    x, y, width, height = box
    return np.array([x, y, x + width, y + height])


@dataclass
class _Sighting:
    """One person in one frame.

    Attributes:
        points: (24, 2) pixels.
        visible: (24,).
        box: x1, y1, x2, y2 around all visible keypoints, or where the person was looked for when there are hardly any.
    """

    points: Floats
    visible: NDArray[np.bool_]
    box: Floats

    @classmethod
    def of(cls, person: PersonPose) -> _Sighting:
        points, scores = person.keypoints.double().numpy(), person.scores.double().numpy()
        return cls(points[_BODY], scores[_BODY] > VISIBLE_SCORE, visible_box(points, scores, person.box))

    @property
    def side(self) -> float:
        return max(float((self.box[2:] - self.box[:2]).max()), 1.0)

    def moved(self, shift: Floats) -> _Sighting:
        return _Sighting(self.points + shift, self.visible, self.box + np.tile(shift, 2))


@dataclass
class _Track:
    """One person over time: the last sighting, its frame, and pixels moved per frame."""

    identity: int
    sighting: _Sighting
    frame: int
    velocity: Floats

    def expected(self, frame: int) -> _Sighting:
        """Where the person is if it went on as before."""
        return self.sighting.moved(self.velocity * (frame - self.frame))

    def see(self, sighting: _Sighting, frame: int) -> None:
        shared = self.sighting.visible & sighting.visible
        if shared.any():
            moved = np.median(sighting.points[shared] - self.sighting.points[shared], axis=0)
        else:
            moved = (sighting.box - self.sighting.box).reshape(2, 2).mean(axis=0)
        self.velocity = (self.velocity + moved / (frame - self.frame)) / 2
        self.sighting, self.frame = sighting, frame


def _iou(first: Floats, second: Floats) -> float:
    """Intersection over union of two boxes x1, y1, x2, y2."""
    sides = (np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2])).clip(0)
    intersection = float(sides.prod())
    union = float((first[2:] - first[:2]).prod() + (second[2:] - second[:2]).prod()) - intersection
    return intersection / union if union > 0 else 0.0


def _affinity(expected: _Sighting, found: _Sighting) -> float:
    """How alike two sightings are, 0..1.

    Mean over the keypoints that both have of a Gaussian of their distance (COCO's object keypoint similarity with one
    width for all), halved where the boxes have nothing in common. Without such keypoints the boxes alone decide.
    """
    overlap = (1 + _iou(expected.box, found.box)) / 2
    shared = expected.visible & found.visible
    if not shared.any():
        return overlap - 0.5
    distances = np.linalg.norm(expected.points[shared] - found.points[shared], axis=1)
    deviations = distances / (_SPREAD * max(expected.side, found.side))
    return overlap * float(np.exp(-0.5 * deviations**2).mean())


def _match(tracks: list[_Track], sightings: list[_Sighting], frame: int) -> dict[int, _Track]:
    """Index of a sighting → its track: the assignment whose affinities have the largest sum."""
    from scipy.optimize import linear_sum_assignment  # a third of a second at import

    if not tracks or not sightings:
        return {}
    expected = [track.expected(frame) for track in tracks]
    affinities = np.array([[_affinity(one, other) for other in sightings] for one in expected])
    affinities[affinities < _LEAST_AFFINITY] = 0
    rows, columns = linear_sum_assignment(affinities, maximize=True)
    return {int(j): tracks[i] for i, j in zip(rows, columns, strict=True) if affinities[i, j] > 0}


def _is_cut(tracks: list[_Track], sightings: list[_Sighting], matched: dict[int, _Track], frame: int) -> bool:
    """Whether a scene begins: there were people one frame ago and are now, and fewer than half can be the same."""
    before = {track.identity for track in tracks if track.frame == frame - 1}
    again = sum(track.identity in before for track in matched.values())
    return 2 * again < min(len(before), len(sightings))


def track(pose: Pose) -> list[list[int]]:
    """Finds out who is who from frame to frame.

    A person is expected to move on as it moved before; expected and found people are matched by the distance of
    their keypoints and the overlap of their boxes, all of a frame at once. Who is lost for more than
    :data:`MAX_LOST_FRAMES` frames comes back as somebody new, and so does everybody at a scene cut: a frame in which
    fewer than half of the people can be those of the frame before.

    Returns:
        Per frame, the identity of each of its people, in their order. Identities count from 0 in order of appearance
        and are never used twice.
    """
    tracks: list[_Track] = []
    identities: list[list[int]] = []
    born = 0
    for frame, people in enumerate(pose.frames):
        sightings = [_Sighting.of(person) for person in people.people]
        tracks = [track for track in tracks if frame - track.frame <= MAX_LOST_FRAMES + 1]
        matched = _match(tracks, sightings, frame)
        if _is_cut(tracks, sightings, matched, frame):
            tracks, matched = [], {}
        for index, sighting in enumerate(sightings):
            if index in matched:
                matched[index].see(sighting, frame)
            else:
                matched[index] = _Track(born, sighting, frame, np.zeros(2))
                tracks.append(matched[index])
                born += 1
        identities.append([matched[index].identity for index in range(len(sightings))])
    return identities
