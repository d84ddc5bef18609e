"""People chosen from a clip, and steady boxes around their parts, on generated walks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from sapiens2_core.openpose import HAND_LEFT_21
from sapiens2_core.pose_boxes import PARTS, STEADY, boxes_from_pose, prompt_points
from sapiens2_core.pose_selection import read_numbers, select_people
from sapiens2_core.results import FramePose, Pose

HEIGHT, WIDTH = 540, 960


@pytest.fixture
def person_at(synthetic_person):
    def make(x, y=100.0, millimetre=0.2, roll=0.0, score=0.9):
        return synthetic_person((x, y), millimetre, roll, score)

    return make


def clip(*frames):
    return Pose(tuple(FramePose(tuple(people), HEIGHT, WIDTH) for people in frames))


def hide(person, *indices):
    scores = person.scores.clone()
    scores[list(indices)] = 0.1
    return dataclasses.replace(person, scores=scores)


def noses(pose):
    return [[round(float(person.keypoints[71, 0])) for person in frame.people] for frame in pose.frames]


@pytest.fixture
def crossing(person_at):
    """Person 0 walks right, person 1, larger, walks left; person 2, largest, joins for six frames."""
    frames = []
    for t in range(40):
        people = [person_at(200 + 10 * t), person_at(700 - 10 * t, 110.0, 0.22)]
        people += [person_at(880, 80.0, 0.27)] if t >= 34 else []
        frames.append(people if t % 2 else people[::-1])
    frames[0].reverse()
    return clip(*frames)


def test_a_number_means_one_person_wherever_it_stands(crossing):
    assert noses(select_people(crossing, "by number", [0])) == [[200 + 10 * t] for t in range(40)]
    both = noses(select_people(crossing, "by number", [1, 0]))
    assert both == [[700 - 10 * t, 200 + 10 * t] for t in range(40)]
    assert noses(select_people(crossing, "by number", [2]))[33:35] == [[], [880]]


def test_largest_and_longest_are_told_over_the_clip(crossing, person_at):
    assert noses(select_people(crossing, "largest")) == [[700 - 10 * t] for t in range(40)]
    late = clip(*([person_at(700, 110.0, 0.25)] if t < 3 else [person_at(200), person_at(700, 110.0, 0.25)]
                  for t in range(20)))  # fmt: skip
    assert noses(select_people(late, "longest track")) == [[700]] * 20


def test_the_chosen_stand_in_the_order_asked_for(crossing):
    ordered = noses(select_people(crossing, "by number", [1, 0], "left to right"))
    assert ordered == [sorted(frame) for frame in ordered]
    by_size = noses(select_people(crossing, "by number", [0, 1], "area"))
    assert by_size == [[700 - 10 * t, 200 + 10 * t] for t in range(40)]


def test_selection_keeps_frames_and_people_as_they_are(crossing):
    chosen = select_people(crossing, "by number", [1])
    assert [(frame.height, frame.width) for frame in chosen.frames] == [(HEIGHT, WIDTH)] * 40
    assert chosen.frames[0].people[0] is crossing.frames[0].people[1]


def test_nobody_in_the_clip_is_nobody_chosen_but_a_number_is_an_error():
    empty = clip([], [])
    assert select_people(empty, "largest") == empty
    assert select_people(empty, "longest track") == empty
    with pytest.raises(ValueError, match="no people"):
        select_people(empty, "by number", [0])


def test_a_number_that_nobody_has_is_an_error(crossing):
    with pytest.raises(ValueError, match="no person 3 in pose: choose 0 to 2"):
        select_people(crossing, "by number", [0, 3])


@pytest.mark.parametrize(("text", "numbers"), [("0", [0]), (" 2, 0 ", [2, 0]), ("1 3 1", [1, 3])])
def test_numbers_are_read_from_a_list(text, numbers):
    assert read_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "first", "-1", "1.5", "0-2", "²"])
def test_what_is_no_list_of_numbers_is_refused(text):
    with pytest.raises(ValueError, match=r"0 or 0, 2"):
        read_numbers(text)


def holds(box, points):
    """Whether the points lie in the box, to a pixel: boxes are rounded."""
    x, y, width, height = box
    low, high = points.min(dim=0).values, points.max(dim=0).values
    return bool(low[0] >= x - 1 and low[1] >= y - 1 and high[0] <= x + width and high[1] <= y + height)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("square", [False, True])
def test_a_box_holds_its_part_and_little_else(person_at, part, square):
    person = person_at(480, 150, 0.2)
    (box,) = boxes_from_pose(clip([person]), part, square=square, padding=0, steady="off")
    assert holds(box, person.keypoints[list(PARTS[part].points)])
    heights = {"person": 370, "face": 30, "head": 60, "upper body": 240, "left hand": 50, "right hand": 50}
    assert max(box[2:]) < heights[part]
    assert not square or box[2] == box[3]


def test_left_and_right_are_the_persons_own(person_at):
    pose = clip([person_at(480)])
    left, right = (boxes_from_pose(pose, part, steady="off")[0] for part in ("left hand", "right hand"))
    assert left[0] > 480 > right[0]


def test_a_head_reaches_as_far_above_the_eyes_as_the_chin_lies_below(person_at):
    person = person_at(480, 150, 0.5)
    (box,) = boxes_from_pose(clip([person]), "head", padding=0, square=False, steady="off")
    eyes, chin = person.keypoints[[299, 290], 1].mean(), person.keypoints[77, 1]
    assert box[1] == pytest.approx(float(2 * eyes - chin), abs=1)
    assert box[1] + box[3] - 1 == pytest.approx(float(chin), abs=1)


def test_a_head_seen_from_its_right_side_has_room_behind_the_ear(person_at):
    person = person_at(480, 150, 0.5)
    points = person.keypoints.clone()
    # Everything squeezed in front of the right ear, which now is the rightmost point.
    points[:, 0] = 480 - (points[:, 0] - 480).abs() * 0.6
    ear = list(range(246, 272))
    points[ear, 0] = 490.0
    turned = hide(dataclasses.replace(person, keypoints=points), *range(220, 246), 3)
    (box,) = boxes_from_pose(clip([turned]), "head", padding=0, square=False, steady="off")
    assert box[2] == pytest.approx(0.8 * box[3], abs=2)
    behind, before = box[0] + box[2] - 490, points[list(PARTS["head"].points), 0].min() - box[0]
    assert behind > 10 * max(before, 1)


@pytest.mark.parametrize("steady", STEADY)
def test_there_is_exactly_one_box_a_frame_and_gaps_lie_between_their_neighbours(person_at, steady):
    frames = [[person_at(200 + 5 * t)] for t in range(30)]
    frames[0], frames[12], frames[13], frames[29] = [], [], [], []
    frames[20] = [hide(frames[20][0], *range(70, 308))]
    boxes = boxes_from_pose(clip(*frames), "face", steady=steady)
    assert len(boxes) == 30
    x = [box[0] for box in boxes]
    assert x == sorted(x)
    if steady == "off":
        assert x[0] == x[1]
        assert x[28] == x[29]
        assert np.diff(x)[9:24] == pytest.approx([5] * 15, abs=1)


def test_boxes_follow_one_person_through_a_crossing(crossing):
    centers = [x + width / 2 for x, _, width, _ in boxes_from_pose(crossing, "face", 0, steady="off")]
    assert centers == pytest.approx([200 + 10 * t for t in range(40)], abs=2)


def test_constant_size_is_one_size_and_smooth_takes_jitter_out_without_lag(person_at):
    generator = torch.Generator().manual_seed(3)
    frames = []
    for t in range(60):
        person = person_at(200 + 6 * t, 150, 0.3)
        noise = 2 * torch.randn(308, 2, generator=generator)
        frames.append([dataclasses.replace(person, keypoints=person.keypoints + noise)])
    boxes = {steady: np.array(boxes_from_pose(clip(*frames), "face", steady=steady)) for steady in STEADY}
    truth = 200 + 6 * np.arange(60)

    def jitter(values):
        return np.abs(np.diff(values, n=2)).mean()

    for steady in ("smooth", "constant size"):
        found = boxes[steady]
        middle = found[:, 0] + found[:, 2] / 2
        assert np.abs(middle - truth).max() < 5  # at the ends nothing is known of what comes before or after
        assert np.abs(middle[8:-8] - truth[8:-8]).max() < 3
        assert jitter(found[:, 2]) < jitter(boxes["off"][:, 2]) / 4
    assert len({tuple(size) for size in boxes["constant size"][:, 2:].tolist()}) == 1


@pytest.mark.parametrize("steady", ["smooth", "constant size"])
@pytest.mark.parametrize("frames", [1, 2, 7, 60])
def test_steady_boxes_hold_the_part_however_it_moves(person_at, steady, frames):
    """Here 15 pixels a frame, then a sudden stop, and a jump."""
    x = [480 + 15 * min(t, 20) - (100 if t > 40 else 0) for t in range(frames)]
    people = [person_at(place, 200, 0.3) for place in x]
    boxes = boxes_from_pose(clip(*([person] for person in people)), "face", padding=0.1, steady=steady)
    face = list(PARTS["face"].points)
    held = [holds(box, person.keypoints[face]) for box, person in zip(boxes, people, strict=True)]
    assert sum(held) >= 0.95 * frames


def test_squares_stay_square_inside_the_frame(person_at):
    frames = [[person_at(40 * t, 20 + 30 * t, 0.3)] for t in range(25)]
    for part in ("face", "head", "left hand", "person"):
        for x, y, width, height in boxes_from_pose(clip(*frames), part, padding=0.3, steady="off"):
            assert width == height
            assert x >= 0
            assert y >= 0
            assert x + width <= WIDTH
            assert y + height <= HEIGHT


def test_padding_is_a_share_of_each_side(person_at):
    pose = clip([person_at(480, 250, 0.2)])
    tight, roomy = (
        boxes_from_pose(pose, "left hand", padding=padding, square=False, steady="off")[0] for padding in (0.0, 0.5)
    )
    assert roomy[2:] == pytest.approx((2 * tight[2], 2 * tight[3]), abs=1)
    assert roomy[0] + roomy[2] / 2 == pytest.approx(tight[0] + tight[2] / 2, abs=1)


def test_a_part_that_is_never_seen_is_an_error(person_at):
    pose = clip([hide(person_at(480), *HAND_LEFT_21)])
    with pytest.raises(ValueError, match="The left hand of person 0 isn't seen in any frame"):
        boxes_from_pose(pose, "left hand")
    with pytest.raises(ValueError, match="no person 4 in pose"):
        boxes_from_pose(pose, "face", 4)
    with pytest.raises(ValueError, match="no people"):
        boxes_from_pose(clip([]), "face")


@pytest.mark.parametrize("part", PARTS)
def test_points_for_segmentation_lie_inside_the_part(person_at, part):
    person = person_at(480, 150, 0.25)
    pose = clip([], [person])
    points = prompt_points(pose, part)
    (_, box) = boxes_from_pose(pose, part, padding=0, square=False, steady="off")
    assert 3 <= len(points) == len(set(points))
    assert holds(box, torch.tensor(points, dtype=torch.float32))


def test_points_outside_of_the_frame_or_unsure_are_left_out(person_at):
    person = hide(person_at(480, 400, 0.25), 0)
    points = prompt_points(clip([person]), "person")
    assert all(y < HEIGHT for _, y in points)
    assert (480, 410) not in points
    only_face = hide(person_at(480), *range(70))
    assert len(prompt_points(clip([only_face]), "person")) == 1
