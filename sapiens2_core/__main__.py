"""The command line: ``python -m sapiens2_core demo | predict | inspect | make-random``."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from .checkpoint import inspect
from .checks import check_boxes
from .config import SIZES, official_config, tiny_config
from .demo.checkpoints import WEIGHTS
from .demo.command import run_demo, table
from .estimators import build
from .hub import resolve
from .inference import Box, Estimator
from .keypoints import VISIBLE_SCORE
from .outputs import write_result
from .photos import check_photos, find_photos, open_photo, photo_size, result_names
from .precision import PRECISION_CHOICES
from .tasks import TASKS

logger = logging.getLogger("sapiens2")

#: How layouts are named to people.
_LAYOUTS = {"original": "the authors' names", "transformers": "transformers' names"}
_CHECKPOINT_HELP = ".safetensors file, folder of one, or repository on the Hugging Face hub (owner/name)"
_DEMO_SCENE = 11
_DTYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def _as_box(value: Any, where: str) -> Box:
    """A box of a JSON file: [x, y, width, height] or an object with these keys."""
    if isinstance(value, dict) and {"x", "y", "width", "height"} <= value.keys():
        value = [value["x"], value["y"], value["width"], value["height"]]
    numbers = isinstance(value, list) and all(isinstance(v, int | float) for v in value)
    if not numbers or len(value) != 4:
        raise ValueError(f"{where}: a box is [x, y, width, height] in pixels, not {json.dumps(value)}.")
    return tuple(float(v) for v in value)


def read_boxes(file: Path, photos: Sequence[Path]) -> list[list[Box]]:
    """The people's boxes for each photo.

    Args:
        file: JSON, either a list of boxes, for a single photo, or an object that has a list for every photo's file
            name. A box is [x, y, width, height] or an object with these keys, in pixels; an empty list is nobody.
        photos: the photos.

    Raises:
        ValueError: the file says something else, or misses a photo.
    """
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {file}.")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not JSON ({error}).") from error
    if isinstance(data, list):
        if len(photos) != 1:
            raise ValueError(f"{file} holds boxes for one photo; for {len(photos)}, give them by file name.")
        data = {photos[0].name: data}
    if not isinstance(data, dict):
        raise ValueError(f"{file} must hold a list of boxes, or one for each photo's file name.")
    missing = [photo.name for photo in photos if not isinstance(data.get(photo.name), list)]
    if missing:
        raise ValueError(f"{file} has no list of boxes for {', '.join(missing)}; an empty list means nobody.")
    return [[_as_box(box, f"{file}, {photo.name}") for box in data[photo.name]] for photo in photos]


def check_device(name: str | None) -> None:
    """Raises ValueError unless PyTorch can put something on the device of this name (None is its best one)."""
    if name is None:
        return
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:  # AssertionError: a PyTorch built without CUDA
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f'The device "{name}" can\'t be used here ({reason}). Leave --device out, or say cpu.'
        ) from error


def make_folder(folder: Path) -> None:
    """Makes ``folder`` where it isn't there.

    Raises:
        OSError: that can't be done; the message says why.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{folder} can't be made a folder to write to ({error.strerror}).") from error


