import dataclasses

import numpy as np
import pytest
import torch

from sapiens2_core.keypoints import KEYPOINT_NAMES
from sapiens2_core.openpose import to_openpose
from sapiens2_core.results import FramePose, Pose

INDEX = {name: index for index, name in enumerate(KEYPOINT_NAMES)}


def frame_of(*people, width=800, height=1000):
    return FramePose(tuple(people), height, width)


def convert(*people, threshold=0.3, **more):
    return to_openpose(Pose((frame_of(*people),)), threshold, **more)[0]["people"]


def rows(person, part):
    return np.array(person[f"{part}_2d"]).reshape(-1, 3)


def weaken(person, *indices, score=0.1):
    scores = person.scores.clone()
    scores[list(indices)] = score
    return dataclasses.replace(person, scores=scores)


def test_frame_has_the_form_of_pose_keypoint(synthetic_person):
    frames = to_openpose(Pose((frame_of(synthetic_person()), frame_of(width=64, height=32))), 0.3)
    assert [len(frame["people"]) for frame in frames] == [1, 0]
    assert (frames[1]["canvas_width"], frames[1]["canvas_height"]) == (64, 32)
    person = frames[0]["people"][0]
    lengths = {
        "pose_keypoints_2d": 54,
        "foot_keypoints_2d": 18,
        "face_keypoints_2d": 210,
        "hand_left_keypoints_2d": 63,
        "hand_right_keypoints_2d": 63,
    }
    assert {key: len(value) for key, value in person.items()} == lengths
    assert {type(number) for values in person.values() for number in values} == {float}


def test_body_is_in_openpose_order(synthetic_person):
    person = synthetic_person()
    names = [
        "nose",
        "neck",
        "right_shoulder",
        "right_elbow",
        "right_wrist",
        "left_shoulder",
        "left_elbow",
        "left_wrist",
        "right_hip",
        "right_knee",
        "right_ankle",
        "left_hip",
        "left_knee",
        "left_ankle",
        "right_eye",
        "left_eye",
        "right_ear",
        "left_ear",
    ]
    expected = person.keypoints[[INDEX[name] for name in names]].numpy()
    np.testing.assert_allclose(rows(convert(person)[0], "pose_keypoints")[:, :2], expected, rtol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_hand_goes_from_the_wrist_along_each_finger_to_its_tip(synthetic_person, side):
    person = synthetic_person()
    fingers = ("thumb", "forefinger", "middle_finger", "ring_finger", "pinky_finger")
    joints = ("_third_joint", "2", "3", "4")
    names = [f"{side}_wrist", *(f"{side}_{finger}{joint}" for finger in fingers for joint in joints)]
    expected = person.keypoints[[INDEX[name] for name in names]].numpy()
    hand = rows(convert(person)[0], f"hand_{side}_keypoints")
    np.testing.assert_allclose(hand[:, :2], expected, rtol=1e-6)
    reach = np.linalg.norm(hand[1:, :2] - hand[0, :2], axis=1).reshape(5, 4)
    assert (np.diff(reach, axis=1) > 0).all()


def test_confidence_is_one_above_the_threshold_and_absent_points_are_zeros(synthetic_person):
    elbow = INDEX["right_elbow"]
    thumb = INDEX["left_thumb4"]
    person = weaken(synthetic_person(score=0.6), elbow, thumb)
    body, hand = (rows(convert(person)[0], part) for part in ("pose_keypoints", "hand_left_keypoints"))
    assert body[3].tolist() == [0, 0, 0]
    assert hand[4].tolist() == [0, 0, 0]
    assert set(np.delete(body[:, 2], 3)) == {1.0}


def test_real_confidence_is_the_score_clamped_to_one(synthetic_person):
    person = weaken(synthetic_person(score=0.625), INDEX["nose"], score=1.2)
    body = rows(convert(person, real_confidence=True)[0], "pose_keypoints")
    assert body[0, 2] == 1.0
    assert body[1, 2] == 0.625


@pytest.mark.parametrize("roll", [0, 25, -90, 180])
def test_face_has_dlib_order_whatever_the_roll_of_the_head(synthetic_person, roll):
    person = synthetic_person((400, 400), 2.0, roll)
    face = rows(convert(person)[0], "face_keypoints")[:, :2]
    angle = np.radians(roll)  # turn the face upright about the nose root
    x, y = ((face - [400, 400]) @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])).T / 2
    assert (np.diff(x[0:17]) > 0).sum() >= 12  # jaw, from the person's right to the left
    assert (np.diff(y[2:9]) > 0).all()
    assert (np.diff(y[8:15]) < 0).all()
    assert (np.diff(x[17:27]) > 0).all()  # brows
    assert (np.diff(y[27:31]) > 0).all()  # bridge of the nose
    assert (np.diff(x[31:36]) > 0).all()
    for first in (36, 42):  # eyes: outer, over the top, inner, under
        assert (np.diff(x[first : first + 4]) > 0).all()
        assert x[first + 4] > x[first + 5]
        assert (y[[first + 1, first + 2]] < y[[first + 5, first + 4]]).all()
    assert (np.diff(x[48:55]) > 0).all()  # outer lips, over the top and back
    assert (np.diff(x[[54, 55, 56, 57, 58, 59, 48]]) < 0).all()
    assert (np.diff(x[60:65]) > 0).all()
    assert (np.diff(x[[64, 65, 66, 67, 60]]) < 0).all()
    assert x[68] < 0 < x[69]  # right pupil, left pupil
    # Halves are mirror images.
    mirrored = [*range(16, -1, -1), *range(26, 16, -1), 27, 28, 29, 30, *range(35, 30, -1)]
    np.testing.assert_allclose(x[mirrored], -x[:36], atol=1e-3)
    np.testing.assert_allclose(y[mirrored], y[:36], atol=1e-3)


