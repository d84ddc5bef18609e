"""GLB files against the specification's own validator, and read back by hand."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core.glb import glb_bytes
from sapiens2_core.mesh import grid_mesh
from tests.analytic_scenes import box, sphere

VALIDATE = """
const { validateBytes } = require('gltf-validator');
validateBytes(new Uint8Array(require('fs').readFileSync(process.argv[1]))).then(r => console.log(JSON.stringify(r)));
"""


@pytest.fixture(scope="module")
def validate():
    """The Khronos validator's report; its package is looked for where Node looks, as set by NODE_PATH."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    found = subprocess.run([node, "-e", "require('gltf-validator')"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("npm's gltf-validator is not installed: set NODE_PATH to a node_modules folder that has it")

    def run(path: Path) -> dict:
        command = [node, "-e", VALIDATE, str(path)]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout)

    return run


def parse(data: bytes) -> tuple[dict, bytes]:
    magic, version, length = struct.unpack_from("<4sII", data)
    assert (magic, version, length) == (b"glTF", 2, len(data))
    size, kind = struct.unpack_from("<I4s", data, 12)
    assert (kind, size % 4) == (b"JSON", 0)
    return json.loads(data[20 : 20 + size]), data[28 + size :]


def surfaces():
    views = [sphere(), box()]
    return [grid_mesh(view.points, view.hit, stride=2) for view in views], [view.normals / 2 + 0.5 for view in views]


@pytest.mark.parametrize("textured", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_file_passes_the_khronos_validator(validate, tmp_path, count, textured):
    meshes, images = surfaces()
    path = tmp_path / "mesh.glb"
    path.write_bytes(glb_bytes(meshes[:count], images[:count] if textured else None))
    report = validate(path)
    assert report["issues"]["numErrors"] == 0, report["issues"]["messages"]
    assert report["issues"]["numWarnings"] == 0, report["issues"]["messages"]
    assert report["info"]["totalTriangleCount"] == sum(len(mesh.faces) for mesh in meshes[:count])
    assert report["info"]["maxUVs"] == int(textured)


def test_file_with_an_empty_frame_passes_the_khronos_validator(validate, tmp_path):
    meshes, images = surfaces()
    nothing = grid_mesh(torch.ones(3, 4, 4), torch.zeros(4, 4, dtype=torch.bool))
    path = tmp_path / "mesh.glb"
    path.write_bytes(glb_bytes([nothing, meshes[0]], images))
    assert validate(path)["issues"]["numErrors"] == 0


def test_file_too_large_for_the_format_is_refused(monkeypatch):
    meshes, images = surfaces()
    monkeypatch.setattr("sapiens2_core.glb._LARGEST", 1000)
    with pytest.raises(ValueError, match=r"GLB files end at 4\.3 GB\. Choose a larger stride, or fewer frames"):
        glb_bytes(meshes, images)


def test_mesh_and_texture_come_back():
    meshes, images = surfaces()
    document, buffer = parse(glb_bytes(meshes, images))
    assert [scene["nodes"] for scene in document["scenes"]] == [[0], [1]]

    def view(index: int) -> bytes:
        entry = document["bufferViews"][index]
        return buffer[entry["byteOffset"] : entry["byteOffset"] + entry["byteLength"]]

    def values(accessor: int) -> np.ndarray:
        entry = document["accessors"][accessor]
        kind = {5125: "<u4", 5126: "<f4"}[entry["componentType"]]
        return np.frombuffer(view(entry["bufferView"]), kind).reshape(entry["count"], -1)

    for mesh, image, entry in zip(meshes, images, document["meshes"], strict=True):
        (primitive,) = entry["primitives"]
        for name, wanted in (("POSITION", mesh.vertices), ("NORMAL", mesh.normals), ("TEXCOORD_0", mesh.uvs)):
            np.testing.assert_array_equal(values(primitive["attributes"][name]), wanted.numpy())
        np.testing.assert_array_equal(values(primitive["indices"]).reshape(-1, 3), mesh.faces.numpy())
        material = document["materials"][primitive["material"]]
        texture = document["textures"][material["pbrMetallicRoughness"]["baseColorTexture"]["index"]]
        with Image.open(io.BytesIO(view(document["images"][texture["source"]]["bufferView"]))) as picture:
            pixels = torch.from_numpy(np.array(picture)).movedim(-1, 0) / 255
        assert (pixels - image.clamp(0, 1)).abs().max() <= 0.5 / 255 + 1e-6
