"""Checkpoints of any size that cost nothing: a true header, and a hole in the file where the weights would be."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Shapes of every published checkpoint (and the albedo ones), by file name.
OFFICIAL_SHAPES: dict[str, dict[str, list[int]]] = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "data" / "checkpoints").glob("*.json"))
}


def write_sparse(path: Path, shapes: Mapping[str, Sequence[int]], metadata: dict[str, str] | None = None) -> Path:
    """Writes a .safetensors file of bf16 tensors of these shapes, all zero, as a sparse file."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return path
