"""The face's 70 points as four readers of POSE_KEYPOINT take them, none of which looks at confidence.

ComfyUI's SDPoseFaceBBoxes takes the box of all points; the face mask of ComfyUI-WanVideoWrapper fills the jaw line;
scale_faces of ComfyUI-SCAIL-Pose compares mean distances from the tip of the nose; the facial part colouring of
comfyui_controlnet_aux fills the outline of each part. The first is run as it is, the others' rules stand here anew.
"""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np
import pytest
import torch

from sapiens2_core.openpose import to_openpose
from sapiens2_core.results import FramePose, Pose

HEIGHT, WIDTH = 1000, 800
ROOT = (420.0, 330.0)  # of the nose
MILLIMETRE = 1.2  # pixels

RIGHT_EAR, LEFT_EAR = (*range(246, 272), 4), (*range(220, 246), 3)
CHIN = (76, 77)
FACE = (*range(78, 220), *range(272, 308), 70, 71, 72, 73, 74, 75, 77, 178)
TRAGI = (262, 263, 264, 236, 237, 238)


def depth(index: int, x: float) -> float:
    """Millimetres of a point of the head in front of the ears: an ellipse, with the nose before it."""
    if index in RIGHT_EAR or index in LEFT_EAR:
        return 0.0
    nose = {0: 30, 178: 30, 72: 28, 75: 22, 73: 14, 74: 7, 179: 18, 180: 8, 187: 8, 184: 14, 181: 14}
    return 92 * np.sqrt(max(0.0, 1 - (x / 82) ** 2)) + nose.get(index, 0)


def turned(person, degrees):
    """The same person with the head turned to its right side (the image's left) about the axis through the ears."""
    points = person.keypoints.clone()
    angle = np.radians(degrees)
    for index in (*range(5), *range(70, 308)):
        x = (float(points[index, 0]) - ROOT[0]) / MILLIMETRE
        points[index, 0] = ROOT[0] + MILLIMETRE * (x * np.cos(angle) - depth(index, x) * np.sin(angle))
    return dataclasses.replace(person, keypoints=points)


def hidden(person, indices):
    """These keypoints without a peak in their heatmaps: the maximum is anywhere, here near the frame's corner."""
    points, scores = person.keypoints.clone(), person.scores.clone()
    points[list(indices)], scores[list(indices)] = torch.tensor([3.0, 5.0]), 0.05
    return dataclasses.replace(person, keypoints=points, scores=scores)


@dataclasses.dataclass(frozen=True)
class Case:
    """A person as POSE_KEYPOINT has it, and where its face truly is."""

    person: dict
    whole: dict  # the same with nothing hidden
    box: np.ndarray  # x1, y1, x2, y2
    truth: torch.Tensor  # (308, 2)


PROFILE = 80
#: Degrees of turn, and what is hidden. In a profile the far half is too; without ears and chin the jaw is all fitted.
KINDS = {
    "full face": (0, ()),
    "half turned, ear hidden": (40, RIGHT_EAR),
    "profile with weak points": (PROFILE, ()),
    "profile whose ear and chin are hidden too": (PROFILE, (*LEFT_EAR, *CHIN)),
    "jaw fitted without ears and chin": (0, (*RIGHT_EAR, *LEFT_EAR, *CHIN)),
}


@pytest.fixture(params=[(kind, real) for kind in KINDS for real in (False, True)],
                ids=lambda param: f"{param[0]}, {'real' if param[1] else '0 or 1'}")  # fmt: skip
def case(request, synthetic_person):
    kind, real = request.param
    degrees, lost = KINDS[kind]
    person = synthetic_person(ROOT, MILLIMETRE)
    if degrees == PROFILE:
        lost = (*lost, *(index for index in (2, *range(70, 308)) if person.keypoints[index, 0] < ROOT[0] - 1))
    person = turned(person, degrees)
    people = hidden(person, lost), person
    (frame,) = to_openpose(Pose((FramePose(people, HEIGHT, WIDTH),)), 0.3, real)
    points = person.keypoints[[*FACE, *TRAGI]].numpy()
    box = np.concatenate([points.min(axis=0), points.max(axis=0)])
    return Case(*frame["people"], box, person.keypoints)


def xy(person):
    return np.array(person["face_keypoints_2d"]).reshape(-1, 3)[:, :2]


def assert_tight(found, case, sides=slice(4)):
    """A box x1, y1, x2, y2, or some of its sides, is the face's to a tenth of its height: jaws and ears are guesses."""
    slack = (case.box[3] - case.box[1]) / 10
    assert np.abs(np.array(found) - case.box)[sides].max() < slack, (found, case.box)


def box_of(mask):
    y, x = np.nonzero(mask)
    return x.min(), y.min(), x.max(), y.max()


def at(case, *indices):
    """Whole pixel x, y in the middle of some of the true keypoints."""
    return tuple(int(value) for value in case.truth[list(indices)].mean(dim=0))


def test_comfyui_s_face_box_is_tight(sdpose_source, case):
    start, end = map(sdpose_source.index, ("def get_face_bboxes", "class SDPoseFaceBBoxes"))
    space = {"np": np}
    exec(sdpose_source[start:end], space)
    shares = np.vstack([np.zeros((1, 2)), xy(case.person) / (WIDTH, HEIGHT)])  # its first row is skipped
    x1, x2, y1, y2 = space["get_face_bboxes"](shares, 1.0, (HEIGHT, WIDTH))
    assert_tight((x1, y1, x2, y2), case)


