"""Depth, cameras, normals, surfaces, points and files of people whose every point is known."""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core import files
from sapiens2_core.camera import check_focal_length, fit_focal_length, viewer_camera
from sapiens2_core.config import tiny_config
from sapiens2_core.crops import letterbox
from sapiens2_core.demo import Render, Scene, random_scene, render
from sapiens2_core.estimators import Sapiens2NormalEstimatorOutput, Sapiens2PointmapEstimatorOutput, build
from sapiens2_core.geometry import depth_picture, metric_depth
from sapiens2_core.inference import Estimator
from sapiens2_core.mesh import grid_mesh
from sapiens2_core.point_cloud import ply_bytes
from sapiens2_core.results import FramePointmap, Pointmap
from sapiens2_core.steady_scale import scene_cuts, steady_pointmap
from sapiens2_core.surface_normals import normals_from_points, to_gltf_axes
from tests.test_surface_normals import degrees_between

SIZE, NATIVE = (512, 384), (256, 192)
#: Seed, persons, framing: from head to foot, in front of each other, close, a crowd.
SCENES = {
    "whole": (11, 1, "ground"),
    "two": (5, 2, "hip"),
    "portrait": (7, 1, "shoulder"),
    "three": (404, 3, "ground"),
}
#: Those that stand on no floor, so that all around a person lies far behind.
CUT = ("two", "portrait")


def draw(name: str, size: tuple[int, int]) -> tuple[Scene, Render]:
    seed, persons, framing = SCENES[name]
    scene = random_scene(seed, SIZE, persons=persons, framing=framing).resized(*size)
    return scene, render(scene, 1)


@pytest.fixture(scope="module")
def drawn():
    return {name: draw(name, SIZE) for name in SCENES}


@pytest.fixture(scope="module", params=SCENES)
def scene(request, drawn):
    return drawn[request.param]


def pointmap_of(*pictures: Render, masked: bool = True) -> Pointmap:
    """A clip as a network gives it that never errs."""
    focal_lengths = torch.tensor([picture.focal_length for picture in pictures])
    stacked = [torch.stack([getattr(p, name) for p in pictures]) for name in ("points", "image", "mask")]
    points, images, mask = stacked
    return Pointmap(points, NATIVE[1] / focal_lengths, focal_lengths, images, mask if masked else None)


def as_seen_by_a_network(scene: Scene) -> tuple[Render, Callable[[torch.Tensor], torch.Tensor]]:
    """A scene at the size at which it lies in the network's input, and what puts a map (3, h, w) of it there."""
    place = letterbox((scene.height, scene.width), NATIVE)
    seen = render(scene.resized(place.height, place.width), 1)

    def pad(values: torch.Tensor) -> torch.Tensor:
        canvas = torch.full((1, 3, *NATIVE), 7.0)  # which must not come into results
        canvas[0, :, place.top : place.top + place.height, place.left : place.left + place.width] = values
        return canvas

    return seen, pad


def run(task: str, outputs, picture: Render, **more):
    """The way out from a network that gives these outputs."""
    network = build(tiny_config(task, NATIVE), task)
    network.forward = lambda pixel_values: outputs
    ((frame,),) = Estimator(network, "cpu").predict([picture.image], **more)
    return frame


def estimate(scene: Scene, picture: Render) -> FramePointmap:
    """From a network that gives the truth in canonical form: points times scale."""
    seen, pad = as_seen_by_a_network(scene)
    scale = NATIVE[1] / seen.focal_length
    outputs = Sapiens2PointmapEstimatorOutput(pointmaps=pad(seen.points * scale), scales=torch.tensor([[scale]]))
    return run("pointmap", outputs, picture, masks=[picture.mask])


