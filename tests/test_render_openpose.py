"""Pictures of OpenPose people, held against ComfyUI's own node, and every part, size and style of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from sapiens2_core.openpose import to_openpose
from sapiens2_core.openpose_in import openpose_people, read_openpose
from sapiens2_core.pose_parts import KEYPOINTS_OF, Parts, keep_parts, resize_frame
from sapiens2_core.render import draw_pose
from sapiens2_core.render_openpose import draw_openpose, thick_factor
from sapiens2_core.results import FramePose, Pose

NOTHING = Parts(body=False, head=False, hands=False, feet=False, face=False)
PART_NAMES = ["body", "head", "hands", "feet", "face"]


@pytest.fixture
def frame(synthetic_person):
    """Two people in 512 × 640 pixels."""
    return FramePose((synthetic_person((256.3, 70.6), 0.24), synthetic_person((460.3, 50.6), 0.2, 8.0)), 512, 640)


def to_pixels(picture):
    return (picture * 255).round().byte().movedim(0, -1).numpy()


@pytest.fixture(scope="module")
def core_draws(sdpose_source):
    """ComfyUI's KeypointDraw on a frame of POSE_KEYPOINT."""
    space = {}
    exec("import numpy as np, math, colorsys", space)
    start, end = map(sdpose_source.index, ("class KeypointDraw", "class SDPoseDrawKeypoints"))
    exec(sdpose_source[start:end], space)
    drawer = space["KeypointDraw"]()
    parts = ("pose", "foot", "face", "hand_right", "hand_left")

    def draw(frame, **options):
        canvas = np.zeros((frame["canvas_height"], frame["canvas_width"], 3), dtype=np.uint8)
        for person in frame["people"]:
            rows = [np.array(person[f"{part}_keypoints_2d"]).reshape(-1, 3) for part in parts]
            rows[2] = rows[2][:68]
            rows = np.concatenate(rows)
            canvas = drawer.draw_wholebody_keypoints(canvas, rows[:, :2], rows[:, 2], threshold=0.3, **options)
        return canvas

    return draw


def agreement(first, second):
    """Mean absolute difference over the pixels that either draws, and intersection over union of those pixels."""
    one, other = first.any(axis=-1), second.any(axis=-1)
    either = one | other
    return np.abs(first.astype(int) - second)[either].mean(), (one & other).sum() / either.sum()


@pytest.mark.parametrize("seed", range(4))
def test_picture_is_that_of_the_core_s_node(core_draws, synthetic_person, seed):
    rng = np.random.default_rng(seed)
    people = [
        synthetic_person(tuple(rng.uniform((100, 40), (540, 200))), rng.uniform(0.1, 0.35), rng.uniform(-60, 60))
        for _ in range(3)
    ]
    for person in people:
        person.scores[torch.from_numpy(rng.random(308) < 0.2)] = 0.1
    (pose,) = to_openpose(Pose((FramePose(tuple(people), 512, 640),)), 0.3)
    (ours,) = read_openpose(pose)
    difference, iou = agreement(core_draws(pose), to_pixels(draw_openpose(ours, stick_brightness=1.0)))
    assert difference < 8
    assert iou > 0.97


@pytest.mark.parametrize("off", PART_NAMES)
def test_picture_without_a_part_is_that_of_the_core_s_node(core_draws, frame, off):
    (pose,) = to_openpose(Pose((frame,)), 0.3)
    (ours,) = read_openpose(pose)
    expected = core_draws(pose, **{f"draw_{off}": False})
    picture = to_pixels(draw_openpose(ours, parts=Parts(**{off: False}), stick_brightness=1.0))
    difference, iou = agreement(expected, picture)
    assert difference < 8
    assert iou > 0.98


def test_sticks_have_the_annotators_sixty_percent_and_joints_their_full_colour(frame):
    picture = to_pixels(draw_openpose(openpose_people(frame, 0.3)))
    elbow, wrist = (frame.people[0].keypoints[index].numpy() for index in (8, 41))  # right
    x, y = ((elbow + wrist) / 2).astype(int)
    assert picture[y, x].tolist() == [int(255 * 0.6), int(255 * 0.6), 0]
    x, y = elbow.astype(int)
    assert picture[y, x].tolist() == [255, 255, 0]


def test_edges_are_smooth(frame):
    white = draw_openpose(openpose_people(frame, 0.3), parts=dataclasses.replace(NOTHING, face=True))
    body = draw_openpose(openpose_people(frame, 0.3), parts=dataclasses.replace(NOTHING, body=True))
    for picture in (white, body):
        values = np.unique(to_pixels(picture))
        assert len(values) > 20


