"""Pictures of results: colours of body parts, normals, depth, skeletons, composites.

Pictures are float32 RGB, (B, 3, H, W) or (3, H, W), 0..1.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .body_parts import PALETTE
from .geometry import match_mask
from .keypoints import KEYPOINT_COLORS, SKELETON, VISIBLE_SCORE
from .results import FramePose

#: Sign of x, y, z that turns normals in OpenGL's convention (x right, y up, z towards the camera) into another's.
#: DirectX has y down; ControlNet's normal-BAE preprocessor shows what faces left in red.
NORMAL_SIGNS: dict[str, tuple[int, int, int]] = {
    "opengl": (1, 1, 1),
    "directx": (1, -1, 1),
    "controlnet_bae": (-1, 1, 1),
}

#: RGB of a surface that faces the camera, in every convention.
FLAT_NORMAL = (128 / 255, 128 / 255, 1.0)


def colour_body_parts(labels: Tensor) -> Tensor:
    """Label maps (H, W) or (B, H, W) in the authors' colours: (3, H, W) or (B, 3, H, W).

    A fine-tuned network may know more classes than the authors' 29: their colours begin again.
    """
    labels = labels % len(PALETTE)
    return (PALETTE.to(labels.device)[labels.long()].float() / 255).movedim(-1, -3)


def overlay(image: Tensor, picture: Tensor, opacity: float | Tensor = 0.5) -> Tensor:
    """``picture`` laid over ``image``.

    Args:
        image: (…, 3, H, W).
        picture: of the same size.
        opacity: 0 shows the image, 1 the picture; a number, or a map that broadcasts to them.
    """
    return image + (picture - image) * opacity


def normals_to_rgb(normals: Tensor, convention: str = "opengl") -> Tensor:
    """Unit normals as colours, (n + 1) / 2.

    Args:
        normals: (…, 3, H, W), x right, y up, z towards the camera.
        convention: a key of :data:`NORMAL_SIGNS`.

    Raises:
        ValueError: an unknown convention.
    """
    if convention not in NORMAL_SIGNS:
        raise ValueError(f'There is no normal convention "{convention}"; choose one of {", ".join(NORMAL_SIGNS)}.')
    signs = torch.tensor(NORMAL_SIGNS[convention], dtype=normals.dtype, device=normals.device)
    return ((normals * signs[:, None, None] + 1) / 2).clamp(0, 1)


def normal_background(pictures: Tensor, mask: Tensor, background: Literal["keep", "black", "flat"]) -> Tensor:
    """Normal maps with their background replaced.

    Args:
        pictures: (B, 3, H, W).
        mask: as in :func:`~sapiens2_core.geometry.match_mask`; its soft edge is kept.
        background: "keep" changes nothing; "black"; "flat" is a surface that faces the camera (128, 128, 255).
    """
    if background == "keep":
        return pictures
    colour = torch.tensor(FLAT_NORMAL if background == "flat" else (0.0, 0.0, 0.0)).to(pictures)
    inside = match_mask(mask.to(pictures.device), len(pictures), *pictures.shape[-2:])[:, None]
    return overlay(colour[:, None, None].expand_as(pictures), pictures, inside)


@lru_cache(maxsize=1)
def _turbo() -> Tensor:
    """(256, 3) RGB of the Turbo colour map, dark blue to dark red."""
    import cv2  # half a second at import

    table = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_TURBO)
    return torch.from_numpy(table[:, 0, ::-1].copy()).float() / 255


def colour_depth(depth: Tensor, colours: Literal["grey", "turbo"] = "grey") -> Tensor:
    """Depth pictures (…, 1, H, W), 0..1, as RGB (…, 3, H, W)."""
    if colours == "grey":
        return depth.expand(*depth.shape[:-3], 3, *depth.shape[-2:])
    index = (depth.squeeze(-3) * 255).round().clamp(0, 255).long()
    return _turbo().to(depth.device)[index].movedim(-1, -3)


def to_uint8(picture: Tensor) -> np.ndarray:
    """A picture (C, H, W), 0..1, as a contiguous (H, W, C) uint8 array."""
    return np.ascontiguousarray((picture.clamp(0, 1) * 255).round().byte().cpu().movedim(0, -1).numpy())


_SUBPIXEL_BITS = 4  # OpenCV draws at sixteenths of a pixel
_FIRST_FACE_POINT = 70  # from here on keypoints lie on the face and ears


def _fixed_point(values: np.ndarray) -> np.ndarray:
    return np.round(values * (1 << _SUBPIXEL_BITS)).astype(np.int32)


def draw_pose(
    frame: FramePose, image: Tensor | None = None, threshold: float = VISIBLE_SCORE, size: float = 1.0
) -> Tensor:
    """The 308-point skeletons of a frame in the authors' colours, anti-aliased.

    Lines and points are sized by the frame, those of face and fingers by the person too, so that small people stay
    legible.

    Args:
        frame: the people.
        image: (3, H, W) to draw on; None draws on black.
        threshold: keypoints are drawn when their score is above this.
        size: factor on the thickness of lines and points.

    Returns:
        (3, H, W).

    Raises:
        ValueError: the image has another size than the frame.
    """
    import cv2  # half a second at import

    if image is None:
        canvas = np.zeros((frame.height, frame.width, 3), dtype=np.uint8)
    elif tuple(image.shape[-2:]) != (frame.height, frame.width):
        raise ValueError(
            f"The pose is of a frame of {frame.width} × {frame.height} pixels, but the image has "
            f"{image.shape[-1]} × {image.shape[-2]}."
        )
    else:
        canvas = to_uint8(image[:3])

    frame_unit = math.hypot(frame.height, frame.width) / 1000
    limit = 4.0 * max(frame.height, frame.width)  # far outside there is nothing to see, and OpenCV's integers end
    colors = KEYPOINT_COLORS.tolist()
    for person in frame.people:
        points = person.keypoints.numpy().astype(np.float64)
        visible = (person.scores.numpy() > threshold) & (np.abs(points).max(axis=1) < limit)
        fixed = _fixed_point(points.clip(-limit, limit))
        face = points[_FIRST_FACE_POINT:][visible[_FIRST_FACE_POINT:]]
        face_unit = float(np.ptp(face, axis=0).max()) / 100 if len(face) else frame_unit

        for start, end, color in SKELETON:
            if visible[start] and visible[end]:
                length = float(np.linalg.norm(points[start] - points[end]))
                thickness = max(1, round(size * min(2.5 * frame_unit, length / 6)))
                cv2.line(canvas, fixed[start].tolist(), fixed[end].tolist(), color, thickness, cv2.LINE_AA,
                         _SUBPIXEL_BITS)  # fmt: skip
        for index in np.flatnonzero(visible):
            if index < 21 or index in (41, 62, 69):  # body and feet
                radius = max(3.0 * frame_unit, 1.5)
            elif index < _FIRST_FACE_POINT:
                radius = min(2.0 * frame_unit, 1.6 * face_unit)
            else:
                radius = min(1.6 * frame_unit, 0.6 * face_unit)
            radius = int(_fixed_point(np.array(max(size * radius, 0.6))))
            cv2.circle(canvas, fixed[index].tolist(), radius, colors[index], cv2.FILLED, cv2.LINE_AA, _SUBPIXEL_BITS)
    return torch.from_numpy(canvas).movedim(-1, 0).float() / 255