class TestWayOut:
    """Frames as large as the network's input, larger, wider and smaller."""

    @pytest.mark.parametrize("size", [NATIVE, (512, 384), (300, 450), (128, 96)], ids="{0[0]}x{0[1]}".format)
    @pytest.mark.parametrize("name", CUT)
    def test_points_and_focal_length_are_the_scenes(self, name, size):
        scene, picture = draw(name, size)
        found = estimate(scene, picture)
        assert found.focal_length == pytest.approx(scene.focal_length, rel=1e-6)
        assert fit_focal_length(found.points, picture.mask) == pytest.approx(scene.focal_length, rel=5e-3)
        error = (found.points[2] / picture.points[2] - 1).abs()
        assert error.median() < 1e-3
        on_person = error[picture.mask]
        assert on_person.median() < 1e-3
        assert on_person.quantile(0.9) < 0.02
        assert (on_person > 0.1).float().mean() < 0.02  # room that shows between fingers that the map can't tell apart
        if size == NATIVE:
            assert error.max() < 1e-5

    @pytest.mark.parametrize("size", [NATIVE, (512, 384), (300, 450)], ids="{0[0]}x{0[1]}".format)
    def test_normals_of_both_tasks_are_the_scenes_and_each_other_s(self, size):
        """In degrees over the person; where a frame is enlarged, neither knows what bends within a pixel of its map."""
        scene, picture = draw("portrait", size)
        seen, pad = as_seen_by_a_network(scene)
        direct = run("normal", Sapiens2NormalEstimatorOutput(normals=pad(seen.normals)), picture)
        measured = normals_from_points(estimate(scene, picture).points, picture.mask)
        torch.testing.assert_close(direct.norm(dim=0), torch.ones(size))
        for one, other, median, mean in (
            (direct, picture.normals, 1, 6),
            (measured, picture.normals, 2, 15),
            (direct, measured, 2, 15),
        ):
            angles = degrees_between(one, other)[picture.mask]
            assert angles.median() < median
            assert angles.mean() < mean

    def test_a_mask_keeps_the_room_out_of_people_in_small_frames(self):
        scene, picture = draw("portrait", (128, 96))
        depth = estimate(scene, picture).points[2]
        behind = picture.points[2][~picture.mask].quantile(0.02)
        assert depth[picture.mask].max() < (picture.points[2][picture.mask].max() + behind) / 2


class TestCamera:
    def test_fitted_focal_length_is_the_camera_s(self, scene):
        _, picture = scene
        wanted = picture.focal_length
        generator = torch.Generator().manual_seed(0)
        noisy = picture.points * (1 + 0.003 * torch.randn(picture.points.shape, generator=generator))
        assert fit_focal_length(picture.points) == pytest.approx(wanted, rel=1e-4)
        assert fit_focal_length(noisy, picture.mask) == pytest.approx(wanted, rel=5e-3)

    def test_warning_is_for_scales_that_contradict_the_points(self, scene, caplog):
        pointmap = pointmap_of(scene[1])
        with caplog.at_level(logging.WARNING, "sapiens2"):
            check_focal_length(pointmap, 0)
            assert not caplog.records
            check_focal_length(replace(pointmap, focal_lengths=pointmap.focal_lengths * 1.15), 0)
            assert len(caplog.records) == 1

    def test_viewer_sees_keypoints_at_their_pixels(self, scene):
        """Joints in space, projected as three.js does: zoom and vertical field of view, y up, looking along -z."""
        world, picture = scene
        camera = viewer_camera(picture.focal_length, *SIZE, distance=2.0)
        joints = np.concatenate([figure.keypoints for figure in world.people]) * [1, -1, -1]
        top = math.tan(math.radians(camera["fov"]) / 2) / camera["zoom"]
        columns = (joints[:, 0] / -joints[:, 2] / (top * camera["aspect"]) + 1) / 2 * SIZE[1] - 0.5
        rows = (1 - joints[:, 1] / -joints[:, 2] / top) / 2 * SIZE[0] - 0.5
        wanted = picture.keypoints.flatten(0, 1).numpy()
        np.testing.assert_allclose(np.stack([columns, rows], axis=1), wanted, rtol=1e-4, atol=0.01)


class TestDepth:
    def test_nearer_is_whiter(self, scene):
        pointmap = pointmap_of(scene[1])
        depth, mask = metric_depth(pointmap)[0, 0], pointmap.mask[0]
        picture, near, far = depth_picture(pointmap)
        low, high = np.percentile(depth[mask].numpy(), [1, 99])
        assert (near.item(), far.item()) == pytest.approx((low, high), rel=1e-6)
        shades = picture[0, 0][mask][depth[mask].argsort()]
        assert (shades.diff() <= 0).all()
        assert (shades[0], shades[-1]) == (1, 0)
        between = mask & (depth > low) & (depth < high)
        expected = (1 / depth - 1 / high) / (1 / low - 1 / high)
        torch.testing.assert_close(picture[0, 0][between], expected[between].float(), rtol=0, atol=1e-4)
        assert not picture[0, 0][~mask].any()

    def test_polarity_and_curve(self, scene):
        pointmap = pointmap_of(scene[1])
        depth, mask = pointmap.points[0, 2], pointmap.mask[0]
        picture, near, far = depth_picture(pointmap, near_is_white=False, curve="linear", background="keep")
        expected = ((depth - near) / (far - near)).clamp(0, 1)
        torch.testing.assert_close(picture[0, 0], expected, rtol=0, atol=1e-5)
        assert picture[0, 0][mask].mean() < picture[0, 0][~mask].mean()  # the room lies behind

    def test_room_is_darker_than_people_without_a_mask(self, drawn):
        for name in CUT:
            picture = drawn[name][1]
            shades = depth_picture(pointmap_of(picture, masked=False))[0][0, 0]
            assert shades[picture.mask].quantile(0.1) > shades[~picture.mask].median()


