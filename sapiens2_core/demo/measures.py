"""How well a network knows mannequins, measured against the truth that drew them.

What is averaged over pixels counts the pixels on people only, but for alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..body_parts import BODY_PARTS
from ..keypoints import KEYPOINT_NAMES
from .render import Render

#: Keypoints of the body: COCO's 17, among them wrists, which the table lists with the hands; not feet.
BODY_KEYPOINTS = [*range(15), KEYPOINT_NAMES.index("left_wrist"), KEYPOINT_NAMES.index("right_wrist")]


@dataclass(frozen=True)
class Measure:
    """One row of the table.

    Attributes:
        task: whose checkpoint is measured.
        name: what is measured, with its unit.
        bar: what is to be reached, None where it only informs.
        is_better_above: whether more is better.
    """

    task: str
    name: str
    bar: float | None
    is_better_above: bool = False

    def passes(self, value: float) -> bool:
        """Whether the bar is reached."""
        return self.bar is None or (value >= self.bar if self.is_better_above else value <= self.bar)


#: What is measured, in the order of the tasks. The bars are what three hours of training on two cores reach, 43 000
#: pictures seen; the aims of longer training are 0.90, 0.70, 12°, 5 %, 10 %, 0.02 and 0.05.
MEASURES: tuple[Measure, ...] = (
    Measure("pose", "body keypoints, PCK at 5 % of box height", 0.7, True),
    Measure("seg", "part mIoU over present classes", 0.26, True),
    Measure("normal", "normals, mean angular error in degrees", 20.5),
    Measure("pointmap", "depth, absolute relative error", 0.22),
    Measure("pointmap", "depth at the true focal length, absolute relative error", None),
    Measure("pointmap", "focal length, relative error", 0.2),
    Measure("matting", "alpha, mean absolute error", 0.032),
    Measure("albedo", "albedo, mean absolute error", 0.075),
)

Frame = tuple[Any, Render]


def part_ious(frames: Iterable[Frame]) -> dict[int, float]:
    """Intersection over union of each class that is there, over all frames together; the background is a class."""
    count = len(BODY_PARTS)
    table = torch.zeros(count, count, dtype=torch.int64)
    for labels, truth in frames:
        pairs = truth.labels.long() * count + labels.long()
        table += torch.bincount(pairs.flatten(), minlength=count**2).view(count, count)
    hits, present = table.diagonal(), table.sum(dim=1)
    union = present + table.sum(dim=0) - hits
    return {part: float(hits[part] / union[part]) for part in range(count) if present[part]}


def _seg(frames: Iterable[Frame]) -> list[float]:
    return [float(np.mean(list(part_ious(frames).values())))]


def _mean_over_people(error_of: Callable[[Any, Render], Tensor], frames: Iterable[Frame]) -> float:
    """Mean of (H, W) errors over the pixels on people of all frames."""
    errors = [error_of(found, truth)[truth.mask] for found, truth in frames]
    return float(torch.cat(errors).mean())


def _normal(frames: Iterable[Frame]) -> list[float]:
    def angle(normals: Tensor, truth: Render) -> Tensor:
        return torch.rad2deg(torch.acos((normals * truth.normals).sum(dim=0).clamp(-1, 1)))

    return [_mean_over_people(angle, frames)]


def _pointmap(frames: Iterable[Frame]) -> list[float]:
    depth_errors, shape_errors, focal_errors = [], [], []
    for found, truth in frames:
        depth = truth.points[2][truth.mask]
        metric = found.points[2][truth.mask]
        ratio = found.focal_length / truth.focal_length  # metric depth is canonical depth times the focal length
        depth_errors.append((metric - depth).abs() / depth)
        shape_errors.append((metric / ratio - depth).abs() / depth)
        focal_errors.append(abs(ratio - 1))
    depth_error, shape_error = (float(torch.cat(errors).mean()) for errors in (depth_errors, shape_errors))
    return [depth_error, shape_error, float(np.mean(focal_errors))]


def visible_people(truth: Render) -> list[int]:
    """Numbers of the people that show."""
    return [person for person in range(len(truth.boxes)) if (truth.persons == person + 1).any()]


def _pose(frames: Iterable[Frame]) -> list[float]:
    hits = []
    for found, truth in frames:
        for person, number in zip(found.people, visible_people(truth), strict=True):
            distance = (person.keypoints - truth.keypoints[number]).norm(dim=1)[BODY_KEYPOINTS]
            seen = truth.visibility[number][BODY_KEYPOINTS]
            hits.append((distance <= 0.05 * truth.boxes[number, 3])[seen])
    return [float(torch.cat(hits).float().mean())]


def _matting(frames: Iterable[Frame]) -> list[float]:
    return [float(np.mean([float((found.alpha - truth.alpha).abs().mean()) for found, truth in frames]))]


def _albedo(frames: Iterable[Frame]) -> list[float]:
    return [_mean_over_people(lambda albedo, truth: (albedo - truth.albedo).abs().mean(dim=0), frames)]


_EVALUATIONS: dict[str, Callable[[Iterable[Frame]], list[float]]] = {
    "seg": _seg,
    "normal": _normal,
    "pointmap": _pointmap,
    "pose": _pose,
    "matting": _matting,
    "albedo": _albedo,
}


def measure(task: str, frames: Iterable[Frame]) -> dict[Measure, float]:
    """A task's measures over frames: what :meth:`~sapiens2_core.inference.Estimator.predict` gave, and the truth."""
    return dict(zip([one for one in MEASURES if one.task == task], _EVALUATIONS[task](frames), strict=True))
