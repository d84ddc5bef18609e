"""Depth, meshes, points, cameras and files of known scenes, made by the pack's nodes and taken by ComfyUI's own."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from sapiens2_core.geometry import depth_picture
from sapiens2_core.mesh import grid_mesh
from sapiens2_core.point_cloud import ply_bytes
from sapiens2_core.render import normals_to_rgb
from sapiens2_core.results import Pointmap
from sapiens2_core.steady_scale import steady_pointmap
from tests.analytic_scenes import View, box, sphere
from tests.host.conftest import read_exr
from tests.host.test_nodes import DEPTH, FRAMES, Graph, core_results, pixels

FOCAL_LENGTH = 300.0
SCALES = ("per frame", "clip", "running")
MESH = {"frame": 0, "edge_tolerance": 0.04, "stride": 1, "texture": True}


def scenes() -> list[View]:
    return [sphere(focal_length=FOCAL_LENGTH), box(focal_length=FOCAL_LENGTH)]


@pytest.fixture(scope="module")
def pointmap(comfy):
    """Function that adds the clip of both scenes to a graph, with or without its mask."""
    views = scenes()
    clip = {
        "points": torch.stack([view.points for view in views]),
        "scales": torch.full((2,), 768 / FOCAL_LENGTH),
        "focal_lengths": torch.full((2,), FOCAL_LENGTH),
        "images": torch.stack([view.normals / 2 + 0.5 for view in views]),
        "mask": torch.stack([view.hit for view in views]),
    }
    for name, left_out in (("masked", set()), ("whole", {"mask"})):
        np.savez(comfy.base / "input" / f"{name}.npz", **{k: v.numpy() for k, v in clip.items() if k not in left_out})

    def add(graph: Graph, masked: bool = True) -> list:
        return [graph.add("AnalyticPointmap", file="masked.npz" if masked else "whole.npz"), 0]

    return add


def saved(comfy, output: dict) -> list[bytes]:
    """Files that Save 3D Model wrote."""
    return [comfy.saved(file).read_bytes() for file in output["3d"]]


def test_depth_of_a_known_scene_is_within_a_thousandth(comfy, pointmap):
    graph = Graph()
    node = graph.add("Sapiens2PointmapToDepth", pointmap=pointmap(graph), **DEPTH | {"scope": "frame"})
    near, far = graph.show_text([node, 2]), graph.show_text([node, 3])
    shown = graph.show([node, 0])
    saved_depth = graph.add(
        "SaveImageAdvanced", images=[node, 1], filename_prefix="metres",
        **{"format": "exr", "format.bit_depth": "32-bit float", "format.input_color_space": "linear"},
    )  # fmt: skip
    outputs = comfy.run(graph)
    views = scenes()
    depths = [view.points[2][view.hit] for view in views]
    lows, highs = zip(*(np.percentile(depth, [1, 99]) for depth in depths), strict=True)
    assert float(outputs[near]["text"][0]) == pytest.approx(min(lows), rel=1e-3)
    assert float(outputs[far]["text"][0]) == pytest.approx(max(highs), rel=1e-3)
    for picture, view, low, high in zip(comfy.pictures(outputs[shown]), views, lows, highs, strict=True):
        expected = ((1 / view.points[2] - 1 / high) / (1 / low - 1 / high)).clamp(0, 1) * view.hit * 255
        assert np.abs(picture - expected[..., None].numpy()).max() <= 2
    metres = read_exr(comfy.saved(outputs[saved_depth]["images"][0]))
    np.testing.assert_allclose(metres[..., 0], views[0].points[2].numpy(), rtol=1e-6)


def test_mesh_is_the_core_s_and_core_s_nodes_save_it(comfy, pointmap):
    graph = Graph()
    node = graph.add("Sapiens2PointmapToMesh", pointmap=pointmap(graph), **MESH)
    info = graph.show_text([graph.add("GetMeshInfo", mesh=[node, 0]), 1])
    as_mesh = graph.add("SaveGLB", mesh=[node, 0], filename_prefix="3d/mesh")
    as_file = graph.add("SaveGLB", mesh=[node, 1], filename_prefix="3d/file")
    outputs = comfy.run(graph)
    view = scenes()[0]
    expected = grid_mesh(view.points, view.hit)
    text = outputs[info]["text"][0]
    assert f"{len(expected.vertices):,}" in text
    assert f"{len(expected.faces):,}" in text
    assert all(word in text for word in ("uvs", "normals", "texture 240×200"))
    for (data,) in (saved(comfy, outputs[as_mesh]), saved(comfy, outputs[as_file])):
        assert data[:4] == b"glTF"
        assert len(data) > len(expected.vertices) * 32


def test_meshes_of_a_clip_are_a_padded_batch(comfy, pointmap):
    graph = Graph()
    node = graph.add("Sapiens2PointmapToMesh", pointmap=pointmap(graph), **MESH | {"frame": -1, "texture": False})
    info = graph.show_text([graph.add("GetMeshInfo", mesh=[node, 0]), 1])
    files = graph.add("SaveGLB", mesh=[node, 0], filename_prefix="3d/batch")
    outputs = comfy.run(graph)
    text = outputs[info]["text"][0]
    assert "Batch:      2 meshes" in text
    for view in scenes():
        assert f"{len(grid_mesh(view.points, view.hit).faces):,} faces" in text
    assert len(saved(comfy, outputs[files])) == 2


@pytest.mark.parametrize("frame", [0, 1])
def test_rendered_through_its_camera_a_mesh_is_the_photo_again(comfy, pointmap, frame):
    """ComfyUI's renderer, from our camera: the photo, where the surface is not torn."""
    graph = Graph()
    clip = pointmap(graph)
    mesh = graph.add("Sapiens2PointmapToMesh", pointmap=clip, **MESH | {"frame": frame})
    camera = graph.add("Sapiens2PointmapCamera", pointmap=clip, frame=frame)
    rendered = graph.add(
        "RenderMesh", mesh=[mesh, 0], mode="texture", width=400, height=480, background="#000000",
        camera_info=[camera, 0],
    )  # fmt: skip
    preview = graph.add("Preview3D", model_file=[mesh, 1], camera_info=[camera, 0])
    picture, mask = graph.show([rendered, 0]), graph.show_mask([rendered, 1])
    outputs = comfy.run(graph)
    view = scenes()[frame]
    # Twice as large, since that renderer's rays slip between triangles when they meet a vertex exactly.
    found = torch.from_numpy(comfy.pictures(outputs[picture])[0].copy()).movedim(-1, 0).float()
    covered = torch.from_numpy(comfy.pictures(outputs[mask])[0][..., 0] > 128)
    wanted = F.interpolate(view.normals[None] / 2 + 0.5, (480, 400), mode="bilinear")[0] * 255
    hit = F.interpolate(view.hit[None, None].float(), (480, 400))[0, 0] > 0
    assert (covered & ~hit).float().mean() < 0.002
    assert (covered & hit).sum() / hit.sum() > 0.9  # what is steeper than the tolerance is torn
    assert (found - wanted).abs()[:, covered & hit].quantile(0.95) < 3
    file, camera_info = outputs[preview]["result"][:2]
    assert (comfy.base / "output" / file).read_bytes()[:4] == b"glTF"
    assert camera_info["cameraType"] == "perspective"
    assert camera_info["position"] == {"x": 0, "y": 0, "z": 0}


