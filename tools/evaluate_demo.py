"""How well the small networks know mannequins that they never saw, beside the bars that they are to reach.

    python -m tools.evaluate_demo build/demo
    python -m tools.evaluate_demo build/demo --scenes 20 --tasks normal pose

Scenes are the held-out ones from number 0; checkpoints run as users run them, through the Estimator. What is averaged
over pixels counts the pixels on people only, but for alpha.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from sapiens2_core import Estimator
from sapiens2_core.body_parts import BODY_PARTS
from sapiens2_core.demo import HELD_OUT, Render, random_scene, render
from sapiens2_core.keypoints import KEYPOINT_NAMES

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


MEASURES: tuple[Measure, ...] = (
    Measure("seg", "part mIoU over present classes", 0.70, True),
    Measure("normal", "normals, mean angular error in degrees", 12.0),
    Measure("pointmap", "depth, absolute relative error", 0.05),
    Measure("pointmap", "depth at the true focal length, absolute relative error", None),
    Measure("pointmap", "focal length, relative error", 0.10),
    Measure("pose", "body keypoints, PCK at 5 % of box height", 0.90, True),
    Measure("matting", "alpha, mean absolute error", 0.02),
    Measure("albedo", "albedo, mean absolute error", 0.05),
)

Frame = tuple[Any, Render]


def part_ious(frames: Iterator[Frame]) -> dict[int, float]:
    """Intersection over union of each class that is there, over all frames together; the background is a class."""
    count = len(BODY_PARTS)
    table = torch.zeros(count, count, dtype=torch.int64)
    for labels, truth in frames:
        pairs = truth.labels.long() * count + labels.long()
        table += torch.bincount(pairs.flatten(), minlength=count**2).view(count, count)
    hits, present = table.diagonal(), table.sum(dim=1)
    union = present + table.sum(dim=0) - hits
    return {part: float(hits[part] / union[part]) for part in range(count) if present[part]}


def _seg(frames: Iterator[Frame]) -> list[float]:
    ious = part_ious(frames)
    print("  ".join(f"{BODY_PARTS[part].name} {iou:.2f}" for part, iou in ious.items()))
    return [float(np.mean(list(ious.values())))]


def _mean_over_people(error_of: Callable[[Any, Render], Tensor], frames: Iterator[Frame]) -> float:
    """Mean of (H, W) errors over the pixels on people of all frames."""
    errors = [error_of(found, truth)[truth.mask] for found, truth in frames]
    return float(torch.cat(errors).mean())


def _normal(frames: Iterator[Frame]) -> list[float]:
    def angle(normals: Tensor, truth: Render) -> Tensor:
        return torch.rad2deg(torch.acos((normals * truth.normals).sum(dim=0).clamp(-1, 1)))

    return [_mean_over_people(angle, frames)]


def _pointmap(frames: Iterator[Frame]) -> list[float]:
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


def _pose(frames: Iterator[Frame]) -> list[float]:
    hits = []
    for found, truth in frames:
        for person, number in zip(found.people, visible_people(truth), strict=True):
            distance = (person.keypoints - truth.keypoints[number]).norm(dim=1)[BODY_KEYPOINTS]
            seen = truth.visibility[number][BODY_KEYPOINTS]
            hits.append((distance <= 0.05 * truth.boxes[number, 3])[seen])
    return [float(torch.cat(hits).float().mean())]


def _matting(frames: Iterator[Frame]) -> list[float]:
    return [float(np.mean([float((found.alpha - truth.alpha).abs().mean()) for found, truth in frames]))]


def _albedo(frames: Iterator[Frame]) -> list[float]:
    return [_mean_over_people(lambda albedo, truth: (albedo - truth.albedo).abs().mean(dim=0), frames)]


_EVALUATIONS = {
    "seg": _seg,
    "normal": _normal,
    "pointmap": _pointmap,
    "pose": _pose,
    "matting": _matting,
    "albedo": _albedo,
}


def results(estimator: Estimator, scenes: range, batch_size: int = 8) -> Iterator[Frame]:
    """What a checkpoint finds in held-out scenes drawn at its native size, each with the truth."""
    size = estimator.model.config.image_height_width
    with tqdm(total=len(scenes), desc=estimator.task.name, leave=False) as bar:
        for start in range(0, len(scenes), batch_size):
            truths = [render(random_scene(seed, size)) for seed in scenes[start : start + batch_size]]
            boxes = None
            if estimator.task.name == "pose":
                boxes = [[tuple(truth.boxes[person].tolist()) for person in visible_people(truth)] for truth in truths]
            batches = estimator.predict([truth.image for truth in truths], boxes, batch_size=batch_size)
            found = [frame for batch in batches for frame in batch]
            yield from zip(found, truths, strict=True)
            bar.update(len(truths))


def evaluate(folder: Path, scenes: range, tasks: Sequence[str], device: str = "cpu") -> dict[Measure, float]:
    """Measures the checkpoints in a folder, as :mod:`tools.train_demo` writes them, on held-out scenes."""
    values = {}
    for task in tasks:
        estimator = Estimator.from_checkpoint(folder / f"mannequin_{task}.safetensors", precision="fp32", device=device)
        measures = [measure for measure in MEASURES if measure.task == task]
        values |= zip(measures, _EVALUATIONS[task](results(estimator, scenes)), strict=True)
    return values


def table(values: dict[Measure, float]) -> str:
    """The measures beside their bars, as text."""
    lines = [f"{'':57}{'found':>8}{'bar':>9}"]
    for measure, value in values.items():
        bar = "" if measure.bar is None else f"{'≥' if measure.is_better_above else '≤'} {measure.bar:g}"
        verdict = "" if measure.passes(value) else "  not reached"
        lines.append(f"{measure.name:57}{value:8.3f}{bar:>9}{verdict}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> dict[Measure, float]:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the checkpoints")
    parser.add_argument("--scenes", type=int, default=200, help="how many, from number 0")
    parser.add_argument("--tasks", nargs="+", choices=list(_EVALUATIONS), default=list(_EVALUATIONS))
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    if options.scenes > len(HELD_OUT):
        parser.error(f"only {len(HELD_OUT)} scenes are held out")
    values = evaluate(options.folder, HELD_OUT[: options.scenes], options.tasks, options.device)
    print(table(values))
    return values


if __name__ == "__main__":
    main()
