"""Networks trained on mannequins, against the truth of scenes that they never saw.

What is asked here is whether results mean what they say: left and right, the axes' signs, metres.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sapiens2_core import Estimator
from sapiens2_core.body_parts import BODY_PARTS
from sapiens2_core.checkpoint import inspect
from sapiens2_core.demo import random_scene, render
from sapiens2_core.demo.checkpoints import WEIGHTS, checkpoint_name, demo_tasks
from sapiens2_core.demo.figure import swap_sided_labels
from sapiens2_core.demo.measures import MEASURES, measure, visible_people
from sapiens2_core.keypoints import FLIP_INDICES, KEYPOINT_NAMES

SIZE = (192, 144)

SCENES = range(20)
POINT = {name: index for index, name in enumerate(KEYPOINT_NAMES)}
LIMBS = ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")


@pytest.fixture(scope="module")
def estimators():
    return {task: Estimator.from_checkpoint(WEIGHTS / checkpoint_name(task), "fp32", "cpu") for task in demo_tasks()}


def results(estimator, truths, **options):
    boxes = None
    if estimator.task.name == "pose":
        boxes = [[tuple(truth.boxes[person].tolist()) for person in visible_people(truth)] for truth in truths]
    batches = estimator.predict([truth.image for truth in truths], boxes, batch_size=5, **options)
    return [frame for batch in batches for frame in batch]


@pytest.fixture(scope="module")
def held_out():
    return [render(random_scene(number, SIZE)) for number in SCENES]


@pytest.fixture(scope="module")
def standing():
    """Scenes of one whole person who faces the camera."""
    scenes = []
    for number in range(100, 200):
        scene = random_scene(number, SIZE, persons=1, framing="ground")
        eyes = render(scene, supersample=1).keypoints[0, [POINT["left_eye"], POINT["right_eye"]], 0]
        if eyes[0] > eyes[1] + 2:
            scenes.append(scene)
        if len(scenes) == 6:
            return scenes
    raise AssertionError("too few people face the camera")


def angles(found: torch.Tensor, other: torch.Tensor, mask: torch.Tensor) -> float:
    """Mean angle in degrees between normals, over a mask."""
    return float(torch.rad2deg(torch.acos((found * other).sum(dim=0).clamp(-1, 1)))[mask].mean())


@pytest.mark.parametrize("task", demo_tasks())
def test_checkpoints_are_small_and_know_their_task_and_native_input(task):
    path = WEIGHTS / checkpoint_name(task)
    assert path.stat().st_size <= 4_000_000
    info = inspect(path)
    assert (info.task, tuple(info.config.image_height_width), info.dtype) == (task, SIZE, torch.float16)


@pytest.mark.parametrize("task", demo_tasks())
def test_unseen_mannequins_are_understood(estimators, held_out, task):
    frames = list(zip(results(estimators[task], held_out), held_out, strict=True))
    missed = {row.name: value for row, value in measure(task, frames).items() if not row.passes(value)}
    assert not missed
    assert any(row.task == task and row.bar is not None for row in MEASURES)


def test_a_mirrored_picture_gives_mirrored_parts(estimators, standing):
    for scene in standing:
        found, mirrored = results(estimators["seg"], [render(scene), render(scene.mirrored())])
        expected = torch.from_numpy(swap_sided_labels(found.numpy().astype(np.int64))).flip(-1)
        person = (expected > 0) | (mirrored > 0)
        assert (expected == mirrored)[person].float().mean() > 0.75


def test_sides_of_the_body_are_told_apart(estimators, standing):
    """Pixels on a left limb are hardly ever called the right one."""
    sided = [part for part in BODY_PARTS if part.name.startswith("Left_")]
    ids = {part.name: part.id for part in BODY_PARTS}
    right, wrong = 0, 0
    truths = [render(scene) for scene in standing]
    for labels, truth in zip(results(estimators["seg"], truths), truths, strict=True):
        for part in sided:
            other = ids[part.name.replace("Left_", "Right_")]
            for mine, others in ((part.id, other), (other, part.id)):
                right += int((labels[truth.labels == mine] == mine).sum())
                wrong += int((labels[truth.labels == mine] == others).sum())
    assert right > 1000
    assert wrong < 0.05 * right


def test_a_mirrored_picture_gives_normals_whose_x_is_turned_round(estimators, standing):
    turn = torch.tensor([-1.0, 1.0, 1.0])[:, None, None]
    for scene in standing:
        truth = render(scene.mirrored())
        found, mirrored = results(estimators["normal"], [render(scene), truth])
        assert angles(found.flip(-1) * turn, mirrored, truth.mask) < 10
        assert angles(found.flip(-1), mirrored, truth.mask) > 25


def test_normals_point_right_up_and_to_the_camera(estimators, standing):
    """Each axis follows the truth's with the right sign."""
    truths = [render(scene) for scene in standing]
    found = torch.cat([n[:, t.mask] for n, t in zip(results(estimators["normal"], truths), truths, strict=True)], dim=1)
    true = torch.cat([truth.normals[:, truth.mask] for truth in truths], dim=1)
    for axis in range(2):
        assert np.corrcoef(found[axis], true[axis])[0, 1] > 0.6
    assert (found[2] > 0).float().mean() > 0.97


