"""How well the small networks know mannequins that they never saw, beside the bars that they are to reach.

    python -m tools.evaluate_demo
    python -m tools.evaluate_demo build/demo --scenes 20 --tasks normal pose

Scenes are the held-out ones from number 0; checkpoints run as users run them, through the Estimator.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from sapiens2_core import Estimator
from sapiens2_core.body_parts import BODY_PARTS
from sapiens2_core.demo import HELD_OUT, random_scene, render
from sapiens2_core.demo.checkpoints import WEIGHTS, checkpoint_name, demo_tasks
from sapiens2_core.demo.measures import Frame, Measure, measure, part_ious, visible_people


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
        estimator = Estimator.from_checkpoint(folder / checkpoint_name(task), precision="fp32", device=device)
        frames: Iterable[Frame] = results(estimator, scenes)
        if task == "seg":
            frames = list(frames)
            print("  ".join(f"{BODY_PARTS[part].name} {iou:.2f}" for part, iou in part_ious(frames).items()))
        values |= measure(task, frames)
    return values


def table(values: dict[Measure, float]) -> str:
    """The measures beside their bars, as text."""
    lines = [f"{'':57}{'found':>8}{'bar':>9}"]
    for row, value in values.items():
        bar = "" if row.bar is None else f"{'≥' if row.is_better_above else '≤'} {row.bar:g}"
        verdict = "" if row.passes(value) else "  not reached"
        lines.append(f"{row.name:57}{value:8.3f}{bar:>9}{verdict}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> dict[Measure, float]:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder", type=Path, nargs="?", default=WEIGHTS, help="folder of checkpoints; the package's by default"
    )
    parser.add_argument("--scenes", type=int, default=200, help="how many, from number 0")
    parser.add_argument("--tasks", nargs="+", choices=demo_tasks(), default=demo_tasks())
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    if options.scenes > len(HELD_OUT):
        parser.error(f"only {len(HELD_OUT)} scenes are held out")
    values = evaluate(options.folder, HELD_OUT[: options.scenes], options.tasks, options.device)
    print(table(values))
    return values


if __name__ == "__main__":
    main()