def test_camera_is_the_scene_s_within_half_a_percent(comfy, pointmap):
    graph = Graph()
    node = graph.add("Sapiens2PointmapCamera", pointmap=pointmap(graph), frame=1)
    shown = [graph.show_text([node, output]) for output in (1, 2, 3, 4)]
    outputs = comfy.run(graph)
    found = [float(outputs[text]["text"][0]) for text in shown]
    degrees = [math.degrees(2 * math.atan(side / 2 / FOCAL_LENGTH)) for side in (200, 240)]
    assert found == pytest.approx([*degrees, FOCAL_LENGTH, FOCAL_LENGTH], rel=5e-3)


def test_point_cloud_is_the_core_s_and_core_s_nodes_take_it(comfy, pointmap):
    graph = Graph()
    node = graph.add("Sapiens2PointmapToPointCloud", pointmap=pointmap(graph), frame=1, stride=2)
    saving = graph.add("SaveGLB", mesh=[node, 0], filename_prefix="3d/points")
    preview = graph.add("PreviewPointCloud", model_3d=[node, 0], viewport_state={}, width=64, height=64)
    outputs = comfy.run(graph)
    view = scenes()[1]
    (data,) = saved(comfy, outputs[saving])
    assert data == ply_bytes(view.points, view.normals / 2 + 0.5, view.hit, stride=2)
    assert outputs[preview]["result"][0].endswith(".ply")


