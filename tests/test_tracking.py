"""Who is who from frame to frame, on generated walks."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from sapiens2_core.results import FramePose, Pose
from sapiens2_core.tracking import MAX_LOST_FRAMES, track

SIZE = {"height": 540, "width": 960}


@pytest.fixture
def person_at(synthetic_person):
    """A person about 340 pixels tall whose nose root is at x, with a little noise on every keypoint."""
    generator = torch.Generator().manual_seed(0)

    def make(x, y=100.0, millimetre=0.2, roll=0.0, score=0.9):
        person = synthetic_person((x, y), millimetre, roll, score)
        noise = torch.randn(person.keypoints.shape, generator=generator)
        return dataclasses.replace(person, keypoints=person.keypoints + noise)

    return make


def clip(*frames):
    return Pose(tuple(FramePose(tuple(people), **SIZE) for people in frames))


def test_crossing_people_keep_their_identity_whatever_their_order(person_at):
    frames = []
    for t in range(60):
        people = [person_at(200 + 8 * t), person_at(680 - 8 * t, 110.0)]
        frames.append(people if t % 3 else people[::-1])
    found = track(clip(*frames))
    assert found == [[0, 1] if t % 3 else [1, 0] for t in range(60)] or found == [
        [1, 0] if t % 3 else [0, 1] for t in range(60)
    ]


def test_one_of_two_crossing_people_may_be_hidden_for_a_while(person_at):
    frames = []
    for t in range(60):
        hidden = 26 <= t <= 34
        frames.append([person_at(200 + 8 * t)] + ([] if hidden else [person_at(680 - 8 * t)]))
    assert track(clip(*frames)) == [[0] if 26 <= t <= 34 else [0, 1] for t in range(60)]


def test_fast_person_is_one_person(person_at):
    # 45 pixels a frame are an eighth of the height, 8 m/s at 35 frames per second.
    assert track(clip(*([person_at(50 + 45 * t)] for t in range(20)))) == [[0]] * 20


def test_nobody_is_matched_across_a_scene_cut(person_at):
    frames = [[person_at(200), person_at(500)] for _ in range(5)]
    frames += [[person_at(820, 60, 0.5), person_at(60, 300, 0.1)] for _ in range(5)]
    assert track(clip(*frames)) == [[0, 1]] * 5 + [[2, 3]] * 5


def test_person_in_another_place_after_a_cut_is_somebody_new(person_at):
    assert track(clip([person_at(200)], [person_at(200)], [person_at(600)], [person_at(600)])) == [[0], [0], [1], [1]]


def test_person_who_leaves_comes_back_as_the_same_unless_it_took_long(person_at):
    away = [[]] * MAX_LOST_FRAMES
    assert track(clip([person_at(300)], *away, [person_at(303)])) == [[0], *away, [0]]
    away = [[]] * (MAX_LOST_FRAMES + 1)
    assert track(clip([person_at(300)], *away, [person_at(303)])) == [[0], *away, [1]]


def test_people_without_visible_keypoints_are_matched_by_their_boxes(person_at):
    one, other = person_at(200, score=0.1), person_at(600, score=0.1)
    assert track(clip([one, other], [other, one])) == [[0, 1], [1, 0]]


def test_newcomer_gets_a_new_identity_and_the_others_keep_theirs(person_at):
    frames = [[person_at(300)], [person_at(600), person_at(300)], [person_at(300), person_at(600), person_at(900)]]
    assert track(clip(*frames)) == [[0], [1, 0], [0, 1, 2]]


def test_empty_clip_and_empty_frames_have_no_identities():
    assert track(Pose(())) == []
    assert track(clip([], [])) == [[], []]
