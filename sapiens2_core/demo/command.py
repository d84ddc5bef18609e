"""Every task on a drawn mannequin, by toy networks that were trained on others, beside the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from ..files import write_npz, write_png
from ..inference import Estimator
from ..keypoints import VISIBLE_SCORE
from ..outputs import write_result
from ..render import to_uint8
from .checkpoints import WEIGHTS, checkpoint_name, demo_tasks
from .dataset import HELD_OUT
from .measures import Measure, measure, visible_people
from .render import Render, render
from .scene import random_scene
from .sheet import contact_sheet

#: (height, width) of the picture: larger than what the networks take, so that enlarging is part of what is shown.
SIZE = (512, 384)


def find_checkpoints(folder: Path) -> dict[str, Path]:
    """The toy networks in a folder, by task.

    Raises:
        FileNotFoundError: one of them isn't there.
    """
    checkpoints = {task: folder / checkpoint_name(task) for task in demo_tasks()}
    missing = [path.name for path in checkpoints.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(missing)}. Train them: python -m tools.train_demo --output {folder}"
        )
    return checkpoints


def run_tasks(truth: Render, checkpoints: dict[str, Path]) -> dict[str, Any]:
    """What each task's toy network finds in a picture; pose with the truth's boxes, as a detector would give them."""
    found = {}
    with tqdm(checkpoints.items(), unit="task", leave=False) as bar:
        for task, checkpoint in bar:
            bar.set_description(task)
            boxes = masks = None
            if task == "pose":
                boxes = [[tuple(truth.boxes[person].tolist()) for person in visible_people(truth)]]
            elif task == "pointmap":
                masks = [found["seg"] > 0]
            estimator = Estimator.from_checkpoint(checkpoint, precision="fp32", device="cpu")
            ((found[task],),) = estimator.predict([truth.image], boxes, masks=masks)
    return found


def table(values: dict[Measure, float]) -> str:
    """What was measured, as text."""
    return "\n".join(f"{one.name:57}{value:8.3f}" for one, value in values.items())


def run_demo(output: Path, number: int, folder: Path = WEIGHTS) -> dict[Measure, float]:
    """Writes a contact sheet, every task's results and the truth of a held-out scene.

    Args:
        output: folder; made where it isn't there.
        number: of the scene, in :data:`~.dataset.HELD_OUT`.
        folder: of the toy networks; the package's own, or others that :mod:`tools.train_demo` wrote.

    Returns:
        Each measure of the results against the truth.

    Raises:
        ValueError: there is no such scene.
        FileNotFoundError: a network isn't there.
    """
    if number not in HELD_OUT:
        raise ValueError(f"There is no scene {number}; choose one from 0 to {HELD_OUT.stop - 1}.")
    checkpoints = find_checkpoints(folder)
    output.mkdir(parents=True, exist_ok=True)
    truth = render(random_scene(number, SIZE))
    found = run_tasks(truth, checkpoints)
    photo = torch.from_numpy(to_uint8(truth.image)).movedim(-1, 0)
    for task, result in found.items():
        write_result(task, output, "mannequin", photo, result, threshold=VISIBLE_SCORE)
    write_npz(
        output / "mannequin_truth.npz",
        labels=truth.labels,
        normals=truth.normals.movedim(0, -1),
        points=truth.points.movedim(0, -1),
        albedo=truth.albedo.movedim(0, -1),
        alpha=truth.alpha[0],
        keypoints=truth.keypoints,
        visibility=truth.visibility,
        focal_length=truth.focal_length,
    )
    write_png(output / "contact_sheet.png", contact_sheet(truth.image, found))
    return {one: value for task, result in found.items() for one, value in measure(task, [(result, truth)]).items()}