def test_another_light_leaves_normals_and_albedo(estimators, standing):
    for scene in standing:
        lit = [render(scene.lit_from((-1.0, -1.0, -1.0))), render(scene.lit_from((1.0, -1.0, -1.0)))]
        assert (lit[0].image - lit[1].image).abs()[:, lit[0].mask].mean() > 0.03
        one, other = results(estimators["normal"], lit)
        assert angles(one, other, lit[0].mask) < 10
        one, other = results(estimators["albedo"], lit)
        assert (one - other).abs()[:, lit[0].mask].mean() < 0.11


def test_flip_test_agrees_with_plain_pose_and_never_swaps_sides(estimators, standing):
    truths = [render(scene) for scene in standing]
    plain = results(estimators["pose"], truths)
    averaged = results(estimators["pose"], truths, flip_test=True)
    for one, other, truth in zip(plain, averaged, truths, strict=True):
        height = float(truth.boxes[0, 3])
        for limb in LIMBS:
            left, right = POINT[f"left_{limb}"], POINT[f"right_{limb}"]
            if not truth.visibility[0, [left, right]].all():
                continue
            gap = (truth.keypoints[0, left] - truth.keypoints[0, right]).norm()
            if gap < 0.15 * height:
                continue
            for index, opposite in ((left, right), (right, left)):
                assert (one.people[0].keypoints[index] - other.people[0].keypoints[index]).norm() < 0.05 * height
                for found in (one, other):
                    place = found.people[0].keypoints[index]
                    mine, others = truth.keypoints[0, index], truth.keypoints[0, opposite]
                    assert (place - mine).norm() < (place - others).norm()


def test_a_mirrored_picture_gives_mirrored_keypoints(estimators, standing):
    body = [*range(15), POINT["left_wrist"], POINT["right_wrist"]]
    for scene in standing:
        truth = render(scene)
        found, mirrored = (frame.people[0] for frame in results(estimators["pose"], [truth, render(scene.mirrored())]))
        expected = found.keypoints[list(FLIP_INDICES)] * torch.tensor([-1.0, 1.0]) + torch.tensor([SIZE[1] - 1.0, 0.0])
        seen = truth.visibility[0, list(FLIP_INDICES)][body]
        distance = (expected - mirrored.keypoints)[body][seen].norm(dim=1)
        assert (distance < 0.05 * truth.boxes[0, 3]).float().mean() > 0.85


def test_a_camera_farther_back_finds_people_farther_away(estimators, standing):
    ratios = []
    for scene in standing:
        near, far = render(scene), render(scene.seen_from_farther(1.0))
        found = results(estimators["pointmap"], [near, far])
        # Depth at the true focal length: what the picture shows, without the guess at the lens.
        depths = [
            frame.points[2][truth.mask].median() * truth.focal_length / frame.focal_length
            for frame, truth in zip(found, (near, far), strict=True)
        ]
        true = [truth.points[2][truth.mask].median() for truth in (near, far)]
        assert depths[1] > depths[0]
        ratios.append(float((depths[1] / depths[0]) / (true[1] / true[0])))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.25)
