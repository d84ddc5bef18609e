"""The camera that a pointmap was seen by: focal length, field of view, and how 3D viewers want it told."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from torch import Tensor

from .geometry import foreground
from .results import Pointmap

logger = logging.getLogger("sapiens2")

#: Above this share of the focal length, the network's scale and its points disagree so much that a user should know.
FOCAL_LENGTH_TOLERANCE = 0.1

#: Vertical field of view that ComfyUI's 3D viewers set up, degrees. They do not take it from a camera's ``fov``.
VIEWER_FOV = 35.0

_FIT_POINTS = 50_000  # more don't make a fit of three numbers better
_FIT_ROUNDS = 20
_TUKEY = 4.685  # in standard deviations: 95 % efficient on Gaussian residuals (Beaton & Tukey 1974)


def field_of_view(focal_length: float, length: int) -> float:
    """Degrees that a row or column of ``length`` pixels sees at a focal length in pixels."""
    return math.degrees(2 * math.atan(length / 2 / focal_length))


def fit_focal_length(points: Tensor, inside: Tensor | None = None) -> float | None:
    """The focal length at which a pointmap's points fall on their own pixels.

    Robust least squares of x = f · X / Z + cx and y = f · Y / Z + cy, with one f for both: Tukey's biweight,
    reweighted from a start at the median, so that points of the background that obey no camera don't count.

    Args:
        points: (3, H, W) x right, y down, z forward, in any unit.
        inside: (H, W) bool, the points to fit; None takes all in front of the camera.

    Returns:
        In pixels; None where the points don't tell: fewer than 3, all in one direction, or mirrored.
    """
    _, height, width = points.shape
    inside = points[2] > 0 if inside is None else inside & (points[2] > 0)
    rows, columns = inside.nonzero(as_tuple=True)
    every = max(1, len(rows) // _FIT_POINTS)
    rows, columns = rows[::every], columns[::every]
    if len(rows) < 3:
        return None
    found = points[:, rows, columns].double()
    slopes = found[:2] / found[2]
    pixels = torch.stack([columns, rows]).double()

    # A start that almost half of the points may spoil: the principal point lies about the frame's centre, and pixels
    # far from there tell most.
    middle = torch.tensor([[(width - 1) / 2], [(height - 1) / 2]], dtype=torch.float64, device=points.device)
    offsets = pixels - middle
    distances = offsets.square().sum(0)
    far = distances >= distances.median()
    focal_length = ((offsets * slopes).sum(0) / slopes.square().sum(0).clamp_min(1e-12))[far].median()
    center = (pixels - focal_length * slopes).median(dim=1, keepdim=True).values
    for _ in range(_FIT_ROUNDS):
        residuals = (pixels - focal_length * slopes - center).square().sum(0).sqrt()
        spread = 1.4826 * residuals.median() + 1e-6
        weights = (1 - (residuals / (_TUKEY * spread)).square()).clamp_min(0).square()
        total = weights.sum()
        mean_slope, mean_pixel = ((values * weights).sum(1, keepdim=True) / total for values in (slopes, pixels))
        centered = slopes - mean_slope
        variance = (weights * centered.square()).sum()
        if variance <= 1e-12 * total:
            return None
        previous, focal_length = focal_length, (weights * centered * (pixels - mean_pixel)).sum() / variance
        center = mean_pixel - focal_length * mean_slope
        if (focal_length - previous).abs() <= 1e-9 * focal_length.abs():
            break
    return float(focal_length) if focal_length > 0 else None


def check_focal_length(pointmap: Pointmap, index: int) -> float | None:
    """Fits a frame's focal length to its foreground, and warns where the network's scale says something else.

    Args:
        pointmap: the clip.
        index: of the frame.

    Returns:
        As :func:`fit_focal_length`.
    """
    fitted = fit_focal_length(pointmap.points[index], foreground(pointmap, index))
    scaled = float(pointmap.focal_lengths[index])
    if fitted is not None and abs(fitted - scaled) > FOCAL_LENGTH_TOLERANCE * abs(scaled):
        logger.warning(
            "The camera of frame %d is uncertain: its focal length is %.0f pixels by the network's scale, but %.0f "
            "by its points. Metres may be off by as much; a mask of the person may help.", index, scaled, fitted,
        )  # fmt: skip
    return fitted


def viewer_camera(focal_length: float, height: int, width: int, distance: float) -> dict[str, Any]:
    """The camera at the origin, as ComfyUI's LOAD3D_CAMERA: y up, looking along -z, where meshes of pointmaps lie.

    ComfyUI's viewers read ``zoom``, a factor on the focal length, and leave their own field of view as it is; its
    renderers read both. So the camera is that of the viewers, zoomed to the photo's.

    Args:
        focal_length: in pixels of the frame.
        height, width: of the frame.
        distance: metres to the point that the view turns about.
    """
    zoom = math.tan(math.radians(VIEWER_FOV) / 2) / (height / 2 / focal_length)
    return {
        "position": {"x": 0.0, "y": 0.0, "z": 0.0},
        "target": {"x": 0.0, "y": 0.0, "z": -distance},
        "quaternion": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0},
        "zoom": zoom,
        "cameraType": "perspective",
        "fov": VIEWER_FOV,
        "aspect": width / height,
        "near": distance / 1000,
        "far": distance * 1000,
    }
