"""What the command line writes for a photo: the picture that a person wants to see, and the data.

Arrays in NPZ files are laid out as images: (height, width, channels).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .body_parts import PALETTE
from .compositing import straight_colour
from .features import features_to_rgb
from .files import write_depth_png, write_json, write_npz, write_palette_png, write_png
from .geometry import depth_picture, metric_depth
from .keypoints import KEYPOINT_NAMES
from .openpose import frame_to_openpose
from .openpose_in import openpose_people
from .render import (
    colour_body_parts,
    draw_pose,
    normals_to_rgb,
    overlay,
)
from .render_openpose import draw_openpose
from .results import FrameFeatures, FrameMatte, FramePointmap, FramePose, Pointmap

#: How strongly body parts are coloured over the photo.
_PARTS_OPACITY = 0.6


def _last(array: Tensor) -> Tensor:
    """(C, H, W) → (H, W, C)."""
    return array.movedim(0, -1).contiguous()


def pose_to_dict(frame: FramePose, threshold: float) -> dict[str, Any]:
    """A frame's people for JSON: ``people`` in OpenPose's form, as POSE_KEYPOINT, and all 308 in ``people_308``."""
    return frame_to_openpose(frame, threshold) | {
        "people_308": [
            {
                "box": [round(value, 3) for value in person.box],
                "keypoints": [
                    {"name": name, "x": round(x, 3), "y": round(y, 3), "score": round(score, 4)}
                    for name, (x, y), score in zip(
                        KEYPOINT_NAMES, person.keypoints.tolist(), person.scores.tolist(), strict=True
                    )
                ],
            }
            for person in frame.people
        ]
    }


def _pose(base: str, photo: Tensor, frame: FramePose, threshold: float) -> None:
    write_png(Path(f"{base}_pose.png"), draw_pose(frame, photo, threshold))
    write_png(Path(f"{base}_openpose.png"), draw_openpose(openpose_people(frame, threshold), threshold=threshold))
    write_json(Path(f"{base}_pose.json"), pose_to_dict(frame, threshold))


def _seg(base: str, photo: Tensor, labels: Tensor, _: float) -> None:
    opacity = (labels > 0).float() * _PARTS_OPACITY  # the background stays as it is
    write_png(Path(f"{base}_parts.png"), overlay(photo, colour_body_parts(labels), opacity))
    write_palette_png(Path(f"{base}_labels.png"), labels, PALETTE)
    write_npz(Path(f"{base}_labels.npz"), labels=labels)


def _normal(base: str, _: Tensor, normals: Tensor, __: float) -> None:
    write_png(Path(f"{base}_normal.png"), normals_to_rgb(normals))
    write_npz(Path(f"{base}_normal.npz"), normals=_last(normals))


def _pointmap(base: str, photo: Tensor, frame: FramePointmap, _: float) -> None:
    pointmap = Pointmap(
        points=frame.points[None],
        scales=torch.tensor([frame.scale]),
        focal_lengths=torch.tensor([frame.focal_length]),
        images=photo[None],
    )
    write_png(Path(f"{base}_depth.png"), depth_picture(pointmap)[0][0])
    write_depth_png(Path(f"{base}_depth_mm.png"), metric_depth(pointmap)[0, 0])
    write_npz(
        Path(f"{base}_pointmap.npz"),
        points=_last(frame.points),
        intrinsics=pointmap.intrinsics[0],
        scale=frame.scale,
    )


def _matting(base: str, _: Tensor, matte: FrameMatte, __: float) -> None:
    colour = straight_colour(matte.foreground, matte.alpha)
    write_png(Path(f"{base}_cutout.png"), torch.cat([colour, matte.alpha]))
    write_png(Path(f"{base}_alpha.png"), matte.alpha)
    write_npz(Path(f"{base}_matte.npz"), alpha=matte.alpha[0], foreground_premultiplied=_last(matte.foreground))


def _albedo(base: str, _: Tensor, albedo: Tensor, __: float) -> None:
    write_png(Path(f"{base}_albedo.png"), albedo)
    write_npz(Path(f"{base}_albedo.npz"), albedo=_last(albedo))


def _pretrain(base: str, photo: Tensor, features: FrameFeatures, _: float) -> None:
    picture = torch.nn.functional.interpolate(features_to_rgb(features.patch_tokens[None]), photo.shape[-2:])[0]
    write_png(Path(f"{base}_features.png"), picture)
    tokens = _last(features.patch_tokens)
    write_npz(Path(f"{base}_features.npz"), cls_token=features.cls_token, patch_tokens=tokens)


_WRITERS: dict[str, Callable[[str, Tensor, Any, float], None]] = {
    "pose": _pose,
    "seg": _seg,
    "normal": _normal,
    "pointmap": _pointmap,
    "matting": _matting,
    "albedo": _albedo,
    "pretrain": _pretrain,
}


def write_result(task: str, folder: Path, name: str, photo: Tensor, result: Any, threshold: float) -> None:
    """Writes a photo's results.

    Args:
        task: name of the task.
        folder: where to.
        name: what every file's name begins with.
        photo: (3, H, W) uint8.
        result: what :meth:`~sapiens2_core.inference.Estimator.predict` gave for it.
        threshold: pose keypoints count as seen when their score is above this.
    """
    _WRITERS[task](str(folder / name), photo.float() / 255, result, threshold)
