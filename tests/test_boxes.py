"""The box forms that graphs bring. The file is loaded by path: our ``nodes`` and ComfyUI's must never meet."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

spec = importlib.util.spec_from_file_location("sapiens2_boxes", Path(__file__).parents[1] / "nodes" / "boxes.py")
boxes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(boxes)

HEIGHT, WIDTH = 100, 200
A = {"x": 10, "y": 20, "width": 30, "height": 40, "label": "person", "score": 0.9}
B = {"x": 50.5, "y": 0, "width": 20, "height": 60.25}
BUS = {"x": 0, "y": 0, "width": 9, "height": 9, "label": "bus"}
COCO_A, COCO_B = (10.0, 20.0, 30.0, 40.0), (50.5, 0.0, 20.0, 60.25)
CORNERS_A, CORNERS_B = [10, 20, 40, 60], (50.5, 0.0, 70.5, 60.25)


def detections(value, num_frames=3):
    return boxes.boxes_per_frame(value, num_frames, HEIGHT, WIDTH)


def per_frame(value, num_frames=3):
    return [[box for box, _ in frame] for frame in detections(value, num_frames)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (A, [[COCO_A]] * 3),
        (CORNERS_A, [[COCO_A]] * 3),
        (np.array(CORNERS_A), [[COCO_A]] * 3),
        ([A, B], [[COCO_A, COCO_B]] * 3),
        ([[A, B]], [[COCO_A, COCO_B]] * 3),
        ([[CORNERS_A, CORNERS_B]], [[COCO_A, COCO_B]] * 3),
        ([A, B, A], [[COCO_A, COCO_B, COCO_A]] * 3),
        ([[A], [], [B, A]], [[COCO_A], [], [COCO_B, COCO_A]]),
        ([[A], None, B], [[COCO_A], [], [COCO_B]]),
        ([[CORNERS_A], [CORNERS_B], []], [[COCO_A], [COCO_B], []]),
        ([CORNERS_A, CORNERS_B], [[COCO_A, COCO_B]] * 3),
        ([CORNERS_A, CORNERS_B, CORNERS_A], [[COCO_A], [COCO_B], [COCO_A]]),
        (torch.tensor([CORNERS_A, CORNERS_A, CORNERS_A]), [[COCO_A]] * 3),
        (np.array([CORNERS_A, CORNERS_B]), [[COCO_A, COCO_B]] * 3),
        (np.array([[CORNERS_A]] * 3, dtype=np.float32), [[COCO_A]] * 3),
        ([np.array([CORNERS_A]), np.zeros((0, 4)), torch.tensor([CORNERS_A, CORNERS_A])], [[COCO_A], [], [COCO_A] * 2]),
        ([], [[], [], []]),
        ([[], [], []], [[], [], []]),
        ([[A, BUS], [BUS], [B]], [[COCO_A], [], [COCO_B]]),
        ([{**B, "label": None}, {**A, "label": "Person"}], [[COCO_B, COCO_A]] * 3),
    ],
)
def test_every_box_form_becomes_a_list_of_coco_boxes_per_frame(value, expected):
    assert per_frame(value) == expected


def test_flat_list_of_corners_is_shared_unless_it_is_as_long_as_the_clip():
    flat = [CORNERS_A, CORNERS_B]
    assert per_frame(flat, 2) == [[COCO_A], [COCO_B]]
    assert per_frame(flat, 4) == [[COCO_A, COCO_B]] * 4


def test_coordinates_are_python_floats():
    box = per_frame([torch.tensor([[1, 2, 3, 4]])])[0][0]
    assert all(type(value) is float for value in box)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({**A, "width": 0}, "width 0, height 40 of frame 0 has no area"),
        ([[A], [A], [[10, 20, 40, 20]]], "of frame 2 has no area"),
        ([40, 60, 10, 20], "has no area"),
        ({**A, "x": 200}, "outside of the 200 × 100 pixel frame"),
        ([[A], [{**A, "y": -40}], []], "of frame 1 lies outside"),
        ({**A, "height": float("nan")}, "aren't finite"),
        ([[A], [A]], "lists for 2 frames, but image has 3"),
        ([[A], ["person"], []], "isn't a box"),
        ([[1, 2, 3]], "isn't a box"),
        ({"x": 1, "y": 2}, "lacks width, height"),
        ("person", "can't be read from a str"),
        (7, "can't be read from a int"),
    ],
)
def test_bad_boxes_are_refused_with_a_sentence(value, message):
    with pytest.raises(ValueError, match=message):
        per_frame(value)


def test_a_box_that_only_touches_the_frame_is_kept():
    assert per_frame({"x": -20, "y": -20, "width": 20.5, "height": 20.5}, 1) == [[(-20.0, -20.0, 20.5, 20.5)]]


def test_scores_come_along_and_are_1_where_nobody_gives_one():
    given = [A, B, {**B, "score": None}, {**B, "score": float("nan")}, {**BUS, "score": 0.5}, CORNERS_A]
    assert [score for _, score in detections([given], 1)[0]] == [0.9, 1.0, 1.0, 1.0, 1.0]
    scores = detections([{**A, "score": torch.tensor(0.25)}, {**A, "score": np.float32(0.5)}, {**A, "score": 1}])[2]
    assert scores == [(COCO_A, 0.25), (COCO_A, 0.5), (COCO_A, 1.0)]
