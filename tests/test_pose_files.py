"""OpenPose people from whoever wrote them, and poses as files there and back."""

from __future__ import annotations

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch

from sapiens2_core.keypoints import KEYPOINT_NAMES
from sapiens2_core.openpose import BODY_18, FOOT_6, HAND_LEFT_21, HAND_RIGHT_21, to_openpose
from sapiens2_core.openpose_in import from_openpose, read_openpose, write_openpose
from sapiens2_core.pose_files import load_pose, save_coco, save_openpose, to_coco
from sapiens2_core.results import FramePose, PersonPose, Pose

PARTS = ("pose", "foot", "face", "hand_left", "hand_right")


@pytest.fixture
def pose(synthetic_person):
    """Three frames of 800 × 1000 pixels: two people, nobody, one."""
    generator = torch.Generator().manual_seed(0)

    def noisy(person):
        return dataclasses.replace(
            person,
            keypoints=person.keypoints + torch.randn((308, 2), generator=generator),
            scores=torch.rand(308, generator=generator) * 1.1,
        )

    one, other, third = (noisy(synthetic_person((x, 130.0))) for x in (250.0, 550.0, 400.0))
    return Pose(tuple(FramePose(people, 1000, 800) for people in ((one, other), (), (third,))))


@pytest.fixture
def keypoints(synthetic_person):
    """POSE_KEYPOINT of one frame with one person, 900 × 1000 pixels."""
    return to_openpose(Pose((FramePose((synthetic_person((400.0, 130.0)),), 1000, 900),)), 0.3)


def rows(person, part):
    return np.array(person[f"{part}_keypoints_2d"]).reshape(-1, 3)


def assert_same(first, second):
    assert len(first.frames) == len(second.frames)
    for one, other in zip(first.frames, second.frames, strict=True):
        assert (one.height, one.width, len(one.people)) == (other.height, other.width, len(other.people))
        for a, b in zip(one.people, other.people, strict=True):
            assert torch.equal(a.keypoints, b.keypoints)
            assert torch.equal(a.scores, b.scores)
            assert a.box == b.box


def test_openpose_people_come_back_as_they_were(keypoints):
    assert write_openpose(read_openpose(keypoints)) == keypoints


def test_openpose_points_take_their_places_among_the_308(keypoints):
    (frame,) = from_openpose(read_openpose(keypoints)).frames
    person = frame.people[0]
    for part, indices in (
        ("pose", BODY_18), ("foot", FOOT_6), ("hand_left", HAND_LEFT_21), ("hand_right", HAND_RIGHT_21),
    ):  # fmt: skip
        expected = rows(keypoints[0]["people"][0], part)
        np.testing.assert_allclose(person.keypoints[list(indices)], expected[:, :2], rtol=1e-6)
        assert (person.scores[list(indices)] == 1).all()
    unknown = [index for index, name in enumerate(KEYPOINT_NAMES) if "helix" in name or "iris" in name]
    assert (person.scores[unknown] == 0).all()
    x, y, w, h = person.box
    seen = person.keypoints[person.scores > 0]
    assert (seen >= torch.tensor([x, y]) - 1e-3).all()
    assert (seen <= torch.tensor([x + w, y + h]) + 1e-3).all()


def test_face_comes_back_from_the_308_within_half_a_percent_of_its_size(keypoints):
    again = to_openpose(from_openpose(read_openpose(keypoints)), 0.3)
    face, expected = (rows(frames[0]["people"][0], "face") for frames in (again, keypoints))
    assert np.array_equal(face[:, 2], expected[:, 2])
    distances = np.linalg.norm(face[:, :2] - expected[:, :2], axis=1)
    assert distances.max() < 0.005 * np.ptp(expected[:, 0])
    assert distances[:17].max() < 1e-3  # the fitted jaw line
    for part in ("pose", "foot", "hand_left", "hand_right"):
        np.testing.assert_allclose(rows(again[0]["people"][0], part), rows(keypoints[0]["people"][0], part), rtol=1e-6)


