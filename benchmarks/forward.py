"""One frame through each task's network: this package against transformers, on the same weights and pixels.

Each side runs in a process of its own; the two take turns, so that a machine whose speed drifts treats both alike.
Printed per task: median seconds, their ratio, peak memory while running, the part of it above the loaded weights, and
how much the outputs differ.

    python benchmarks/forward.py                          # every task, 0.4b, 1024 × 768, fp32 and auto
    python benchmarks/forward.py --tasks normal --runs 3
    python benchmarks/forward.py --size 0.1b --tasks pretrain --input 512x384
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.turns import Side, take_turns  # noqa: E402
from sapiens2_core.config import Sapiens2Config, official_config  # noqa: E402
from sapiens2_core.estimators import build  # noqa: E402
from sapiens2_core.precision import PRECISIONS, choose_dtype  # noqa: E402
from sapiens2_core.tasks import TASKS  # noqa: E402

#: transformers has no albedo head.
COMPARED = [name for name in TASKS if name != "albedo"]


def sized_config(size: str, task: str, image_size: tuple[int, int]) -> Sapiens2Config:
    """An official size's configuration of a task for inputs of (height, width) ``image_size``."""
    config = official_config(size, task)
    config.image_size = list(image_size)
    if task == "pointmap":
        head = config.head_config
        head.scale_final_input_size = head.flattened_scale_size(image_size, config.patch_height_width)
    return config


def serve(side: str, folder: Path, task: str, dtype: torch.dtype, size: tuple[int, int]) -> None:
    """Loads one side's network, then runs it once for every line on standard input and says how long it took."""
    if side == "ours":
        from sapiens2_core.checkpoint import load

        model = load(folder, dtype=dtype)
    else:
        import transformers

        model = getattr(transformers, TASKS[task].estimator).from_pretrained(folder, dtype=dtype).eval()
    pixel_values = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0)).to(dtype)

    def run() -> object:
        with torch.inference_mode():
            return model(pixel_values)

    def keep(outputs: object) -> None:
        tensors = {name: value for name, value in vars(outputs).items() if isinstance(value, torch.Tensor)}
        save_file({name: value.float().clone() for name, value in tensors.items()}, outputs_of(folder, side, dtype))

    take_turns(run, after_first=keep)


def outputs_of(folder: Path, side: str, dtype: torch.dtype) -> Path:
    """Where a side leaves what its network gave."""
    return folder / f"outputs_{side}_{str(dtype).removeprefix('torch.')}.safetensors"


def difference(folder: Path, ours: torch.dtype, theirs: torch.dtype) -> float:
    """The largest difference of any output, in standard deviations of transformers' output (or in its value)."""
    mine, others = (load_file(outputs_of(folder, *side)) for side in (("ours", ours), ("transformers", theirs)))
    return max(
        float((mine[name] - other).abs().max() / (other.std() if other.numel() > 1 else other.abs()))
        for name, other in others.items()
    )


def start(side: str, folder: Path, task: str, dtype: torch.dtype, size: tuple[int, int]) -> Side:
    """A child process that runs one side."""
    name = next(name for name, value in PRECISIONS.items() if value is dtype)
    return Side(
        __file__, "--serve", side, "--folder", str(folder), "--tasks", task,
        "--precision", name, "--input", f"{size[0]}x{size[1]}",
    )  # fmt: skip


def compare(folder: Path, task: str, types: dict[str, torch.dtype], size: tuple[int, int], runs: int) -> None:
    """Prints a task's rows: each of ours beside each of transformers' that it is measured against."""
    sides = {name: start(name.split()[0], folder, task, dtype, size) for name, dtype in types.items()}
    for _ in range(runs):
        for side in sides.values():
            side.run()
    for side in sides.values():
        side.close()
    pairs = (("ours fp32", "transformers fp32"), ("ours auto", "transformers fp32"), ("ours auto", "transformers bf16"))
    for mine, other in pairs:
        if mine not in sides or other not in sides:
            continue
        a, b = sides[mine], sides[other]
        print(
            f"{task:9} {mine:10} {other:18} {a.seconds:8.2f} {b.seconds:8.2f} {a.seconds / b.seconds:6.2f} "
            f"{a.peak:9.0f} {b.peak:9.0f} {a.extra:9.0f} {b.extra:9.0f} {a.extra / b.extra:6.2f} "
            f"{difference(folder, types[mine], types[other]):10.1e}",
            flush=True,
        )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=COMPARED, choices=COMPARED)
    parser.add_argument("--size", default="0.4b")
    parser.add_argument("--input", default="1024x768", help="height x width")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--fp32-only", action="store_true", help="leave out auto and transformers in bf16")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = tuple(int(side) for side in options.input.split("x"))
    if options.serve:
        serve(options.serve, options.folder, options.tasks[0], PRECISIONS[options.precision], size)
        return

    types = {"ours fp32": torch.float32, "transformers fp32": torch.float32}
    if not options.fp32_only:
        auto = choose_dtype(torch.device("cpu"))
        types |= {"ours auto": auto, "transformers bf16": torch.bfloat16}
        print(f"auto is {str(auto).removeprefix('torch.')} here")
    print(f"{options.size}, one frame of {options.input}, median of {options.runs}, {torch.get_num_threads()} threads")
    print("seconds; MB at the peak while running; MB of it above what the loaded process had;")
    print("largest difference of the outputs, in standard deviations of transformers' output")
    head = f"{'task':9} {'ours':10} {'against':18} {'':>8} {'s':>8} {'ratio':>6} {'':>9} {'MB':>9}"
    print(f"{head} {'':>9} {'MB':>9}  ratio difference")
    for task in options.tasks:
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(0)
            build(sized_config(options.size, task, size), task).save_pretrained(folder)
            compare(Path(folder), task, types, size, options.runs)


if __name__ == "__main__":
    main()
