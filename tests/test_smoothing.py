"""Smooth Pose's core on generated paths."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from sapiens2_core.results import FramePose, Pose
from sapiens2_core.smoothing import smooth

SIZE = {"height": 540, "width": 960}
PERIOD = 16  # frames: an arm that waves twice a second at 32 frames per second


@pytest.fixture
def walk(synthetic_person):
    """A person 330 pixels tall on a path: the clip, and (T, 308, 2) where its keypoints truly are."""

    def make(shifts, noise=1.0, seed=0, scores=None):
        generator = torch.Generator().manual_seed(seed)
        base = synthetic_person((480.0, 100.0), 0.2)
        frames, truth = [], []
        for index, shift in enumerate(shifts):
            points = base.keypoints + torch.tensor([float(value) for value in shift])
            found = points + noise * torch.randn(points.shape, generator=generator)
            score = base.scores.clone() if scores is None else torch.full((308,), float(scores[index]))
            frames.append(FramePose((dataclasses.replace(base, keypoints=found, scores=score),), **SIZE))
            truth.append(points)
        return Pose(tuple(frames)), torch.stack(truth).numpy()

    return make


def keypoints(pose, place=0):
    return torch.stack([frame.people[place].keypoints for frame in pose.frames]).numpy()


def rms(errors):
    return float(np.sqrt((errors**2).sum(axis=-1).mean()))


@pytest.mark.parametrize("noise", [0.5, 1.0, 2.5])
def test_jitter_of_a_still_person_falls_by_five(walk, noise):
    pose, truth = walk([(0, 0)] * 90, noise)
    after = keypoints(smooth(pose))
    assert rms(keypoints(pose) - truth) > 5 * rms(after - truth)
    step_before, step_after = (np.diff(points, axis=0) for points in (keypoints(pose), after))
    assert rms(step_before) > 30 * rms(step_after)


def test_jitter_of_an_even_walk_falls_and_nothing_trails_behind(walk):
    pose, truth = walk([(5 * t - 200, 0) for t in range(90)])
    errors = keypoints(smooth(pose)) - truth
    assert rms(keypoints(pose) - truth) > 4 * rms(errors)
    assert abs(errors[..., 0].mean()) < 0.02  # a lag of one frame would be 5 pixels


def test_fast_motion_keeps_its_phase_and_its_peaks(walk):
    amplitude = 60
    pose, _ = walk([(amplitude * np.sin(2 * np.pi * t / PERIOD), 0) for t in range(96)])
    x = keypoints(smooth(pose))[..., 0]
    x = (x - x.mean(axis=0)).mean(axis=1)  # the noise of 308 keypoints cancels: what is left is bias
    phases = 2 * np.pi * np.arange(96) / PERIOD
    sine, cosine = 2 * (x @ np.sin(phases)) / 96, 2 * (x @ np.cos(phases)) / 96
    assert np.hypot(sine, cosine) == pytest.approx(amplitude, rel=0.02)
    assert abs(np.arctan2(cosine, sine)) * PERIOD / (2 * np.pi) < 0.02  # frames
    peaks = x[np.abs(np.sin(phases)) > 0.999]
    assert np.abs(peaks).mean() > 0.98 * amplitude


def test_fast_motion_is_not_made_worse_than_it_was(walk):
    pose, truth = walk([(60 * np.sin(2 * np.pi * t / PERIOD), 40 * np.cos(2 * np.pi * t / PERIOD)) for t in range(64)])
    assert rms(keypoints(smooth(pose)) - truth) < rms(keypoints(pose) - truth)


def test_sudden_jump_stays_where_it_is(walk):
    pose, truth = walk([(0, 0)] * 30 + [(60, 0)] * 30, noise=0.5)
    errors = np.abs(keypoints(smooth(pose))[..., 0] - truth[..., 0]).mean(axis=1)
    assert errors.max() < 1.0


def test_time_reversed_clip_gives_the_reversed_result(walk):
    pose, _ = walk([(30 * np.sin(t / 3), 2 * t) for t in range(40)])
    backwards = keypoints(smooth(Pose(pose.frames[::-1])))[::-1]
    np.testing.assert_allclose(keypoints(smooth(pose)), backwards, atol=1e-3)


def test_a_scene_cut_is_not_smoothed_across(walk, synthetic_person):
    before, truth_before = walk([(-250, 0)] * 30, seed=1)
    after, truth_after = walk([(250, 0)] * 30, seed=2)
    result = keypoints(smooth(Pose(before.frames + after.frames)))
    truth = np.concatenate([truth_before, truth_after])
    assert np.abs(result - truth).mean() < 0.5
    assert np.linalg.norm(result[29] - truth[29], axis=1).mean() < 2
    alone = keypoints(smooth(before))
    np.testing.assert_array_equal(result[:30], alone)


def test_crossing_people_are_smoothed_each_on_its_own_path(walk):
    right, truth_right = walk([(8 * t - 240, 0) for t in range(60)], seed=1)
    left, truth_left = walk([(240 - 8 * t, 10) for t in range(60)], seed=2)
    both = [
        FramePose((a.people + b.people)[:: 1 if t % 2 else -1], **SIZE)
        for t, (a, b) in enumerate(zip(right.frames, left.frames, strict=True))
    ]
    result = smooth(Pose(tuple(both)))
    for t, frame in enumerate(result.frames):
        first, second = (person.keypoints.numpy() for person in frame.people[:: 1 if t % 2 else -1])
        assert rms(first - truth_right[t]) < 1.5
        assert rms(second - truth_left[t]) < 1.5


def test_person_missing_from_a_few_frames_is_put_back_in_between(walk):
    pose, truth = walk([(4 * t, 0) for t in range(40)])
    empty = FramePose((), **SIZE)
    gap = (18, 19, 20, 21)
    holed = Pose(tuple(empty if t in gap else frame for t, frame in enumerate(pose.frames)))
    result = smooth(holed, fill_gaps=4)
    assert [len(frame.people) for frame in result.frames] == [1] * 40
    errors = keypoints(result) - truth
    assert rms(errors[list(gap)]) < 1
    filled = result.frames[19].people[0]
    assert (filled.scores > 0.5).all()
    assert filled.box == pytest.approx(pose.frames[19].people[0].box, abs=1e-3)
    assert [len(smooth(holed, fill_gaps=3).frames[t].people) for t in (17, *gap, 22)] == [1, 0, 0, 0, 0, 1]


def test_who_is_put_back_takes_the_old_place_among_the_people(walk):
    near, _ = walk([(-200, 0)] * 9, seed=1)
    far, _ = walk([(200, 0)] * 9, seed=2)
    frames = [
        FramePose((() if t == 4 else a.people) + b.people, **SIZE)
        for t, (a, b) in enumerate(zip(near.frames, far.frames, strict=True))
    ]
    xs = [[float(p.keypoints[0, 0]) for p in frame.people] for frame in smooth(Pose(tuple(frames))).frames]
    assert np.array(xs) == pytest.approx(np.tile([280, 680], (9, 1)), abs=4)


def test_keypoint_lost_for_a_few_frames_is_put_back_and_not_for_more(walk):
    pose, truth = walk([(4 * t, 0) for t in range(40)])
    wrist, lost = 41, (15, 16, 17, 18)
    for t in lost:  # a heatmap without a peak has its maximum anywhere
        pose.frames[t].people[0].scores[wrist] = 0.05
        pose.frames[t].people[0].keypoints[wrist] = torch.tensor([3.0, 5.0])
    filled, left = smooth(pose, fill_gaps=4), smooth(pose, fill_gaps=3)
    for t in lost:
        assert filled.frames[t].people[0].scores[wrist] > 0.5
        assert np.linalg.norm(filled.frames[t].people[0].keypoints[wrist].numpy() - truth[t, wrist]) < 3
    assert left.frames[16].people[0].scores[wrist] < 0.3
    for t in (14, 19):  # its neighbours are not drawn away
        assert np.linalg.norm(left.frames[t].people[0].keypoints[wrist].numpy() - truth[t, wrist]) < 4


@pytest.mark.parametrize("low", [0.9, 0.6, 0.35])
def test_frames_weigh_by_the_square_of_their_score(walk, low):
    """Every third frame lies 15 pixels off; the others have a score of 0.9."""
    pose, _ = walk([(15 * (t % 3 == 1), 0) for t in range(60)], noise=0.5, scores=[0.9, low, 0.9] * 20)
    _, truth = walk([(0, 0)] * 60)
    weight = (low / 0.9) ** 2
    off = (keypoints(smooth(pose, 1.0, 0)) - truth)[10:-10, :, 0].mean()
    assert off == pytest.approx(15 * weight / (2 + weight), abs=0.2)


@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_score_that_flickers_around_a_threshold_stays_on_one_side(walk, threshold):
    rng = np.random.default_rng(0)
    scores = threshold + rng.uniform(-0.1, 0.1, 80)
    pose, _ = walk([(0, 0)] * 80, scores=scores)
    assert np.count_nonzero(np.diff(scores > threshold)) > 20
    result = np.array([float(frame.people[0].scores[8]) for frame in smooth(pose, fill_gaps=0).frames])
    assert np.count_nonzero(np.diff(result > threshold)) <= 1


def test_limb_that_goes_out_of_sight_goes_when_it_goes(walk):
    pose, _ = walk([(0, 0)] * 60, scores=[0.9] * 30 + [0.05] * 30)
    result = np.array([float(frame.people[0].scores[8]) for frame in smooth(pose).frames])
    assert np.argmax(result < 0.3) == pytest.approx(30, abs=2)
    assert result[0] == pytest.approx(0.9, abs=0.06)
    assert result[-1] < 0.2


def test_without_strength_and_gaps_nothing_changes(walk):
    pose, _ = walk([(3 * t, 0) for t in range(12)])
    result = smooth(pose, strength=0.0, fill_gaps=0)
    for one, other in zip(pose.frames, result.frames, strict=True):
        assert torch.equal(one.people[0].keypoints, other.people[0].keypoints)
        assert torch.equal(one.people[0].scores, other.people[0].scores)
        assert one.people[0].box == other.people[0].box


@pytest.mark.parametrize("score", [-0.05, 0.0])
def test_person_whose_scores_are_nothing_stays_where_it_is(walk, score):
    pose, truth = walk([(0, 0)] * 12, noise=0.0, scores=[score] * 12)
    np.testing.assert_allclose(keypoints(smooth(pose)), truth, atol=1e-3)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_short_clips_stay_themselves(walk, length):
    pose, truth = walk([(0, 0)] * length, noise=0.0)
    result = smooth(pose)
    assert len(result.frames) == length
    for frame, points in zip(result.frames, truth, strict=True):
        np.testing.assert_allclose(frame.people[0].keypoints, points, atol=1e-3)


def test_empty_clip_and_empty_frames_stay_empty():
    empty = Pose((FramePose((), **SIZE),) * 3)
    assert smooth(empty) == empty
    assert smooth(Pose(())) == Pose(())


@pytest.mark.parametrize(("options", "word"), [({"strength": 1.5}, "strength"), ({"fill_gaps": -1}, "fill_gaps")])
def test_impossible_settings_are_refused_by_name(options, word):
    with pytest.raises(ValueError, match=word):
        smooth(Pose(()), **options)
