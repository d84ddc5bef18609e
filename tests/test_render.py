import cv2
import pytest
import torch

from sapiens2_core import render
from sapiens2_core.body_parts import BODY_PARTS
from sapiens2_core.keypoints import KEYPOINT_COLORS, SKELETON
from sapiens2_core.results import FramePose


def rgb255(pixel):
    return [round(value * 255) for value in pixel.tolist()]


def test_body_parts_have_the_authors_colours():
    labels = torch.arange(29, dtype=torch.uint8).view(1, 29)
    picture = render.colour_body_parts(labels)
    assert picture.shape == (3, 1, 29)
    assert [tuple(rgb255(picture[:, 0, part.id])) for part in BODY_PARTS] == [part.color for part in BODY_PARTS]
    assert render.colour_body_parts(labels[None]).shape == (1, 3, 1, 29)


def test_overlay_mixes_by_opacity():
    image, picture = torch.zeros(3, 2, 2), torch.ones(3, 2, 2)
    assert torch.equal(render.overlay(image, picture, 0.25), torch.full((3, 2, 2), 0.25))
    opacity = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    assert torch.equal(render.overlay(image, picture, opacity)[1], opacity)


@pytest.mark.parametrize(
    ("convention", "right", "up", "front"),
    [
        ("opengl", (255, 128, 128), (128, 255, 128), (128, 128, 255)),
        ("directx", (255, 128, 128), (128, 0, 128), (128, 128, 255)),
        ("controlnet_bae", (0, 128, 128), (128, 255, 128), (128, 128, 255)),
    ],
)
def test_normal_conventions(convention, right, up, front):
    normals = torch.eye(3)[:, None]  # (3, 1, 3): x, y, z
    picture = render.normals_to_rgb(normals, convention)
    assert [tuple(rgb255(picture[:, 0, i])) for i in range(3)] == [right, up, front]
    assert torch.equal(render.normals_to_rgb(normals[None], convention)[0], picture)


def test_unknown_normal_convention_is_an_error_that_lists_them():
    with pytest.raises(ValueError, match="opengl, directx, controlnet_bae"):
        render.normals_to_rgb(torch.zeros(3, 1, 1), "maya")


def test_normal_backgrounds_keep_the_masks_soft_edge():
    pictures = torch.full((2, 3, 1, 3), 0.25)
    mask = torch.tensor([[[1.0, 0.5, 0.0]]])
    flat = render.normal_background(pictures, mask, "flat")
    assert rgb255(flat[1, :, 0, 2]) == [128, 128, 255]
    torch.testing.assert_close(flat[0, 2, 0], torch.tensor([0.25, 0.625, 1.0]))
    black = render.normal_background(pictures, mask, "black")
    torch.testing.assert_close(black[1, 0, 0], torch.tensor([0.25, 0.125, 0.0]))
    assert render.normal_background(pictures, mask, "keep") is pictures


def test_depth_colours():
    depth = torch.linspace(0, 1, 256).view(1, 1, 1, 256)
    grey = render.colour_depth(depth)
    assert grey.shape == (1, 3, 1, 256)
    assert torch.equal(grey[:, 2:], depth)
    turbo = render.colour_depth(depth, "turbo")
    levels = torch.arange(256, dtype=torch.uint8).view(1, 256).numpy()
    expected = torch.from_numpy(cv2.applyColorMap(levels, cv2.COLORMAP_TURBO)[..., ::-1].copy())
    assert torch.equal((turbo[0] * 255).round().byte().movedim(0, -1), expected)
    assert render.colour_depth(depth[0], "turbo").shape == (3, 1, 256)


@pytest.mark.parametrize("size", [(1000, 800), (250, 200)])
def test_skeleton_is_drawn_where_it_is_in_the_authors_colours(synthetic_person, size):
    height, width = size
    zoom = height / 1000
    person = synthetic_person((400 * zoom, 120 * zoom), 0.5 * zoom)
    picture = render.draw_pose(FramePose((person,), height, width))
    assert picture.shape == (3, height, width)

    for index in (8, 12, 13):  # joints are on top of bones
        x, y = person.keypoints[index].round().int().tolist()
        assert torch.allclose(picture[:, y, x] * 255, KEYPOINT_COLORS[index].float(), atol=40)
    for link in SKELETON[:4]:  # shins and thighs
        x, y = ((person.keypoints[link.start] + person.keypoints[link.end]) / 2).round().int().tolist()
        assert torch.allclose(picture[:, y, x] * 255, torch.tensor(link.color).float(), atol=40)
    painted = (picture.amax(0) > 0).float().mean().item()
    assert 0.01 < painted < 0.06  # the same share at every size


def test_weak_and_far_off_keypoints_are_not_drawn(synthetic_person):
    person = synthetic_person(score=0.2)
    assert not render.draw_pose(FramePose((person,), 1000, 800), threshold=0.3).any()
    person = synthetic_person((1e9, -1e9))
    assert not render.draw_pose(FramePose((person,), 100, 80)).any()


def test_skeleton_over_an_image_leaves_the_rest_of_it(synthetic_person):
    image = torch.full((3, 1000, 800), 0.2)
    drawn = render.draw_pose(FramePose((synthetic_person(),), 1000, 800), image)
    assert ((drawn - image).abs().amax(0) < 1 / 255).float().mean() > 0.9
    assert (image == 0.2).all()
    with pytest.raises(ValueError, match="800 × 1000"):
        render.draw_pose(FramePose((), 1000, 800), torch.zeros(3, 10, 10))