def test_jaw_is_fitted_from_ear_over_chin_to_ear_and_has_no_confidence(synthetic_person):
    person = synthetic_person((400, 400), 2.0)
    face = rows(convert(person)[0], "face_keypoints")
    assert (face[:17, 2] == 0).all()
    assert (face[17:, 2] == 1).all()
    points = person.keypoints.numpy()
    np.testing.assert_allclose(face[8, :2], points[INDEX["tip_of_chin"]], atol=1e-3)
    for end, name in ((0, "r_top_point_of_tragus"), (16, "l_top_point_of_tragus")):
        assert np.linalg.norm(face[end, :2] - points[INDEX[name]]) < 5 * 2.0  # millimetres
    # The line clears the mouth and stays inside the ear lobes' width.
    at_mouth = np.abs(face[:17, 1] - points[INDEX["r_outer_corner_of_mouth"], 1]).argsort()[:2]
    half_width = np.abs(face[at_mouth, 0] - 400).min()
    assert 1.5 * 26 * 2 < half_width < 74 * 2
    steps = np.linalg.norm(np.diff(face[:17, :2], axis=0), axis=1)
    assert steps.max() < 1.05 * steps.min()


def face_box(person):
    face = rows(person, "face_keypoints")[:, :2]
    return np.concatenate([face.min(axis=0), face.max(axis=0)])


@pytest.mark.parametrize("hidden", ["nothing", "one eye", "both ears", "mouth and chin", "one half"])
def test_box_over_all_70_face_points_is_tight_even_where_points_are_weak_and_far_off(synthetic_person, hidden):
    """Readers take the box of all 70 points whatever their confidence."""
    person = synthetic_person((500, 300), 1.0)
    right = [i for i in range(70, 308) if person.keypoints[i, 0] < 499]
    indices = {
        "nothing": [],
        "one eye": [*range(120, 144), *range(161, 178), *range(281, 290), *range(299, 308), 2],
        "both ears": [*range(220, 272), 3, 4],
        "mouth and chin": [*range(188, 220), 76, 77],
        "one half": right,
    }[hidden]
    weak = weaken(person, *indices)
    weak.keypoints[indices] = torch.tensor([3.0, 5.0])  # an empty heatmap's maximum is anywhere
    x1, y1, x2, y2 = face_box(convert(weak)[0])
    # Face of 145 × 145 mm: brows 23 mm above the nose root, chin 118 below, tragus 70 at either side.
    assert x1 > 500 - 90
    assert x2 < 500 + 90
    assert y1 > 300 - 40
    assert y2 < 300 + 140
    assert x2 - x1 > 70
    assert y2 - y1 > 120


def test_weak_face_point_keeps_its_place_with_confidence_zero(synthetic_person):
    wing = INDEX["r_outer_corner_of_nose"]
    person = weaken(synthetic_person((400, 400), 2.0), wing)
    face = rows(convert(person)[0], "face_keypoints")
    np.testing.assert_allclose(face[31], [*person.keypoints[wing].tolist(), 0], rtol=1e-6)
    assert (face[32:, 2] == 1).all()


def test_face_that_is_absent_as_a_whole_is_zeros(synthetic_person):
    person = weaken(synthetic_person(), 1, 2, *range(70, 308))
    assert not rows(convert(person)[0], "face_keypoints").any()
    assert rows(convert(person)[0], "pose_keypoints")[0, 2] == 1


def test_degenerate_person_gives_finite_numbers(synthetic_person):
    person = synthetic_person()
    person.keypoints[:] = 7.0
    assert np.isfinite(rows(convert(person)[0], "face_keypoints")).all()
