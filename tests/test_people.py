"""Which boxes are people, and boxes from masks; suppression against torchvision."""

import numpy as np
import pytest
import torch
import torchvision

from sapiens2_core.people import boxes_from_mask, choose_people, sort_boxes, suppress_duplicates

LEFT, MIDDLE, RIGHT = (0.0, 0.0, 20.0, 60.0), (50.0, 10.0, 40.0, 80.0), (100.0, 0.0, 30.0, 30.0)


def test_people_stand_left_to_right_unless_asked_otherwise():
    given = [RIGHT, LEFT, MIDDLE]
    scores = [1.0] * 3
    assert choose_people(given, scores) == [LEFT, MIDDLE, RIGHT]
    assert choose_people(given, scores, order="area") == [MIDDLE, LEFT, RIGHT]
    assert choose_people(given, scores, order="as given") == given
    with pytest.raises(ValueError, match="left to right, area, as given"):
        sort_boxes(given, "by height")


def test_a_limit_keeps_the_largest_or_the_first_given():
    given = [RIGHT, LEFT, MIDDLE]
    scores = [0.9, 0.8, 0.1]
    assert choose_people(given, scores, max_people=2) == [LEFT, MIDDLE]
    assert choose_people(given, scores, max_people=1, order="area") == [MIDDLE]
    assert choose_people(given, scores, max_people=2, order="as given") == [RIGHT, LEFT]
    assert choose_people(given, scores, max_people=9) == [LEFT, MIDDLE, RIGHT]


def test_dancers_who_overlap_by_half_both_stay_and_a_duplicate_goes():
    one, other, again = (0.0, 0.0, 100.0, 200.0), (30.0, 0.0, 100.0, 200.0), (2.0, 1.0, 100.0, 200.0)
    boxes, scores = [again, one, other], [0.6, 0.9, 0.8]
    assert choose_people(boxes, scores) == [one, other]
    assert choose_people(boxes, scores, max_iou=0.3) == [one]
    assert choose_people(boxes, scores, max_iou=1.0) == [one, again, other]
    assert choose_people([again, one], [1.0, 1.0]) == [again]


@pytest.mark.parametrize("max_iou", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_suppression_is_torchvisions(max_iou):
    generator = torch.Generator().manual_seed(2)
    corners = torch.rand(60, 2, generator=generator) * 60
    sides = 20 + torch.rand(60, 2, generator=generator) * 60
    scores = torch.rand(60, generator=generator)
    expected = torchvision.ops.nms(torch.cat([corners, corners + sides], dim=1), scores, max_iou)
    boxes = [tuple(row) for row in torch.cat([corners, sides], dim=1).tolist()]
    assert suppress_duplicates(boxes, scores.tolist(), max_iou) == sorted(expected.tolist())


def test_nobody_is_nobody():
    assert choose_people([], []) == []
    assert boxes_from_mask(torch.zeros(20, 30)) == []
    assert boxes_from_mask(torch.zeros(20, 30), merge=5) == []


def test_each_component_of_a_mask_becomes_a_box_that_just_holds_it():
    mask = torch.zeros(60, 100)
    mask[5:55, 60:80] = 1.0
    mask[10:40, 10:30] = 0.5
    mask[40:50, 30:40] = 0.7  # touches the last one at a corner
    mask[0:60, 90:100] = 0.49
    assert boxes_from_mask(mask) == [(10.0, 10.0, 30.0, 40.0), (60.0, 5.0, 20.0, 50.0)]
    assert boxes_from_mask(mask >= 0.5) == boxes_from_mask(mask)


def test_specks_are_left_out_by_their_share_of_the_frame():
    mask = torch.zeros(100, 100)
    mask[10:60, 10:40] = 1
    mask[80:83, 80:83] = 1
    person, speck = (10.0, 10.0, 30.0, 50.0), (80.0, 80.0, 3.0, 3.0)
    assert boxes_from_mask(mask, min_area=0.0009) == [person, speck]
    assert boxes_from_mask(mask, min_area=0.00091) == [person]
    assert boxes_from_mask(mask, min_area=0.0) == [person, speck]


@pytest.mark.parametrize("gap", [1, 4, 7])
def test_parts_with_a_gap_up_to_merge_are_one_person(gap):
    mask = torch.zeros(60, 100)
    mask[5:20, 30:60] = 1
    mask[20 + gap : 50, 30:60] = 1
    mask[5:50, 80:90] = 1
    whole, other = (30.0, 5.0, 30.0, 45.0), (80.0, 5.0, 10.0, 45.0)
    assert boxes_from_mask(mask, merge=gap) == [whole, other]
    assert len(boxes_from_mask(mask, merge=max(0, gap - 2))) == 3  # both sides grow: it is in steps of two
    assert boxes_from_mask(mask, merge=500) == [(30.0, 5.0, 60.0, 45.0)]


def test_a_mask_full_of_specks_is_quick_work():
    mask = torch.zeros(540, 960)
    mask[::4, ::4] = 1
    assert len(boxes_from_mask(mask, min_area=0)) == 135 * 240
    assert boxes_from_mask(mask) == []
    assert np.isclose(boxes_from_mask(mask, merge=3)[0], (0, 0, 957, 537)).all()