@pytest.mark.parametrize("background", ["keep", "black", "flat"])
def test_normals_of_a_known_scene_are_right_within_a_degree(comfy, pointmap, background):
    graph = Graph()
    node = graph.add("Sapiens2PointmapNormals", pointmap=pointmap(graph), convention="directx", background=background)
    shown = graph.show([node, 0])
    pictures = comfy.pictures(comfy.run(graph)[shown])
    outside = {"keep": (128, 128, 255), "black": (0, 0, 0), "flat": (128, 128, 255)}[background]  # the wall is flat
    for picture, view in zip(pictures, scenes(), strict=True):
        expected = (normals_to_rgb(view.normals, "directx") * 255).movedim(0, -1)[view.hit].numpy()
        steps = np.abs(picture[view.hit.numpy()] - expected).max(axis=1)
        assert np.quantile(steps, 0.95) < 127.5 * math.sin(math.radians(1)) + 1  # 8 bit round by one
        assert np.abs(picture[~view.hit.numpy()] - np.array(outside)).max() <= 1


def test_normals_background_without_a_mask_says_what_to_do(comfy, pointmap):
    graph = Graph()
    node = graph.add(
        "Sapiens2PointmapNormals", pointmap=pointmap(graph, masked=False), convention="opengl", background="flat"
    )
    graph.show([node, 0])
    with pytest.raises(comfy.GraphError, match="connect one to Estimate Pointmap"):
        comfy.run(graph)


@pytest.mark.parametrize(
    ("class_type", "widgets"),
    [
        ("Sapiens2PointmapToMesh", MESH | {"frame": 2}),
        ("Sapiens2PointmapToPointCloud", {"frame": 2, "stride": 1}),
        ("Sapiens2PointmapCamera", {"frame": 2}),
    ],
)
def test_frame_that_is_not_there_is_refused(comfy, pointmap, class_type, widgets):
    graph = Graph()
    node = graph.add(class_type, pointmap=pointmap(graph), **widgets)
    graph.show_text([node, 1 if class_type == "Sapiens2PointmapCamera" else 0])
    with pytest.raises(comfy.GraphError, match="has 2 frames: choose 0 to 1") as failed:
        comfy.run(graph)
    assert failed.value.node == node


def test_mask_that_leaves_nothing_is_refused_with_advice(comfy, pointmap):
    graph = Graph()
    black = graph.mask("black.png")
    node = graph.add("Sapiens2PointmapToMesh", pointmap=pointmap(graph), mask=black, **MESH)
    graph.show_text([node, 0])
    with pytest.raises(comfy.GraphError, match="no surface to make a mesh of"):
        comfy.run(graph)


@pytest.mark.parametrize("format", ["PNG 16 bit", "EXR", "NPY", "NPZ"])
def test_saved_files_lose_nothing(comfy, pointmap, format):
    graph = Graph()
    node = graph.add(
        "Sapiens2SavePointmap", pointmap=pointmap(graph), format=format, filename_prefix="depth/%width%x%height%"
    )
    text = graph.show_text([node, 0])
    first = comfy.run(graph)[text]["text"]
    graph[node]["inputs"]["filename_prefix"] = "depth/200x240"
    second = comfy.run(graph)[text]["text"]
    assert len({*first, *second}) == 4  # nothing is overwritten
    for path, view in zip(map(Path, first), scenes(), strict=True):
        assert path.parent == comfy.base / "output" / "depth"
        depth = view.points[2].numpy()
        if format == "PNG 16 bit":
            with Image.open(path) as image:
                assert np.abs(np.array(image) / 1000 - depth).max() <= 0.0005 + 1e-6
        elif format == "EXR":
            assert np.array_equal(read_exr(path), depth)
        elif format == "NPY":
            assert np.array_equal(np.load(path), depth)
        else:
            with np.load(path) as data:
                assert set(data) == {"points", "intrinsics", "scale", "mask"}
                assert np.array_equal(data["points"], view.points.movedim(0, -1).numpy())
                pixels = data["points"] @ data["intrinsics"].T
                assert np.allclose(pixels[..., 0] / pixels[..., 2], np.arange(200), atol=1e-2)
                assert np.array_equal(data["mask"], view.hit.numpy())
    assert not list((comfy.base / "output" / "depth").glob(".*"))