class TestNormals:
    def test_normals_of_the_points_are_the_surfaces(self, scene):
        """Hair, fingers and folds bend within a pixel; elsewhere it is a fraction of a degree."""
        _, picture = scene
        angles = degrees_between(normals_from_points(picture.points, picture.mask), picture.normals)
        angles = angles[picture.mask]
        assert angles.mean() < 5
        assert angles.median() < 0.5

    def test_they_are_better_the_finer_the_picture(self, drawn):
        means = []
        for picture in (draw("portrait", NATIVE)[1], drawn["portrait"][1], draw("portrait", (1024, 768))[1]):
            angles = degrees_between(normals_from_points(picture.points, picture.mask), picture.normals)
            means.append(float(angles[picture.mask].mean()))
        assert means[2] < means[1] / 1.5 < means[0] / 2
        assert means[2] < 1


class TestMesh:
    @staticmethod
    def place(mesh) -> tuple[torch.Tensor, torch.Tensor]:
        """Row and column of each vertex."""
        column, row = (mesh.uvs * torch.tensor([SIZE[1], SIZE[0]]) - 0.5).round().long().unbind(1)
        return row, column

    @pytest.mark.parametrize("stride", [1, 3])
    def test_no_triangle_spans_two_people_or_a_person_and_the_room(self, drawn, stride):
        for name in CUT:
            picture = drawn[name][1]
            everywhere = torch.ones_like(picture.mask)
            mesh = grid_mesh(picture.points, everywhere, stride=stride)
            owners = picture.persons[self.place(mesh)][mesh.faces]
            depth = -mesh.vertices[..., 2][mesh.faces]
            spans = owners.amax(1) != owners.amin(1)
            jumps = depth.amax(1) / depth.amin(1) - 1 > 0.1 * stride
            assert not (spans & jumps).any()
            assert len(owners.unique()) == SCENES[name][1] + 1  # each person is there, and the room
            sheets = grid_mesh(picture.points, everywhere, edge_tolerance=0, stride=stride)
            depth = -sheets.vertices[..., 2][sheets.faces]
            assert (depth.amax(1) / depth.amin(1) - 1 > 0.1 * stride).sum() > 50  # what was torn

    def test_with_a_mask_it_is_the_person_alone(self, scene):
        _, picture = scene
        mesh = grid_mesh(picture.points, picture.mask)
        row, column = self.place(mesh)
        assert picture.mask[row, column].all()
        torch.testing.assert_close(mesh.vertices, to_gltf_axes(picture.points[:, row, column]).T, rtol=0, atol=0)
        assert len(mesh.vertices) > 0.5 * picture.mask.sum()

    def test_every_face_looks_at_the_camera_and_normals_are_the_surfaces(self, scene):
        _, picture = scene
        mesh = grid_mesh(picture.points, torch.ones_like(picture.mask))
        a, b, c = mesh.vertices[mesh.faces].unbind(1)
        facing = torch.linalg.cross((b - a).double(), (c - a).double())
        assert ((facing * -a).sum(1) > 0).all()
        row, column = self.place(mesh)
        angles = degrees_between(mesh.normals.T, picture.normals[:, row, column])
        assert angles.median() < 0.5
        assert angles.mean() < 2
        frontal = picture.normals[2, row, column] > 0.9
        assert (mesh.normals[frontal, 2] > 0).float().mean() > 0.999


