"""Graphs and nodes of depth and surfaces, given people whose every point is known in place of a network's estimate."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core.demo import random_scene, render
from tests.host.conftest import read_exr
from tests.host.test_graphs import PACK, to_prompt
from tests.host.test_nodes import DEPTH, Graph
from tests.test_glb import parse

SIZE = HEIGHT, WIDTH = (256, 192)


@pytest.fixture(scope="module")
def clip():
    """Two people, cut at the hip, and then the same from half a metre farther back."""
    near = random_scene(5, SIZE, persons=2, framing="hip")
    return [render(near, 1), render(near.seen_from_farther(0.5), 1)]


@pytest.fixture(scope="module")
def truth(comfy, clip):
    """Function that adds the clip's pointmap, or its first frame's, to a graph, as Estimate Pointmap would give it."""
    focal_lengths = np.array([picture.focal_length for picture in clip], np.float32)
    arrays = {"scales": WIDTH / focal_lengths, "focal_lengths": focal_lengths}
    for name, attribute in (("points", "points"), ("images", "image"), ("mask", "mask")):
        arrays[name] = np.stack([getattr(picture, attribute).numpy() for picture in clip])
    for name, frames in (("people.npz", slice(None)), ("person.npz", slice(1))):
        np.savez(comfy.base / "input" / name, **{key: values[frames] for key, values in arrays.items()})
    return lambda graph: graph.add("AnalyticPointmap", file="people.npz")


def run_workflow(comfy, name: str) -> dict[str, dict]:
    """What the output nodes of a graph show by their types; the truth stands where the network's estimate would."""
    prompt = to_prompt(
        json.loads((PACK / "workflows" / f"{name}.json").read_text(encoding="utf-8")), comfy.json("/object_info")
    )
    (estimate,) = (node for node, what in prompt.items() if what["class_type"] == "Sapiens2EstimatePointmap")
    prompt[estimate] = {"class_type": "AnalyticPointmap", "inputs": {"file": "person.npz"}}
    return {prompt[node]["class_type"]: output for node, output in comfy.run(prompt).items()}


def expected_depth(picture, low: float, high: float) -> np.ndarray:
    """What depth ControlNets read, 0..255."""
    depth = picture.points[2].double()
    shades = ((1 / depth - 1 / high) / (1 / low - 1 / high)).clamp(0, 1) * picture.mask
    return 255 * shades[..., None].numpy()


def degrees_between(colours: np.ndarray, normals: torch.Tensor) -> np.ndarray:
    """Angles between a normal map of 8 bits and true normals (3, H, W), both in OpenGL's convention."""
    found = colours.astype(np.float64) / 127.5 - 1
    found /= np.linalg.norm(found, axis=-1, keepdims=True)
    return np.degrees(np.arccos((found * normals.movedim(0, -1).numpy()).sum(-1).clip(-1, 1)))


def test_depth_graph_gives_the_true_picture(comfy, clip, truth):
    (found,) = comfy.pictures(run_workflow(comfy, "sapiens2_depth")["SaveImage"])
    low, high = np.percentile(clip[0].points[2][clip[0].mask].numpy(), [1, 99])
    assert np.abs(found - expected_depth(clip[0], low, high)).max() <= 1.5


def test_exr_graph_saves_true_metres(comfy, clip, truth):
    outputs = run_workflow(comfy, "sapiens2_depth_exr")
    (file,) = outputs["SaveImageAdvanced"]["images"]
    metres = read_exr(comfy.saved(file))
    assert metres.dtype == np.float32
    for channel in range(3):
        assert np.array_equal(metres[..., channel], clip[0].points[2].numpy())


def test_mesh_graph_makes_the_true_surface_and_camera(comfy, clip, truth):
    outputs = run_workflow(comfy, "sapiens2_mesh")
    (file,) = outputs["SaveGLB"]["3d"]
    document, buffer = parse(comfy.saved(file).read_bytes())
    (primitive,) = document["meshes"][0]["primitives"]

    def values(accessor: int) -> np.ndarray:
        entry = document["accessors"][accessor]
        view = document["bufferViews"][entry["bufferView"]]
        data = buffer[view["byteOffset"] : view["byteOffset"] + view["byteLength"]]
        kind = {5125: "<u4", 5126: "<f4"}[entry["componentType"]]
        return np.frombuffer(data, kind).reshape(entry["count"], -1)

    vertices, uvs = (values(primitive["attributes"][name]) for name in ("POSITION", "TEXCOORD_0"))
    columns, rows = np.round(uvs * [WIDTH, HEIGHT] - 0.5).astype(int).T
    true = clip[0].points[:, rows, columns].T.numpy() * [1, -1, -1]
    np.testing.assert_array_equal(vertices, true.astype(np.float32))
    triangles = vertices[values(primitive["indices"]).reshape(-1, 3)].astype(np.float64)
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    assert ((np.cross(b - a, c - a) * -a).sum(1) > 0).all()  # seen from the camera
    owners = clip[0].persons[rows, columns].numpy()[values(primitive["indices"]).reshape(-1, 3)]
    spans = owners.max(1) != owners.min(1)
    depths = -triangles[..., 2]
    assert (depths.max(1) / depths.min(1))[spans].max(initial=1) < 1.1
    camera = outputs["Preview3D"]["result"][1]
    tangent = math.tan(math.radians(camera["fov"] / 2)) / camera["zoom"]
    assert HEIGHT / 2 / tangent == pytest.approx(clip[0].focal_length, rel=1e-5)


