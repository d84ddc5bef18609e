"""Parts of a person that can be switched off, and poses in a frame of another size."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch

from .openpose import BODY_18
from .openpose_in import OpenPoseFrame, OpenPosePerson
from .results import FramePose

_WRISTS = (41, 62)
_NECK = 69

#: Indices of the 308 keypoints in each part. The neck belongs to body and head, the wrists to body and hands.
KEYPOINTS_OF = {
    "body": (*range(5, 15), *_WRISTS, *range(63, 69), _NECK),
    "head": (*range(5), _NECK),
    "hands": tuple(range(21, 63)),
    "feet": tuple(range(15, 21)),
    "face": tuple(range(70, 308)),
}


@dataclass(frozen=True)
class Parts:
    """What of a person is drawn.

    Attributes:
        body: trunk, arms and legs.
        head: nose, eyes and ears, with the sticks between them.
        hands: fingers.
        feet: toes and heels.
        face: the fine points of the face.
    """

    body: bool = True
    head: bool = True
    hands: bool = True
    feet: bool = True
    face: bool = True


ALL_PARTS = Parts()


def keep_parts(frame: FramePose, parts: Parts) -> FramePose:
    """The same people with the keypoints of other parts absent (score 0)."""
    kept = [index for part, indices in KEYPOINTS_OF.items() if getattr(parts, part) for index in indices]
    mask = torch.zeros(308)
    mask[kept] = 1
    people = (dataclasses.replace(person, scores=person.scores * mask) for person in frame.people)
    return dataclasses.replace(frame, people=tuple(people))


def keep_openpose_parts(frame: OpenPoseFrame, parts: Parts) -> OpenPoseFrame:
    """The same people with the points of other parts absent (0, 0, 0).

    As OpenPose has wrists twice, those of its body go with the body and those of its hands with the hands.
    """
    body = {index for part in ("body", "head") if getattr(parts, part) for index in KEYPOINTS_OF[part]}
    of_body = np.array([[index in body] for index in BODY_18])
    return dataclasses.replace(
        frame,
        people=tuple(
            OpenPosePerson(
                person.body * of_body,
                person.feet * parts.feet,
                person.face * parts.face,
                person.hand_left * parts.hands,
                person.hand_right * parts.hands,
            )
            for person in frame.people
        ),
    )


def resize_frame(frame: FramePose, height: int, width: int) -> FramePose:
    """The same people in a frame of another size: their points are moved, so that one can draw them anew.

    Edges go to edges: with (0, 0) the centre of the top left pixel, x becomes (x + 0.5) · factor - 0.5.
    """
    if (frame.height, frame.width) == (height, width):
        return frame
    factors = torch.tensor([width / frame.width, height / frame.height])
    people = []
    for person in frame.people:
        x, y, w, h = person.box
        fx, fy = factors.tolist()
        box = ((x + 0.5) * fx - 0.5, (y + 0.5) * fy - 0.5, w * fx, h * fy)
        people.append(dataclasses.replace(person, keypoints=(person.keypoints + 0.5) * factors - 0.5, box=box))
    return FramePose(tuple(people), height, width)