def test_point_cloud_lies_on_its_pixels_in_their_colours(scene):
    plyfile = pytest.importorskip("plyfile")
    _, picture = scene
    points = plyfile.PlyData.read(io.BytesIO(ply_bytes(picture.points, picture.image, picture.mask)))["vertex"].data
    x, y, z = (points[axis].astype(np.float64) for axis in "xyz")
    column = x / -z * picture.focal_length + (SIZE[1] - 1) / 2
    row = -y / -z * picture.focal_length + (SIZE[0] - 1) / 2
    rows, columns = picture.mask.nonzero(as_tuple=True)
    np.testing.assert_allclose(column, columns, atol=0.01)
    np.testing.assert_allclose(row, rows, atol=0.01)
    colours = np.stack([points[name] for name in ("red", "green", "blue")])
    np.testing.assert_allclose(colours / 255, picture.image[:, rows, columns], atol=0.5 / 255 + 1e-6)
    normals = torch.from_numpy(np.stack([points[name] for name in ("nx", "ny", "nz")]))
    assert degrees_between(normals, picture.normals[:, rows, columns]).mean() < 5


@pytest.fixture(scope="module")
def dolly():
    """A clip of a camera that moves back by 10 cm a frame."""
    start = random_scene(7, (64, 48), persons=1, framing="shoulder")
    return [render(start.seen_from_farther(0.1 * frame), 1) for frame in range(12)]


class TestSteadyScale:
    def jumping(self, pictures: list[Render]) -> Pointmap:
        """The clip as the network gives it: canonical points that hold steady, over a scale that doesn't."""
        truth = pointmap_of(*pictures)
        noise = torch.exp(0.08 * torch.randn(len(pictures), generator=torch.Generator().manual_seed(2)))
        noise[4] *= 2.2
        scales = truth.scales * noise
        points = truth.points * (truth.scales / scales)[:, None, None, None]
        return replace(truth, points=points, scales=scales, focal_lengths=truth.focal_lengths / noise)

    def change(self, pointmap: Pointmap) -> torch.Tensor:
        depth = pointmap.points[:, 2]
        return (depth[1:] / depth[:-1] - 1).abs().mean()

    @pytest.mark.parametrize("mode", ["clip", "running"])
    def test_a_still_scene_changes_ten_times_less(self, dolly, mode):
        clip = self.jumping(dolly[:1] * len(dolly))
        before = self.change(clip)
        steady = steady_pointmap(clip, mode)
        assert before > 0.1
        assert self.change(steady) < before / 10
        torch.testing.assert_close(steady.points[0], dolly[0].points, rtol=0.06, atol=0.01)

    @pytest.mark.parametrize("mode", ["clip", "running"])
    def test_a_camera_that_moves_back_sees_depth_grow_in_proportion(self, dolly, mode):
        assert scene_cuts(torch.stack([picture.image for picture in dolly])) == []
        steady = steady_pointmap(self.jumping(dolly), mode)
        size = (steady.points[:, 2] / torch.stack([picture.points[2] for picture in dolly])).flatten(1).mean(1)
        torch.testing.assert_close(size, size[:1].expand_as(size), rtol=0.02 if mode == "running" else 1e-5, atol=0)
        assert size[0] == pytest.approx(1, rel=0.06)
        assert steady.focal_lengths.tolist() == pytest.approx((dolly[0].focal_length * size).tolist(), rel=1e-4)


class TestFiles:
    def test_depth_comes_back(self, scene, tmp_path):
        depth = scene[1].points[2]
        files.write_depth_png(tmp_path / "d.png", depth)
        with Image.open(tmp_path / "d.png") as image:
            assert image.mode == "I;16"
            assert np.abs(np.array(image) / 1000 - depth.numpy()).max() <= 0.0005 + 1e-6
        files.write_npy(tmp_path / "d.npy", depth)
        assert np.array_equal(np.load(tmp_path / "d.npy"), depth.numpy())
        av = pytest.importorskip("av")
        files.write_exr(tmp_path / "d.exr", depth)
        with av.open(str(tmp_path / "d.exr")) as container:
            assert np.array_equal(next(container.decode(video=0)).to_ndarray(), depth.numpy())

    def test_points_come_back_and_fall_on_their_pixels_by_the_intrinsics(self, scene, tmp_path):
        pointmap = pointmap_of(scene[1])
        points = pointmap.points[0].movedim(0, -1)
        files.write_npz(tmp_path / "p.npz", points=points, intrinsics=pointmap.intrinsics[0])
        with np.load(tmp_path / "p.npz") as data:
            assert np.array_equal(data["points"], points.numpy())
            pixels = data["points"].astype(np.float64) @ data["intrinsics"].astype(np.float64).T
        places = pixels[..., :2] / pixels[..., 2:]
        expected = np.stack(np.meshgrid(np.arange(SIZE[1]), np.arange(SIZE[0])), axis=-1)
        np.testing.assert_allclose(places, expected, atol=0.01)