def test_batch_num_in_a_prefix_overwrites_nothing(comfy, pointmap):
    graph = Graph()
    node = graph.add("Sapiens2SavePointmap", pointmap=pointmap(graph), format="NPY", filename_prefix="%batch_num%_z")
    text = graph.show_text([node, 0])
    first = comfy.run(graph)[text]["text"]
    graph[node]["inputs"]["format"] = "EXR"  # or the run would be taken from the host's cache
    comfy.run(graph)
    graph[node]["inputs"]["format"] = "NPY"
    second = comfy.run(graph)[text]["text"]
    assert len({*first, *second}) == 4


def test_saving_outside_of_the_output_folder_is_refused(comfy, pointmap):
    graph = Graph()
    graph.add("Sapiens2SavePointmap", pointmap=pointmap(graph), format="NPY", filename_prefix="../../stolen/depth")
    with pytest.raises(comfy.GraphError, match="outside the output folder is not allowed"):
        comfy.run(graph)


class TestMoge:
    """ComfyUI's nodes for MoGe on the second output of Estimate Pointmap."""

    def geometry(self, graph: Graph, **more) -> list:
        node = graph.add(
            "Sapiens2EstimatePointmap", estimator=graph.load("tiny_pointmap.safetensors"), image=graph.clip(FRAMES),
            batch_size=2, **more,
        )  # fmt: skip
        return [node, 1]

    @pytest.mark.parametrize("output", ["depth", "depth_colored", "normal_opengl", "normal_directx", "mask"])
    def test_render(self, comfy, output):
        graph = Graph()
        shown = graph.show(
            [graph.add("MoGeRender", moge_geometry=self.geometry(graph, mask=graph.mask("mask.png")), output=output), 0]
        )
        pictures = np.stack(comfy.pictures(comfy.run(graph)[shown]))
        assert pictures.shape == (3, 256, 256, 3)
        assert pictures.std() > 1
        outside = pictures[:, 10:-10, :60]
        assert (outside == outside[0, 0, 0]).all()  # beyond the mask there is no surface

    def test_field_of_view(self, comfy):
        expected = core_results(comfy, "pointmap")
        graph = Graph()
        node = graph.add(
            "MoGeGeometryToFOV", moge_geometry=self.geometry(graph, scale="clip"), axis="vertical", unit="degrees"
        )
        fov, focal = graph.show_text([node, 0]), graph.show_text([node, 1])
        outputs = comfy.run(graph)
        scales = torch.tensor([frame.scale for frame in expected])
        focal_length = float(expected[0].focal_length * scales[0] / scales[scales > 0].log().quantile(0.5).exp())
        assert float(outputs[focal]["text"][0]) == pytest.approx(focal_length, rel=1e-3)
        degrees = math.degrees(2 * math.atan(128 / focal_length))
        assert float(outputs[fov]["text"][0]) == pytest.approx(degrees, rel=1e-3)

    def test_mesh(self, comfy):
        graph = Graph()
        node = graph.add(
            "MoGePointMapToMesh", moge_geometry=self.geometry(graph, mask=graph.mask("mask.png")), batch_index=1,
            decimation=1, discontinuity_threshold=0.0, texture=True,
        )  # fmt: skip
        saving = graph.add("SaveGLB", mesh=[node, 0], filename_prefix="3d/moge")
        (data,) = saved(comfy, comfy.run(graph)[saving])
        assert data[:4] == b"glTF"


def test_scale_over_a_clip_is_the_core_s(comfy):
    graph = Graph()
    near = []
    for scale in SCALES:
        node = graph.add(
            "Sapiens2EstimatePointmap", estimator=graph.load("tiny_pointmap.safetensors"), image=graph.clip(FRAMES),
            batch_size=2, scale=scale,
        )  # fmt: skip
        depth = graph.add("Sapiens2PointmapToDepth", pointmap=[node, 0], **DEPTH)
        near.append(graph.show_text([depth, 2]))
    outputs = comfy.run(graph)
    found = [float(outputs[node]["text"][0]) for node in near]

    frames = core_results(comfy, "pointmap")
    points = torch.stack([frame.points for frame in frames])
    scales, focal_lengths = (torch.tensor([getattr(f, name) for f in frames]) for name in ("scale", "focal_length"))
    images = torch.stack(list(pixels(comfy, FRAMES)))
    for mode, value in zip(SCALES, found, strict=True):
        expected = steady_pointmap(Pointmap(points.clone(), scales, focal_lengths, images), mode)
        assert value == pytest.approx(float(depth_picture(expected)[1][0]), rel=1e-3)
