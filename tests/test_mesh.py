"""Meshes of analytic surfaces."""

from __future__ import annotations

import math

import pytest
import torch

from sapiens2_core.mesh import grid_mesh
from tests.analytic_scenes import box, plane, sphere


def face_normals(mesh) -> torch.Tensor:
    """(M, 3), as long as twice the faces' areas."""
    a, b, c = mesh.vertices[mesh.faces].unbind(1)
    return torch.linalg.cross(b - a, c - a)


def area(mesh) -> float:
    return float(face_normals(mesh).norm(dim=1).sum() / 2)


def test_area_of_a_spheres_front_cap_is_right_within_2_percent():
    view = sphere(1024, 768, focal_length=1200.0, center=(0.0, 0.0, 3.0))
    cap = view.hit & (view.points[2] < 3.0 - 0.8 * math.cos(math.radians(60)))
    expected = 2 * math.pi * 0.8**2 * (1 - math.cos(math.radians(60)))
    assert area(grid_mesh(view.points, cap)) == pytest.approx(expected, rel=0.02)


def test_faces_are_turned_to_the_camera_in_gltf_axes():
    """Counter-clockwise faces, whose normals look at +z and along the vertices' own."""
    view = sphere()
    mesh = grid_mesh(view.points, view.hit)
    assert (mesh.vertices[:, 2] < 0).all()
    top = mesh.vertices[mesh.uvs[:, 1].argmin()]
    assert top[1] > 0.5
    faces = face_normals(mesh)
    towards_camera = -mesh.vertices[mesh.faces[:, 0]]
    assert ((faces * towards_camera).sum(1) > 0).all()
    assert ((faces[:, None] * mesh.normals[mesh.faces]).sum(2) > 0).all()
    front = mesh.normals[(mesh.vertices[:, :2] - torch.tensor([0.1, 0.05])).norm(dim=1).argmin()]
    assert front[2] > 0.99


def test_vertex_normals_are_the_surfaces():
    view = box()
    mesh = grid_mesh(view.points, view.hit)
    column, row = (mesh.uvs * torch.tensor([200.0, 240.0]) - 0.5).round().long().unbind(1)
    cosines = (mesh.normals * view.normals[:, row, column].T).sum(1)
    assert torch.rad2deg(cosines.clamp(-1, 1).acos()).quantile(0.95) < 1
    torch.testing.assert_close(mesh.normals.norm(dim=1), torch.ones(len(mesh.normals)))


def test_uvs_lie_on_the_middle_of_pixels():
    view = plane()
    mesh = grid_mesh(view.points, view.hit, stride=7)
    pixels = mesh.uvs * torch.tensor([200.0, 240.0]) - 0.5
    torch.testing.assert_close(pixels, pixels.round(), rtol=0, atol=1e-3)
    column, row = pixels.round().long().unbind(1)
    expected = view.points[:, row, column].T * torch.tensor([1.0, -1.0, -1.0])
    torch.testing.assert_close(mesh.vertices, expected)


@pytest.mark.parametrize("stride", [1, 2, 4, 8])
def test_no_sheet_hangs_between_a_person_and_the_wall(stride):
    view = sphere()
    everywhere = torch.ones_like(view.hit)
    torn = grid_mesh(view.points, everywhere, stride=stride)
    depths = -torn.vertices[torn.faces][..., 2]
    assert (depths.amax(1) - depths.amin(1)).max() < 0.2 * stride
    assert (depths.amin(1) > 7.9).any()  # the wall is there
    assert (depths.amax(1) < 3).any()  # and the sphere
    whole = grid_mesh(view.points, everywhere, edge_tolerance=0, stride=stride)
    assert len(whole.faces) > len(torn.faces)


def test_small_islands_are_dropped_and_large_ones_kept():
    view = plane()
    inside = torch.zeros_like(view.hit)
    inside[10:110, 10:110] = True
    inside[150:190, 20:60] = True
    inside[200:204, 150:154] = True
    mesh = grid_mesh(view.points, inside)
    assert len(mesh.faces) == 2 * (99**2 + 39**2)
    assert mesh.faces.unique().tolist() == list(range(len(mesh.vertices)))  # and no vertex is left over


@pytest.mark.parametrize(("height", "width", "stride"), [(1, 1, 1), (1, 9, 1), (3, 9, 3), (4, 4, 8)])
def test_too_small_a_grid_is_an_empty_mesh(height, width, stride):
    mesh = grid_mesh(torch.ones(3, height, width), torch.ones(height, width, dtype=torch.bool), stride=stride)
    assert mesh.faces.shape == (0, 3)
    assert mesh.vertices.shape == mesh.normals.shape == (0, 3)
    assert mesh.uvs.shape == (0, 2)


def test_mask_that_leaves_nothing_is_an_empty_mesh():
    view = plane()
    mesh = grid_mesh(view.points, torch.zeros_like(view.hit))
    assert len(mesh.faces) == len(mesh.vertices) == 0
