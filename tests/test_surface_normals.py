"""Normals of analytic surfaces, and where surfaces are torn."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from sapiens2_core.crops import letterbox
from sapiens2_core.image_processor import Sapiens2ImageProcessor
from sapiens2_core.surface_normals import depth_edges, face_camera, normals_from_points
from tests.analytic_scenes import box, plane, sphere


def degrees_between(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """(H, W) angles between two normal maps (3, H, W)."""
    return torch.rad2deg(torch.atan2(torch.linalg.cross(one, other, dim=0).norm(dim=0), (one * other).sum(0)))


@pytest.mark.parametrize("scene", [sphere, plane, box])
def test_normals_are_those_of_the_surface_within_a_degree(scene):
    view = scene()
    angles = degrees_between(normals_from_points(view.points, view.hit), view.normals)[view.hit]
    assert angles.mean() < 1
    assert angles.quantile(0.95) < 1


def test_normals_at_a_silhouette_know_nothing_of_the_wall_behind():
    view = sphere()
    inner = -F.max_pool2d(-view.hit[None].float(), 3, 1, 1)[0] > 0
    rim = view.hit & ~inner
    masked = degrees_between(normals_from_points(view.points, view.hit), view.normals)[rim]
    unmasked = degrees_between(normals_from_points(view.points), view.normals)[rim]
    careless = degrees_between(normals_from_points(view.points, tolerance=torch.inf), view.normals)[rim]
    assert masked.mean() < 5  # one-sided differences, where a sphere bends most
    assert torch.equal(unmasked, masked)  # told by depth alone
    assert careless.mean() > 10


def test_normals_are_zero_outside_and_alone_and_then_face_the_camera():
    points = torch.ones(3, 4, 5)
    points[2, 1, 1] = 3.0
    inside = torch.ones(4, 5, dtype=torch.bool)
    inside[3] = False
    normals = normals_from_points(points, inside)
    assert not normals[:, 3].any()
    assert not normals[:, 1, 1].any()
    facing = face_camera(normals, points)
    expected = torch.tensor([-1.0, 1.0, 3.0]) / 11**0.5  # (1, 1, 3) seen from the origin, in OpenGL's axes
    torch.testing.assert_close(facing[:, 1, 1], expected)


def test_edges_are_where_depth_spans_more_than_the_tolerance_of_itself():
    depth = torch.full((5, 8), 2.0)
    depth[:, 4:] = 2.1
    assert depth_edges(depth, 0.04).any(dim=0).tolist() == [False, False, False, True, True, False, False, False]
    assert not depth_edges(depth, 0.06).any()
    inside = torch.zeros(5, 8, dtype=torch.bool)
    inside[:, :4] = True
    assert not depth_edges(depth, 0.04, inside).any()


@pytest.mark.parametrize("size", [(240, 200), (480, 400), (150, 260)])
def test_normal_and_pointmap_estimates_of_one_scene_agree_within_a_degree(size):
    """The two tasks' ways out, fed with what perfect networks would give, on frames that are enlarged and shrunk."""
    height, width = native = (256, 192)
    lying = letterbox(size, native)
    view = sphere(lying.height, lying.width, focal_length=1.5 * lying.width)
    bottom, right = height - lying.height - lying.top, width - lying.width - lying.left
    pad = (lying.left, right, lying.top, bottom)
    outputs = SimpleNamespace(
        normals=F.pad(view.normals, pad)[None], pointmaps=F.pad(view.points, pad)[None], scales=None
    )
    processor = Sapiens2ImageProcessor(size={"height": height, "width": width}, do_pad=True)
    normals = processor.post_process_normal_estimation(outputs, source_sizes=[size])[0]["normals"]
    points = processor.post_process_pointmap_estimation(outputs, source_sizes=[size])[0]["pointmap"]
    mask = F.interpolate(view.hit[None, None].float(), size, mode="bilinear")[0, 0] == 1
    angles = degrees_between(F.normalize(normals, dim=0), normals_from_points(points, mask))[mask]
    assert mask.float().mean() > 0.2
    assert angles.mean() < 1
    assert angles.median() < 0.5