def test_depth_of_a_clip_keeps_one_range_in_chunks_too(comfy, clip, truth):
    graph = Graph()
    source = truth(graph)
    whole = graph.add("Sapiens2PointmapToDepth", pointmap=[source, 0], **DEPTH)
    last = graph.add("AnalyticPointmap", file="person.npz")
    chunk = graph.add("Sapiens2PointmapToDepth", pointmap=[last, 0], **DEPTH | {"near": [whole, 2], "far": [whole, 3]})
    shown, again = graph.show([whole, 0]), graph.show([chunk, 0])
    outputs = comfy.run(graph)
    depths = np.concatenate([picture.points[2][picture.mask].numpy() for picture in clip])
    low, high = np.percentile(depths, [1, 99])
    pictures = comfy.pictures(outputs[shown])
    for found, picture in zip(pictures, clip, strict=True):
        assert np.abs(found - expected_depth(picture, low, high)).max() <= 1.5
    assert np.array_equal(comfy.pictures(outputs[again])[0], pictures[0])
    both = clip[0].mask & clip[1].mask
    assert pictures[1][both].mean() < pictures[0][both].mean() - 20  # farther is darker


def test_cameras_and_normals_are_the_true_ones(comfy, clip, truth):
    graph = Graph()
    source = truth(graph)
    camera = graph.add("Sapiens2PointmapCamera", pointmap=[source, 0], frame=1)
    texts = [graph.show_text([camera, output]) for output in (1, 2, 3, 4)]
    normals = graph.add("Sapiens2PointmapNormals", pointmap=[source, 0], convention="opengl", background="keep")
    shown = graph.show([normals, 0])
    outputs = comfy.run(graph)
    focal_length = clip[1].focal_length
    degrees = [math.degrees(2 * math.atan(side / 2 / focal_length)) for side in (WIDTH, HEIGHT)]
    found = [float(outputs[text]["text"][0]) for text in texts]
    assert found == pytest.approx([*degrees, focal_length, focal_length], rel=5e-3)
    for colours, picture in zip(comfy.pictures(outputs[shown]), clip, strict=True):
        angles = degrees_between(colours, picture.normals)
        assert np.median(angles) < 2  # 8 bit, and a pixel of 3 mm
        assert angles[picture.mask.numpy()].mean() < 10


def test_moge_s_nodes_see_the_true_people(comfy, clip, truth):
    graph = Graph()
    geometry = [truth(graph), 1]
    field = graph.add("MoGeGeometryToFOV", moge_geometry=geometry, axis="horizontal", unit="degrees")
    text = graph.show_text([field, 0])
    shown = {
        output: graph.show([graph.add("MoGeRender", moge_geometry=geometry, output=output), 0])
        for output in ("depth", "normal_opengl", "mask")
    }
    mesh = graph.add(
        "MoGePointMapToMesh", moge_geometry=geometry, batch_index=1, decimation=1, discontinuity_threshold=0.04,
        texture=True,
    )  # fmt: skip
    saving = graph.add("SaveGLB", mesh=[mesh, 0], filename_prefix="3d/moge_people")
    outputs = comfy.run(graph)
    degrees = math.degrees(2 * math.atan(WIDTH / 2 / clip[0].focal_length))
    assert float(outputs[text]["text"][0]) == pytest.approx(degrees, rel=1e-4)
    pictures = {output: comfy.pictures(outputs[node]) for output, node in shown.items()}
    for index, picture in enumerate(clip):
        mask = picture.mask.numpy()
        assert np.array_equal(pictures["mask"][index][..., 0] > 127, mask)
        depth = pictures["depth"][index][..., 0].astype(int)
        assert not depth[~mask].any()
        order = depth[mask][picture.points[2].numpy()[mask].argsort()]
        assert (np.diff(order) <= 0).all()  # near is white
        angles = degrees_between(pictures["normal_opengl"][index], picture.normals)[mask]
        assert np.median(angles) < 5  # its differences reach over two pixels, and over silhouettes
    (file,) = outputs[saving]["3d"]
    assert comfy.saved(file).stat().st_size > 100_000


@pytest.mark.parametrize("format", ["PNG 16 bit", "EXR", "NPY", "NPZ"])
def test_files_hold_the_true_points(comfy, clip, truth, format):
    graph = Graph()
    node = graph.add("Sapiens2SavePointmap", pointmap=[truth(graph), 0], format=format, filename_prefix="people/frame")
    text = graph.show_text([node, 0])
    for path, picture in zip(comfy.run(graph)[text]["text"], clip, strict=True):
        depth = picture.points[2].numpy()
        if format == "PNG 16 bit":
            with Image.open(path) as image:
                assert np.abs(np.array(image) / 1000 - depth).max() <= 0.0005 + 1e-6
        elif format == "EXR":
            assert np.array_equal(read_exr(path), depth)
        elif format == "NPY":
            assert np.array_equal(np.load(path), depth)
        else:
            with np.load(path) as data:
                assert np.array_equal(data["points"], picture.points.movedim(0, -1).numpy())
                assert data["intrinsics"][0, 0] == pytest.approx(picture.focal_length)
                assert data["scale"] == pytest.approx(WIDTH / picture.focal_length)