def at_least_one(text: str) -> int:
    """A whole number of 1 or more, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def predict(arguments: argparse.Namespace) -> None:
    """Estimates what the checkpoint is for and writes it; checks what can be checked before it loads anything."""
    photos = find_photos(arguments.input)
    output: Path = arguments.output
    if output.resolve() == photos[0].parent.resolve() and arguments.input.is_dir():
        raise ValueError(f"{output} is where the photos are; choose another output folder, or results become photos.")
    check_device(arguments.device)
    checkpoint = resolve(arguments.checkpoint)
    info = inspect(checkpoint)
    if arguments.boxes is not None and info.task != "pose":
        raise ValueError(f"--boxes is for pose; this checkpoint {TASKS[info.task].does}.")
    boxes = None if arguments.boxes is None else read_boxes(arguments.boxes, photos)
    check_photos(tqdm(photos, desc="Checking photos", unit="photo", leave=False, disable=len(photos) == 1))
    for photo, photo_boxes in zip(photos, boxes or [], strict=boxes is not None):
        check_boxes(photo_boxes, *photo_size(photo), photo.name)
    make_folder(output)

    logger.info("%s %s (%s).", arguments.checkpoint, TASKS[info.task].does, info.size)
    estimator = Estimator.from_checkpoint(checkpoint, arguments.precision, arguments.device)
    logger.info("Running on %s in %s.", estimator.device, _DTYPES.get(estimator.dtype, estimator.dtype))

    in_work: deque[tuple[str, Tensor]] = deque()

    def frames() -> Iterator[Tensor]:
        for path, name in zip(photos, result_names(photos), strict=True):
            in_work.append((name, open_photo(path)))
            yield in_work[-1][1]

    with tqdm(total=len(photos), desc=info.task, unit="photo") as bar:
        for results in estimator.predict(frames(), boxes, batch_size=arguments.batch_size):
            for result in results:
                name, photo = in_work.popleft()
                write_result(info.task, output, name, photo, result, arguments.score_threshold)
                bar.update()
    logger.info("Wrote the results of %d photo%s to %s.", len(photos), "" if len(photos) == 1 else "s", output)


def describe(arguments: argparse.Namespace) -> None:
    """Says what a checkpoint is."""
    info = inspect(resolve(arguments.file))
    task, (height, width) = TASKS[info.task], info.config.image_height_width
    fitting = "kept in shape and padded" if task.letterbox else "stretched"
    if info.task == "pose":
        fitting = "a crop around each person"
    lines = {
        "Checkpoint": info.path,
        "Does": f"{task.does} (task {task.name})",
        "Size": f"{info.size}, {info.num_parameters / 1e6:,.1f} million parameters",
        "Layout": f"{info.layout} ({_LAYOUTS[info.layout]})",
        "Stored as": f"{_DTYPES.get(info.dtype, info.dtype)}, {info.num_bytes / 1e6:,.1f} MB",
        "Native input": f"{width} × {height} pixels (width × height), {fitting}",
    }
    for title, text in lines.items():
        print(f"{title + ':':<14}{text}")


def make_random(arguments: argparse.Namespace) -> None:
    """Writes a checkpoint with random weights."""
    output: Path = arguments.output
    if output.suffix != ".safetensors":
        raise ValueError(f"{output} must end in .safetensors.")
    size, task = arguments.size, arguments.task
    if task != "pretrain" and size in ("0.1b", "1b-4k"):
        raise ValueError(f"Size {size} exists for the task pretrain only.")
    make_folder(output.parent)
    torch.manual_seed(arguments.seed)
    model = build(tiny_config(task) if size == "tiny" else official_config(size, task), task)
    model.save_checkpoint(output)
    print(
        f"Wrote {output}: {TASKS[task].does}, size {size}, with RANDOM weights.\n"
        "It has the shape of a real checkpoint and shows that everything runs, but what it gives means nothing."
    )


def demo(arguments: argparse.Namespace) -> None:
    """Runs every task on a mannequin."""
    values = run_demo(arguments.output, arguments.scene, arguments.checkpoints)
    print(f"Against the truth:\n{table(values)}\n")
    print(
        f"Look at {arguments.output / 'contact_sheet.png'}; the rest of {arguments.output} is the data.\n"
        "These are toy networks that know rendered mannequins alone: for photos, get Sapiens2's own checkpoints."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sapiens2_core", description="Sapiens2: people in pictures.")
    parser.add_argument("--verbose", action="store_true", help="say more; show where an error came from")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "demo",
        help="run every task on a drawn mannequin, with toy networks that were trained on others",
        description="Draws a mannequin, runs every task with the package's toy networks and writes a contact sheet, "
        "the data and the truth. Needs no network connection.",
    )
    command.add_argument("--checkpoints", type=Path, default=WEIGHTS, help="folder of other toy networks")
    command.add_argument("--output", type=Path, default=Path("output/demo"), help="folder; default output/demo")
    command.add_argument("--scene", type=int, default=_DEMO_SCENE, help=f"which mannequin; default {_DEMO_SCENE}")
    command.set_defaults(run=demo)

    command = commands.add_parser(
        "predict",
        help="run a checkpoint over photos",
        description="Runs a checkpoint over photos and writes, for whatever it is for, a picture to look at and the "
        "data (NPZ arrays as height, width, channels; pose as JSON).",
    )
    command.add_argument("--checkpoint", required=True, help=_CHECKPOINT_HELP)
    command.add_argument("--input", type=Path, required=True, help="photo, or folder of photos")
    command.add_argument("--output", type=Path, required=True, help="folder to write to")
    command.add_argument("--precision", choices=PRECISION_CHOICES, default="auto")
    command.add_argument("--device", help="such as cpu, cuda, cuda:1; the best there is by default")
    command.add_argument("--batch-size", type=at_least_one, default=1, help="photos (pose: people) at once; default 1")
    command.add_argument(
        "--boxes",
        type=Path,
        help="pose only: JSON with the people's boxes [x, y, width, height] in pixels, a list for one photo or "
        "{file name: list}; the whole photo is one person by default",
    )
    command.add_argument(
        "--score-threshold",
        type=float,
        default=VISIBLE_SCORE,
        help="pose only: keypoints above it count as seen; default %(default)s",
    )
    command.set_defaults(run=predict)

    command = commands.add_parser("inspect", help="say what a checkpoint is")
    command.add_argument("file", metavar="FILE", help=_CHECKPOINT_HELP)
    command.set_defaults(run=describe)

    command = commands.add_parser(
        "make-random",
        help="write a checkpoint with random weights, to try everything without a download",
        description="Writes a checkpoint of a real one's shape with RANDOM weights. What it gives means nothing.",
    )
    command.add_argument("--task", choices=TASKS, required=True)
    command.add_argument("--size", choices=("tiny", *SIZES), default="tiny")
    command.add_argument("--output", type=Path, required=True, help=".safetensors file to write")
    command.add_argument("--seed", type=int, default=0)
    command.set_defaults(run=make_random)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; 0 when it worked, 2 when the input was wrong, 1 when the result was, 130 when stopped."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.DEBUG if parsed.verbose else logging.INFO)
    try:
        parsed.run(parsed)
    except KeyboardInterrupt:
        print("Stopped. What is written is complete.", file=sys.stderr)
        return 130
    except (ValueError, OSError, RuntimeError) as error:
        logger.debug("Where it came from:", exc_info=True)
        print(f"Error: {error}", file=sys.stderr)
        return 1 if isinstance(error, RuntimeError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
