"""PLY files, read by an independent library."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from sapiens2_core.point_cloud import PLY_POINT, ply_bytes
from tests.analytic_scenes import sphere


def read(data: bytes) -> np.ndarray:
    """The points, by the layout that the header states."""
    header, body = data.split(b"end_header\n", 1)
    lines = header.decode().splitlines()
    assert lines[:2] == ["ply", "format binary_little_endian 1.0"]
    count = next(int(line.split()[2]) for line in lines if line.startswith("element vertex"))
    return np.frombuffer(body, PLY_POINT, count)


def test_points_normals_and_colours_are_the_scenes():
    view = sphere()
    image = (view.normals + 1) / 2
    points = read(ply_bytes(view.points, image, view.hit))
    assert len(points) == int(view.hit.sum())
    places = np.stack([points[axis] for axis in "xyz"], axis=1)
    np.testing.assert_array_equal(places, view.points[:, view.hit].T.numpy() * [1, -1, -1])
    center = np.array([0.1, 0.05, -3.0])
    radii = np.linalg.norm(places - center, axis=1)
    np.testing.assert_allclose(radii, 0.8, rtol=1e-3)
    normals = np.stack([points[name] for name in ("nx", "ny", "nz")], axis=1)
    cosines = (normals * (places - center) / 0.8).sum(1)
    assert np.quantile(np.degrees(np.arccos(cosines.clip(-1, 1))), 0.95) < 1
    colours = np.stack([points[name] for name in ("red", "green", "blue")], axis=1)
    np.testing.assert_allclose(colours / 255, image[:, view.hit].T.numpy(), atol=0.5 / 255 + 1e-6)


def test_plyfile_reads_it():
    plyfile = pytest.importorskip("plyfile")
    view = sphere()
    data = ply_bytes(view.points, view.normals / 2 + 0.5, view.hit, stride=2)
    vertices = plyfile.PlyData.read(io.BytesIO(data))["vertex"]
    assert vertices.data.dtype.names == PLY_POINT.names
    assert vertices.data.tobytes() == read(data).tobytes()
    assert len(vertices.data) == int(view.hit[::2, ::2].sum())


def test_stride_takes_every_so_many_rows_and_columns():
    view = sphere()
    image = view.normals / 2 + 0.5
    everything, some = (read(ply_bytes(view.points, image, view.hit, stride)) for stride in (1, 3))
    assert set(some.tolist()) <= set(everything.tolist())
    assert len(some) == int(view.hit[::3, ::3].sum())


def test_no_points_is_an_empty_file():
    view = sphere()
    assert len(read(ply_bytes(view.points, view.normals, torch.zeros_like(view.hit)))) == 0
