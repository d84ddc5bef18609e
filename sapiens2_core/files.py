"""Writing result files: to a temporary name first, then renamed, so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

#: Depth in 16-bit PNG: millimetres, 0 = not measured. The largest value is what lies farther, 65.535 m and more.
MILLIMETRES_PER_METRE = 1000


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary path beside ``target`` to write to; it becomes ``target`` when the block ends without an error.

    Its suffix is the target's, since many writers choose the format by it.

    Raises:
        OSError: nothing can be written there; the message names the place.
    """
    temporary = target.with_name(f".{target.stem}.{uuid.uuid4().hex[:8]}{target.suffix}")
    try:
        temporary.touch()
    except OSError as error:
        raise OSError(f"Nothing can be written to {target.parent} ({error.strerror}).") from error
    mode = temporary.stat().st_mode
    try:
        yield temporary
        temporary.chmod(mode)  # some writers leave a file of their own there, for its owner's eyes only
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_png(target: Path, picture: Tensor | np.ndarray) -> None:
    """Writes an 8-bit PNG.

    Args:
        target: the file.
        picture: (1, 3 or 4, H, W) float, 0..1: grey, RGB, RGB and straight alpha; or uint8 pixels (H, W) or (H, W, C).
    """
    if isinstance(picture, Tensor):
        picture = (picture.clamp(0, 1) * 255).round().byte().movedim(0, -1).cpu().numpy()
        picture = picture[:, :, 0] if picture.shape[-1] == 1 else picture
    with replacing(target) as temporary:
        Image.fromarray(np.ascontiguousarray(picture)).save(temporary)


def write_palette_png(target: Path, labels: Tensor, palette: Tensor) -> None:
    """Writes ids as a PNG with a palette: programs read the ids, people see the colours.

    Args:
        target: the file.
        labels: (H, W) uint8.
        palette: (N, 3) uint8, the colour of each id.
    """
    picture = Image.fromarray(labels.cpu().numpy())
    picture.putpalette(palette.flatten().tolist())
    with replacing(target) as temporary:
        picture.save(temporary)


def write_depth_png(target: Path, depth: Tensor) -> None:
    """Writes depth as a 16-bit grey PNG in millimetres.

    Args:
        target: the file.
        depth: (H, W) metres. What is not finite or not in front of the camera becomes 0, what is farther than
            65.535 m becomes 65535.
    """
    millimetres = (depth.double().nan_to_num(0, 0, 0) * MILLIMETRES_PER_METRE).round().clamp(0, 65535)
    with replacing(target) as temporary:
        Image.fromarray(millimetres.cpu().numpy().astype(np.uint16)).save(temporary)


def write_exr(target: Path, depth: Tensor) -> None:
    """Writes depth as an OpenEXR picture with one 32-bit float channel, Y, compressed without loss.

    Args:
        target: the file.
        depth: (H, W) metres, written as they are.

    Raises:
        RuntimeError: PyAV isn't installed, or has no writer for EXR. ComfyUI brings it along.
    """
    try:
        import av
    except ImportError as error:
        raise RuntimeError("EXR files need PyAV. Install it (pip install av), or save as NPY or PNG.") from error

    codec = av.CodecContext.create("exr", "w")
    codec.height, codec.width = depth.shape
    codec.pix_fmt = "grayf32le"
    codec.time_base = Fraction(1, 1)
    codec.options = {"compression": "zip16"}
    pixels = np.ascontiguousarray(depth.float().cpu().numpy())
    frame = av.VideoFrame.from_ndarray(pixels, format=codec.pix_fmt)
    packets = [*codec.encode(frame), *codec.encode(None)]  # None: there are no more frames
    with replacing(target) as temporary:
        temporary.write_bytes(b"".join(map(bytes, packets)))


def write_npy(target: Path, array: Tensor) -> None:
    """Writes one array for ``numpy.load``."""
    with replacing(target) as temporary:
        np.save(temporary, array.cpu().numpy())


def write_npz(target: Path, **arrays: Tensor | np.ndarray | float) -> None:
    """Writes named arrays for ``numpy.load``. Uncompressed: floats hardly shrink, and a large photo would take long."""
    plain = {name: value.cpu().numpy() if isinstance(value, Tensor) else value for name, value in arrays.items()}
    with replacing(target) as temporary:
        np.savez(temporary, **plain)


def write_json(target: Path, data: Any) -> None:
    """Writes JSON.

    Raises:
        ValueError: a number in it is not finite, which JSON cannot hold.
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=False)
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
