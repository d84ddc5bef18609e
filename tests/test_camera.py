"""Cameras of analytic scenes, and what 3D viewers make of them."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import pytest
import torch

from sapiens2_core.camera import check_focal_length, field_of_view, fit_focal_length, viewer_camera
from tests.analytic_scenes import box, plane, rays, sphere


def test_field_of_view_of_known_lenses():
    assert field_of_view(18.0, 36) == pytest.approx(90)
    assert field_of_view(50.0, 36) == pytest.approx(39.598, abs=1e-3)  # full frame, 50 mm


@pytest.mark.parametrize("scene", [sphere, plane, box])
@pytest.mark.parametrize("focal_length", [150.0, 300.0, 1200.0])
def test_fitted_focal_length_is_the_scenes_within_half_a_percent(scene, focal_length):
    view = scene(focal_length=focal_length)
    assert fit_focal_length(view.points) == pytest.approx(focal_length, rel=1e-4)
    noise = 0.003 * torch.randn(view.points.shape, generator=torch.Generator().manual_seed(0))
    noisy = view.points * (1 + noise)
    assert fit_focal_length(noisy, view.hit) == pytest.approx(focal_length, rel=5e-3)


def test_fit_is_not_moved_by_a_background_that_obeys_no_camera():
    view = sphere()
    generator = torch.Generator().manual_seed(1)
    height, width = view.hit.shape
    wild = torch.rand(height, width, generator=generator) < 0.4
    noise = 3 * torch.randn(3, height, width, generator=generator)
    noise[2] = noise[2].abs() + 0.1
    assert fit_focal_length(torch.where(wild, noise, view.points)) == pytest.approx(300, rel=5e-3)


def test_fit_finds_the_focal_length_of_a_cropped_photo():
    """There the principal point is not the frame's centre."""
    view = plane()
    assert fit_focal_length(view.points[:, :150, 60:]) == pytest.approx(300, rel=1e-4)


def test_fit_says_nothing_where_points_do_not_tell():
    points = rays(20, 30, 100.0).float()
    assert fit_focal_length(points, torch.zeros(20, 30, dtype=torch.bool)) is None
    assert fit_focal_length(torch.ones(3, 20, 30)) is None  # all in one direction
    assert fit_focal_length(points * torch.tensor([-1.0, -1.0, 1.0])[:, None, None]) is None  # mirrored
    assert fit_focal_length(-points) is None  # all behind the camera


def test_a_warning_names_both_focal_lengths_if_they_differ_by_more_than_a_tenth(caplog):
    pointmap = sphere().pointmap()
    with caplog.at_level(logging.WARNING, "sapiens2"):
        assert check_focal_length(pointmap, 0) == pytest.approx(300, rel=1e-4)
        check_focal_length(replace(pointmap, focal_lengths=torch.tensor([280.0])), 0)
        assert not caplog.records
        check_focal_length(replace(pointmap, focal_lengths=torch.tensor([360.0])), 0)
    assert "360 pixels" in caplog.text
    assert "300" in caplog.text


@pytest.mark.parametrize("focal_length", [150.0, 300.0, 900.0])
def test_viewers_camera_sees_points_at_their_pixels(focal_length):
    """As three.js projects: vertical field of view, zoom, looking from position at target with y up."""
    view = box(focal_length=focal_length)
    height, width = view.hit.shape
    camera = viewer_camera(focal_length, height, width, distance=3.0)
    assert camera["position"] == {"x": 0, "y": 0, "z": 0}
    assert camera["target"] == {"x": 0, "y": 0, "z": -3.0}
    x, y, z = view.points * torch.tensor([1.0, -1.0, -1.0])[:, None, None]
    top = math.tan(math.radians(camera["fov"]) / 2) / camera["zoom"]
    column = (x / -z / (top * camera["aspect"]) + 1) / 2 * width - 0.5
    row = (1 - y / -z / top) / 2 * height - 0.5
    torch.testing.assert_close(column, torch.arange(width).float().expand(height, -1), rtol=0, atol=1e-2)
    torch.testing.assert_close(row, torch.arange(height).float()[:, None].expand(-1, width), rtol=0, atol=1e-2)
    assert camera["near"] < view.points[2].min()
    assert camera["far"] > view.points[2].max()
