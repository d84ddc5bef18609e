"""Meshes as binary glTF 2.0 files (https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html)."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from .mesh import Mesh
from .render import to_uint8

# Numbers of the specification, which takes them from OpenGL.
_FLOAT, _UNSIGNED_INT = 5126, 5125
_ARRAY_BUFFER, _ELEMENT_ARRAY_BUFFER = 34962, 34963
_LINEAR, _LINEAR_MIPMAP_LINEAR, _CLAMP_TO_EDGE = 9729, 9987, 33071
_GLTF, _JSON, _BIN, _VERSION = b"glTF", b"JSON", b"BIN\0", 2
_LARGEST = 2**32 - 1  # the header's length is a 32-bit number
_GENERATOR = "comfyui-sapiens2"


class _Document:
    """A glTF document in the making: its JSON, and the one buffer behind it."""

    def __init__(self) -> None:
        self.json: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": _GENERATOR},
            "scene": 0,
            "scenes": [],
            "nodes": [],
            "meshes": [],
            "materials": [],
            "accessors": [],
            "bufferViews": [],
        }
        self.parts: list[bytes] = []
        self.length = 0

    def add(self, kind: str, entry: dict[str, Any]) -> int:
        """Appends to one of the document's lists; its index."""
        entries = self.json.setdefault(kind, [])
        entries.append(entry)
        return len(entries) - 1

    def view(self, data: bytes, **more: Any) -> int:
        """A view of ``data``, which goes into the buffer at a multiple of 4, as every type needs at most."""
        index = self.add("bufferViews", {"buffer": 0, "byteOffset": self.length, "byteLength": len(data), **more})
        padding = b"\0" * (-len(data) % 4)
        self.parts += [data, padding]
        self.length += len(data) + len(padding)
        return index

    def accessor(self, values: Tensor, kind: str, is_index: bool = False, **more: Any) -> int:
        """Vertices' attributes (N, 2 or 3), or flat indices of vertices."""
        array = np.ascontiguousarray(values.cpu().numpy().astype("<u4" if is_index else "<f4"))
        view = self.view(array.tobytes(), target=_ELEMENT_ARRAY_BUFFER if is_index else _ARRAY_BUFFER)
        component = _UNSIGNED_INT if is_index else _FLOAT
        return self.add(
            "accessors", {"bufferView": view, "componentType": component, "count": len(array), "type": kind, **more}
        )

    def to_bytes(self) -> bytes:
        """The GLB container: a header, the JSON padded with spaces, the buffer."""
        self.json["buffers"] = [{"byteLength": self.length}]
        text = json.dumps(self.json, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        total = 28 + len(text) + self.length  # the header, and those of both chunks
        if total > _LARGEST:
            raise ValueError(
                f"The mesh file would have {total / 1e9:.1f} GB, but GLB files end at 4.3 GB. Choose a larger stride, "
                "or fewer frames."
            )
        chunks = [struct.pack("<I4s", len(text), _JSON), text, struct.pack("<I4s", self.length, _BIN), *self.parts]
        return b"".join([struct.pack("<4sII", _GLTF, _VERSION, total), *chunks])


def glb_bytes(meshes: Sequence[Mesh], images: Sequence[Tensor] | None = None) -> bytes:
    """A GLB file with a scene per mesh, so that viewers show the first and editors import all.

    Surfaces are seen from both sides and do not shine.

    Args:
        meshes: at least one of them with a face; the scene of one without is empty.
        images: per mesh (3, H, W) 0..1, its texture; None leaves the surface white.
    """
    document = _Document()
    if images is not None:
        document.add(
            "samplers",
            {
                "magFilter": _LINEAR,
                "minFilter": _LINEAR_MIPMAP_LINEAR,
                "wrapS": _CLAMP_TO_EDGE,
                "wrapT": _CLAMP_TO_EDGE,
            },
        )
    for index, mesh in enumerate(meshes):
        scene: dict[str, Any] = {"name": f"frame {index}"}
        if len(mesh.faces):
            scene["nodes"] = [_add_mesh(document, mesh, None if images is None else images[index], scene["name"])]
        document.add("scenes", scene)
    return document.to_bytes()


def _add_mesh(document: _Document, mesh: Mesh, image: Tensor | None, name: str) -> int:
    """Index of the new node."""
    surface: dict[str, Any] = {"metallicFactor": 0.0, "roughnessFactor": 1.0}
    if image is not None:
        file = io.BytesIO()
        # Lossless and fast: the smallest file would take seconds for a large photo.
        Image.fromarray(to_uint8(image)).save(file, "PNG", compress_level=1)
        source = document.add("images", {"bufferView": document.view(file.getvalue()), "mimeType": "image/png"})
        surface["baseColorTexture"] = {"index": document.add("textures", {"sampler": 0, "source": source})}
    material = document.add("materials", {"pbrMetallicRoughness": surface, "doubleSided": True})
    bounds = {"min": mesh.vertices.amin(0).tolist(), "max": mesh.vertices.amax(0).tolist()}
    attributes = {
        "POSITION": document.accessor(mesh.vertices, "VEC3", **bounds),
        "NORMAL": document.accessor(mesh.normals, "VEC3"),
    }
    if image is not None:
        attributes["TEXCOORD_0"] = document.accessor(mesh.uvs, "VEC2")
    indices = document.accessor(mesh.faces.flatten(), "SCALAR", is_index=True)
    primitive = {"attributes": attributes, "indices": indices, "material": material}
    return document.add("nodes", {"name": name, "mesh": document.add("meshes", {"primitives": [primitive]})})
