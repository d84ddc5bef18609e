"""Pointmaps at frame size: what happens at silhouettes, in holes, and on smooth and noisy surfaces."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms.v2.functional import gaussian_blur

from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.inference import Estimator
from sapiens2_core.point_resize import extend, resize_points
from tests.analytic_scenes import plane, sphere

PERSON, WALL = 2.0, 5.0


def step(height: int, width: int, edge: float) -> torch.Tensor:
    """A person in front of a wall, left of an edge; the pixel that the edge runs through holds a mean of both."""
    share = (edge - torch.arange(width)).clamp(0, 1)
    return (share * PERSON + (1 - share) * WALL).expand(3, height, -1)


@pytest.mark.parametrize(("zoom", "edge"), [(0.5, 16), (0.5, 17), (1, 16), (2, 16.5), (3.7, 16.5), (3.7, 16)])
def test_no_point_at_a_step_edge_is_a_mean_of_person_and_wall(zoom, edge):
    small = step(30, 40, edge)
    size = (int(30 * zoom), int(40 * zoom))
    mask = (torch.arange(size[1]) + 0.5 < edge * zoom).expand(size)
    depth = resize_points(small, size, mask)[2]
    torch.testing.assert_close(depth, torch.where(mask, PERSON, WALL), rtol=0, atol=1e-5)
    if zoom > 1:
        mixed = resize_points(small, size)[2]
        assert ((mixed > PERSON + 0.1) & (mixed < WALL - 0.1)).any()  # what the mask prevents


def test_holes_keep_what_is_seen_through_them():
    depth = torch.full((3, 60, 60), PERSON)
    depth[:, 20:30, 24:34] = WALL
    mask = torch.ones(180, 180, dtype=torch.bool)
    mask[60:90, 72:102] = False
    found = resize_points(depth, (180, 180), mask)[2]
    torch.testing.assert_close(found, torch.where(mask, PERSON, WALL), rtol=0, atol=1e-5)


@pytest.mark.parametrize("inside", [True, False])
def test_mask_of_one_side_only_changes_nothing(inside):
    points = sphere().points
    mask = torch.full((300, 250), inside)
    torch.testing.assert_close(resize_points(points, (300, 250), mask), resize_points(points, (300, 250)))


def test_a_mask_smaller_than_a_pixel_of_the_map_still_gives_points():
    mask = torch.zeros(120, 160, dtype=torch.bool)
    mask[50, 50] = True
    assert resize_points(step(30, 40, 16.5), (120, 160), mask).isfinite().all()


def test_enlarging_smooths_noise_as_the_authors_do():
    view = plane(120, 100, focal_length=150.0)
    noisy = view.points + 0.003 * torch.randn(view.points.shape, generator=torch.Generator().manual_seed(0))
    blurred = noisy[None]
    for _ in range(4):
        blurred = gaussian_blur(blurred, [3, 3], [0.8, 0.8])
    expected = F.interpolate(blurred, (240, 200), mode="bilinear")[0]
    torch.testing.assert_close(resize_points(noisy, (240, 200)), expected, rtol=0, atol=1e-5)
    unsmoothed = F.interpolate(noisy[None], (60, 50), mode="bilinear")[0]
    assert torch.equal(resize_points(noisy, (60, 50)), unsmoothed)


def test_smoothing_stops_where_depth_jumps():
    small = step(30, 40, edge=16.0)
    depth = resize_points(small, (60, 80))[2]
    mixed = (depth > PERSON + 0.01) & (depth < WALL - 0.01)
    assert mixed[0].sum() <= 2  # bilinear alone


def test_depth_of_an_enlarged_sphere_is_right_within_a_thousandth():
    small, large = sphere(240, 200, 300.0), sphere(480, 400, 600.0)
    # Pixel centres: a frame of twice the size sees the same scene with its centre at the same place.
    found = resize_points(small.points, (480, 400), large.hit)
    inner = large.hit & (large.normals[2] > 0.7)
    error = (found[2] / large.points[2] - 1).abs()[inner]
    assert error.max() < 1e-3


def test_extending_continues_a_slope_by_its_nearest_values():
    values = torch.arange(16.0).expand(1, 8, 16)
    known = torch.zeros(8, 16, dtype=torch.bool)
    known[:, :6] = True
    filled = extend(values, known)
    assert torch.equal(filled[:, known], values[:, known])
    assert filled[0, :, 6].min() > 3
    assert filled.max() <= 5
    assert extend(values, torch.zeros_like(known)) is values


def test_estimator_keeps_each_side_of_the_mask_to_itself():
    torch.manual_seed(0)
    runner = Estimator(build(tiny_config("pointmap"), "pointmap").eval(), "cpu")
    frames = list(torch.rand(3, 3, 90, 70, generator=torch.Generator().manual_seed(0)))
    masks = torch.zeros(3, 90, 70, dtype=torch.bool)
    masks[1, :, :37] = True
    masks[2] = True
    plain, masked = (
        [found for batch in runner.predict(frames, masks=given, batch_size=2) for found in batch]
        for given in (None, masks)
    )
    spread = plain[0].points.std()
    torch.testing.assert_close(masked[0].points, plain[0].points)
    torch.testing.assert_close(masked[2].points, plain[2].points)
    differs = (masked[1].points - plain[1].points).abs().amax(dim=(0, 1)) > 1e-3 * spread
    columns = differs.nonzero().flatten()
    assert len(columns)
    assert columns.min() >= 34
    assert columns.max() <= 40


def test_masks_are_for_pointmaps_only():
    runner = Estimator(build(tiny_config("normal"), "normal"), "cpu")
    with pytest.raises(ValueError, match="Masks are for pointmaps"):
        next(runner.predict([torch.rand(3, 20, 20)], masks=[torch.ones(20, 20)]))