def test_a_jaw_that_somebody_measured_gives_the_chin(keypoints):
    person = keypoints[0]["people"][0]
    person["face_keypoints_2d"][3 * 8 : 3 * 9] = [401.0, 222.0, 0.7]
    found = from_openpose(read_openpose(keypoints)).frames[0].people[0]
    assert found.keypoints[77].tolist() == [401, 222]
    assert float(found.scores[77]) == pytest.approx(0.7)


def test_shares_of_the_frame_become_pixels(keypoints):
    shares = copy.deepcopy(keypoints)
    for part in PARTS:
        flat = shares[0]["people"][0][f"{part}_keypoints_2d"]
        flat[0::3] = [x / 900 for x in flat[0::3]]
        flat[1::3] = [y / 1000 for y in flat[1::3]]
    (found,) = read_openpose(shares)
    for part, array in zip(PARTS, found.people[0].parts, strict=True):
        np.testing.assert_allclose(array, rows(keypoints[0]["people"][0], part), atol=1e-9)


@pytest.mark.parametrize("nothing", [None, [], "missing"])
def test_hands_face_and_feet_may_be_missing(keypoints, nothing):
    person = keypoints[0]["people"][0]
    for part in PARTS[1:]:
        if nothing == "missing":
            del person[f"{part}_keypoints_2d"]
        else:
            person[f"{part}_keypoints_2d"] = nothing
    (frame,) = read_openpose(keypoints)
    assert frame.people[0].body.any()
    assert not any(part.any() for part in frame.people[0].parts[1:])
    (found,) = from_openpose([frame]).frames
    known = [index for index in range(308) if index not in BODY_18]
    assert (found.people[0].scores[known] == 0).all()


def test_frames_without_people_stay_and_animals_are_nobody():
    size = {"canvas_height": 10, "canvas_width": 20}
    frames = [{"people": [], **size}, {"animals": [[1.0, 2.0, 1.0]], **size}, {"people": None, **size}]
    assert [(len(frame.people), frame.height, frame.width) for frame in read_openpose(frames)] == [(0, 10, 20)] * 3


def test_openpose_s_own_25_point_bodies_and_files_without_a_size_are_read(keypoints):
    person = keypoints[0]["people"][0]
    body, feet = rows(person, "pose"), rows(person, "foot")
    body_25 = np.concatenate([body[:8], [[1.0, 1.0, 1.0]], body[8:], feet])
    file = {"version": 1.3, "people": [{"person_id": [-1], "pose_keypoints_2d": body_25.reshape(-1).tolist(),
            "face_keypoints_2d": [], "hand_left_keypoints_2d": [], "hand_right_keypoints_2d": []}]}  # fmt: skip
    (frame,) = read_openpose(file, height=1000, width=900)
    np.testing.assert_array_equal(frame.people[0].body, body)
    np.testing.assert_array_equal(frame.people[0].feet, feet)
    with pytest.raises(ValueError, match="Set width and height"):
        read_openpose(file)


def test_minus_one_and_nan_are_absent(keypoints):
    person = keypoints[0]["people"][0]
    person["pose_keypoints_2d"][:6] = [-1, -1, 0, float("nan"), 5, 1]
    (frame,) = read_openpose(keypoints)
    assert not frame.people[0].body[:2].any()
    assert frame.people[0].body[2].any()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("text", "can't be read from a str"),
        ([{"bodies": []}], 'Frame 0 of the poses has no "people"'),
        ([{"people": [{"pose_keypoints_2d": [1.0] * 51}], "canvas_height": 9, "canvas_width": 9}], "holds 17 points"),
        ([{"people": [{"pose_keypoints_2d": [1.0] * 50}], "canvas_height": 9, "canvas_width": 9}], "50 numbers"),
    ],
)
def test_other_forms_are_refused_in_words(data, message):
    with pytest.raises(ValueError, match=message):
        read_openpose(data)


def test_308_keypoints_come_back_exactly(pose, tmp_path):
    save_coco(pose, tmp_path / "clip.json")
    found, keypoints = load_pose(tmp_path / "clip.json")
    assert_same(found, pose)
    assert keypoints == to_openpose(pose, 0.3)
    assert [file.name for file in tmp_path.iterdir()] == ["clip.json"]


