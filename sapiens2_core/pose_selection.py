"""Some of the people of a clip."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from .people import ORDERS, Box, sort_boxes
from .results import PersonPose, Pose
from .tracking import track, visible_box

#: How people can be chosen: by their numbers, the one who fills most of the clip, the one who is longest in it.
WHICH = ("by number", "largest", "longest track")


def person_box(person: PersonPose) -> Box:
    """Around the visible keypoints, in pixels."""
    points, scores = person.keypoints.double().numpy(), person.scores.double().numpy()
    x1, y1, x2, y2 = map(float, visible_box(points, scores, person.box))
    return x1, y1, x2 - x1, y2 - y1


def check_person(number: int, identities: Sequence[Sequence[int]]) -> None:
    """Raises ValueError unless somebody in the clip has this number.

    Args:
        number: of a person, as :func:`~sapiens2_core.tracking.track` counts them.
        identities: what that function returned.
    """
    count = 1 + max((identity for frame in identities for identity in frame), default=-1)
    if not count:
        raise ValueError("pose has no people in it: check the boxes or the detector that they come from.")
    if not 0 <= number < count:
        raise ValueError(f"There is no person {number} in pose: choose 0 to {count - 1}, in order of appearance.")


def read_numbers(text: str) -> list[int]:
    """ "0, 2" as a list of numbers.

    Raises:
        ValueError: something else stands there.
    """
    parts = text.replace(",", " ").split()
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f'people is "{text}"; write the numbers of the people, such as 0 or 0, 2.')
    return list(dict.fromkeys(map(int, parts)))


def select_people(pose: Pose, which: str, numbers: Sequence[int] = (0,), order: str = "as given") -> Pose:
    """A clip with some of its people.

    People are followed through the clip and numbered from 0 in order of appearance: those of the first frame in their
    order there, then who comes later. So a number means one person, wherever it stands in a frame.

    Args:
        pose: the clip.
        which: one of :data:`WHICH`. "largest" is the one with the largest sum of areas over the frames.
        numbers: of the people, for "by number".
        order: of the chosen in each frame, one of :data:`~sapiens2_core.people.ORDERS`; "as given" is that of
            ``numbers``.

    Raises:
        ValueError: a number that nobody has; another ``which`` or ``order``.
    """
    if which not in WHICH or order not in ORDERS:
        raise ValueError(f"which is {which!r} and order {order!r}; choose from {WHICH} and {ORDERS}.")
    identities = track(pose)
    if which == "by number":
        for number in numbers:
            check_person(number, identities)
        chosen = list(numbers)
    else:
        weights: Counter[int] = Counter()
        for frame, frame_identities in zip(pose.frames, identities, strict=True):
            for person, identity in zip(frame.people, frame_identities, strict=True):
                _, _, width, height = person_box(person)
                weights[identity] += width * height if which == "largest" else 1
        chosen = [max(weights, key=weights.__getitem__)] if weights else []
    frames = []
    for frame, frame_identities in zip(pose.frames, identities, strict=True):
        by_number = dict(zip(frame_identities, frame.people, strict=True))
        people = [by_number[number] for number in chosen if number in by_number]
        in_order = sort_boxes([person_box(person) for person in people], order)
        frames.append(dataclasses.replace(frame, people=tuple(people[index] for index in in_order)))
    return Pose(tuple(frames))