@pytest.mark.parametrize("part", PART_NAMES)
@pytest.mark.parametrize("style", ["openpose", "sapiens"])
def test_part_alone_draws_only_its_own_points(frame, part, style):
    alone = dataclasses.replace(NOTHING, **{part: True})
    others = dataclasses.replace(Parts(), **{part: False})

    def draw(parts, source=frame):
        if style == "sapiens":
            return draw_pose(keep_parts(source, parts))
        return draw_openpose(openpose_people(source, 0.3), parts=parts)

    assert draw(alone).any()
    assert not draw(NOTHING).any()
    # Whatever the points of a part that is off: the picture is the same.
    moved = FramePose(
        tuple(dataclasses.replace(person, keypoints=person.keypoints.clone()) for person in frame.people), 512, 640
    )
    shared = {index for name in PART_NAMES if name != part for index in KEYPOINTS_OF[name]}
    only = [index for index in KEYPOINTS_OF[part] if index not in shared]
    for person in moved.people:
        person.keypoints[only] += 9
    if part != "face" or style == "sapiens":  # OpenPose's face takes its pupils, and its jaw the ears, from the head
        assert torch.equal(draw(others), draw(others, moved))
    assert not torch.equal(draw(alone), draw(alone, moved))


def test_redrawn_larger_is_sharp_and_in_proportion(frame):
    small = draw_openpose(openpose_people(frame, 0.3))
    large = draw_openpose(openpose_people(frame, 0.3).resized(1536, 1920))
    shrunk = torch.nn.functional.interpolate(large[None], (512, 640), mode="area")[0]
    assert (shrunk - small).abs().mean() < 0.012
    steps = np.abs(np.diff(to_pixels(large).astype(int), axis=0)).max()
    assert steps > 150  # a scaled picture has no such edges


def test_resized_people_lie_on_the_same_shares_of_the_frame(frame):
    for resized in (
        resize_frame(frame, 1024, 640).people[0].keypoints.numpy(),
        openpose_people(frame, 0.3).resized(1024, 640).people[0].body[0, :2],
    ):
        x, y = resized[0] if resized.ndim == 2 else resized
        assert (float(x), float(y)) == pytest.approx(
            (float(frame.people[0].keypoints[0, 0]), 2 * float(frame.people[0].keypoints[0, 1]) + 0.5), abs=1e-3
        )


@pytest.mark.parametrize(("side", "factor"), [(499, 1), (500, 2), (999, 2), (1024, 3), (2048, 4), (9000, 7)])
def test_thick_factor_follows_the_longer_side(side, factor):
    assert thick_factor(side, 64) == thick_factor(64, side) == factor


def test_thick_style_widens_sticks_and_joints_and_leaves_hands_and_face(frame):
    people = openpose_people(frame, 0.3).resized(1024, 1280)
    hands_and_face = dataclasses.replace(NOTHING, hands=True, face=True)
    body = dataclasses.replace(NOTHING, body=True)
    assert torch.equal(
        draw_openpose(people, thick=True, parts=hands_and_face), draw_openpose(people, parts=hands_and_face)
    )
    # 3 · 4 pixels for SDXL's networks, where an annotator's 4 of 512 are 8 of 1024.
    areas = [(draw_openpose(people, thick=thick, parts=body) > 0).any(0).sum() for thick in (False, True)]
    assert 1.35 < areas[1] / areas[0] < 1.7


def test_size_is_a_factor_on_everything(frame):
    people = openpose_people(frame, 0.3)
    areas = [(draw_openpose(people, size=size) > 0).any(0).sum() for size in (0.5, 1.0, 2.0)]
    assert areas[0] < 0.7 * areas[1] < 0.5 * areas[2]
    areas = [(draw_pose(frame, size=size) > 0).any(0).sum() for size in (1.0, 2.0)]
    assert areas[1] > 1.4 * areas[0]


def test_drawing_over_an_image_leaves_the_rest_of_it(frame):
    generator = torch.Generator().manual_seed(0)
    image = torch.rand((3, 512, 640), generator=generator)
    people = openpose_people(frame, 0.3)
    over, black = draw_openpose(people, image), draw_openpose(people)
    free = ~(black > 0).any(dim=0)
    assert (over - image)[:, free].abs().max() < 0.5 / 255 + 1e-6
    solid = (black[:, ~free] - over[:, ~free]).abs().amax(dim=0) < 1e-6
    assert solid.float().mean() > 0.5


def test_image_of_another_size_is_refused(frame):
    with pytest.raises(ValueError, match="640 × 512 pixels, but the image has 64 × 32"):
        draw_openpose(openpose_people(frame, 0.3), torch.zeros(3, 32, 64))


def test_fitted_jaw_is_drawn_with_the_face_and_not_without_it(frame):
    face = dataclasses.replace(NOTHING, face=True)
    people = openpose_people(frame, 0.3)
    x, y = people.people[0].face[3, :2].astype(int)
    assert draw_openpose(people, parts=face)[:, y, x].tolist() == [1, 1, 1]
    hidden = keep_parts(frame, Parts(head=False, face=False))
    assert not draw_openpose(openpose_people(hidden, 0.3), parts=face).any()


def test_points_far_outside_and_degenerate_people_are_drawn_without_harm(frame):
    person = frame.people[0]
    far = dataclasses.replace(person, keypoints=person.keypoints * 1e6)
    one = dataclasses.replace(person, keypoints=torch.full((308, 2), 50.0))
    picture = draw_openpose(openpose_people(FramePose((far, one), 512, 640), 0.3))
    assert picture[:, 50, 50].any()