def test_308_file_is_a_coco_file(pose):
    data = to_coco(pose)
    assert [image["id"] for image in data["images"]] == [0, 1, 2]
    (category,) = data["categories"]
    assert category["keypoints"] == list(KEYPOINT_NAMES)
    assert {index for pair in category["skeleton"] for index in pair} <= set(range(1, 309))
    assert [(entry["id"], entry["image_id"]) for entry in data["annotations"]] == [(1, 0), (2, 0), (3, 2)]
    for entry, person in zip(data["annotations"], (*pose.frames[0].people, *pose.frames[2].people), strict=True):
        assert len(entry["keypoints"]) == 924
        assert entry["bbox"] == list(person.box)
        assert np.float32(entry["keypoints"][2::3]).tolist() == person.scores.tolist()
        assert entry["num_keypoints"] == int((person.scores > 0.3).sum())
    assert len(json.dumps(data)) < 3 * 40_000


def test_openpose_files_hold_all_scores_and_come_back(pose, tmp_path):
    save_openpose(pose, tmp_path / "clip")
    assert [path.name for path in tmp_path.iterdir()] == ["clip"]
    names = [f"{index:06}_keypoints.json" for index in range(3)]
    assert sorted(path.name for path in (tmp_path / "clip").iterdir()) == names
    found, keypoints = load_pose(tmp_path / "clip")
    assert [len(frame.people) for frame in found.frames] == [2, 0, 1]
    assert keypoints == write_openpose(read_openpose(keypoints))
    direct = [*BODY_18, *FOOT_6, *HAND_LEFT_21, *HAND_RIGHT_21]
    for frame, original in zip(found.frames, pose.frames, strict=True):
        for person, wanted in zip(frame.people, original.people, strict=True):
            np.testing.assert_allclose(person.keypoints[direct], wanted.keypoints[direct], atol=1e-3)
            np.testing.assert_allclose(person.scores[direct], wanted.scores[direct].clamp(max=1), atol=1e-6)


def test_openpose_file_s_jaw_fits_the_visible_face(synthetic_person, tmp_path):
    person = synthetic_person((400.0, 130.0))
    scores = person.scores.clone()
    scores[[77, *range(220, 272)]] = 0.1  # chin and ears hidden, and found in a corner
    points = person.keypoints.clone()
    points[[77, *range(220, 272)]] = torch.tensor([3.0, 5.0])
    hidden = PersonPose(points, scores, person.box)
    save_openpose(Pose((FramePose((hidden,), 1000, 800),)), tmp_path / "clip")
    _, keypoints = load_pose(tmp_path / "clip")
    jaw = rows(keypoints[0]["people"][0], "face")[:17, :2]
    assert (np.abs(jaw - [400, 160]) < 60).all()


def test_frames_of_a_folder_are_in_order_of_their_numbers(keypoints, tmp_path):
    for index in (10, 9, 100):
        frame = copy.deepcopy(keypoints[0])
        frame["people"][0]["pose_keypoints_2d"][0] = float(index)
        (tmp_path / f"frame_{index}.json").write_text(json.dumps(frame))
    _, found = load_pose(tmp_path)
    assert [frame["people"][0]["pose_keypoints_2d"][0] for frame in found] == [9, 10, 100]


def test_list_of_frames_as_packs_save_it_is_read(keypoints, tmp_path):
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(keypoints * 2))
    pose, found = load_pose(file)
    assert found == keypoints * 2
    assert len(pose.frames) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "clip.json isn't a JSON file"),
        ("[1]", "clip.json: Frame 0"),
        ('{"annotations": [], "images": [], "categories": [{"keypoints": ["nose"]}]}', "other keypoints"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, text, message):
    (tmp_path / "clip.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_pose(tmp_path / "clip.json")


def test_folder_without_files_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no .json file"):
        load_pose(tmp_path)


def test_nothing_is_left_of_a_folder_that_could_not_be_written(pose, tmp_path):
    pose.frames[2].people[0].keypoints[0] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        save_openpose(pose, tmp_path / "clip")
    assert list(tmp_path.iterdir()) == []