def wan_face_mask(person):
    """The jaw line, filled; nothing where it looks like a wrong find: see the conditions."""
    points, mask = xy(person), np.zeros((HEIGHT, WIDTH), np.uint8)
    jaw = points[:17].astype(np.int32)
    sides, area = np.ptp(jaw, axis=0), cv2.contourArea(jaw) / mask.size
    in_corner = (points < 5).all(axis=1).sum()
    if (points < 0).any() or in_corner > 3 or (sides > (0.8 * WIDTH, 0.8 * HEIGHT)).any() or not 0.001 <= area <= 0.5:
        return mask
    return cv2.fillPoly(mask, [jaw], 1)


def test_wan_s_face_mask_covers_the_face_below_the_eyes_and_nothing_else(case):
    mask = wan_face_mask(case.person)
    x1, y1, x2, y2 = case.box
    assert_tight(box_of(mask), case, slice(2, 4))
    left, top = box_of(mask)[:2]
    assert left > x1 - (y2 - y1) / 10  # a nose in profile sticks out of the jaw
    assert y1 < top < case.truth[178, 1]
    for x, y in (at(case, 189), at(case, 189, 97), at(case, 189, 77)):  # corner of the mouth, cheek, chin
        assert mask[y, x]
    assert 0.45 < mask.sum() / ((x2 - x1) * (y2 - y1)) < 0.8


def mean_distance(person):
    """From the tip of the nose to the other points, in shares of the frame, as SCAIL has them."""
    shares = xy(person) / (WIDTH, HEIGHT)
    return np.delete(np.linalg.norm(shares - shares[30], axis=1), 30).mean()


def test_scail_scales_the_face_as_if_all_of_it_were_visible(case):
    """It multiplies by the reference's mean distance over the driving person's, within 0.8 to 1.5."""
    assert mean_distance(case.whole) / mean_distance(case.person) == pytest.approx(1, abs=0.08)


def test_scail_sees_that_one_face_is_larger_than_another(synthetic_person):
    people = tuple(synthetic_person(ROOT, millimetre) for millimetre in (1.0, 1.3))
    (frame,) = to_openpose(Pose((FramePose(people, HEIGHT, WIDTH),)), 0.3)
    small, large = map(mean_distance, frame["people"])
    assert large / small == pytest.approx(1.3, rel=1e-3)


#: dlib's points around each part, in the order in which they are painted.
PARTS = {
    "skin": (*range(17), *range(26, 16, -1)),
    "right eye": tuple(range(36, 42)),
    "left eye": tuple(range(42, 48)),
    "nose": tuple(range(27, 36)),
    "upper lip": (*range(48, 55), *range(64, 59, -1)),
    "inner mouth": (*range(60, 65), *range(54, 47, -1)),
    "lower lip": tuple(range(60, 68)),
}


def coloured_parts(person):
    """(H, W) number of the part painted last, 0 for none; all points in 0..1 are taken for shares of the frame."""
    points = xy(person)
    if (np.abs(points) <= 1).all():
        points = points * (WIDTH, HEIGHT)
    picture = np.zeros((HEIGHT, WIDTH), np.uint8)
    for number, outline in enumerate(PARTS.values(), start=1):
        cv2.fillPoly(picture, [points[list(outline)].astype(np.int32)], number)
    return picture


def test_controlnet_aux_colours_the_parts_where_they_are_and_nothing_else(case):
    picture = coloured_parts(case.person)
    names = ["none", *PARTS]
    assert_tight(box_of(picture), case)
    for name, middle in (("left eye", at(case, 96, 97, 101, 149)), ("skin", at(case, 189, 97))):
        assert names[picture[middle[::-1]]] == name
    x1, y1, x2, y2 = case.box
    area = {name: (picture == number).sum() / ((x2 - x1) * (y2 - y1)) for number, name in enumerate(names)}
    assert 0.6 < area["skin"] < 0.85
    assert 0.02 < area["nose"] < 0.06
    assert 0 < area["inner mouth"] + area["lower lip"] < 0.05


def test_controlnet_aux_colours_both_eyes_of_a_full_face(synthetic_person):
    person = synthetic_person(ROOT, MILLIMETRE)
    (frame,) = to_openpose(Pose((FramePose((person,), HEIGHT, WIDTH),)), 0.3)
    picture = coloured_parts(frame["people"][0])
    right, left = (np.argwhere(picture == number).mean(axis=0)[::-1] for number in (2, 3))
    np.testing.assert_allclose(right, person.keypoints[299], atol=3)  # the pupils
    np.testing.assert_allclose(left, person.keypoints[290], atol=3)


def test_an_absent_face_is_a_face_to_nobody(synthetic_person):
    person = hidden(synthetic_person(ROOT, MILLIMETRE), (1, 2, *range(70, 308)))
    (frame,) = to_openpose(Pose((FramePose((person,), HEIGHT, WIDTH),)), 0.3)
    assert not xy(frame["people"][0]).any()
    assert not wan_face_mask(frame["people"][0]).any()
    assert coloured_parts(frame["people"][0]).sum() <= 4 * len(PARTS)  # that pack paints the corner's one pixel
