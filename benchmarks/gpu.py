"""What a GPU gives, in one go: speed against transformers and the card, compilation, streaming, partial loading.

Random weights; the two networks take turns on the same pixels. Sized for a few minutes on a large card.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --device cpu --size tiny    # shows that it runs
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.partial import CastingOperations, difference
from benchmarks.stream import FEW, device_peak, with_estimator
from sapiens2_core.checkpoint import load
from sapiens2_core.compilation import compile_parts
from sapiens2_core.config import SIZES, official_config, tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.inference import Estimator
from sapiens2_core.tasks import TASKS

BATCHES = (1, 4)
DTYPE = torch.bfloat16


def seconds(job: Callable[[], object], device: torch.device) -> float:
    """How long a job takes on a device."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    job()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def medians(jobs: dict[str, Callable[[], object]], device: torch.device, runs: int) -> dict[str, float]:
    """Median seconds of jobs that take turns, after two turns that don't count."""
    turns = [{name: seconds(job, device) for name, job in jobs.items()} for _ in range(runs + 2)][2:]
    return {name: statistics.median(turn[name] for turn in turns) for name in jobs}


def matrix_rate(device: torch.device, side: int, runs: int) -> float:
    """Operations per second of a product of square bf16 matrices."""
    a, b = (torch.randn(side, side, device=device, dtype=DTYPE) for _ in range(2))
    return 2 * side**3 / medians({"product": lambda: a @ b}, device, runs)["product"]


def networks(folder: Path, device: torch.device) -> dict[str, nn.Module]:
    """Ours, and transformers' where it is installed, with the same weights."""
    found = {"ours": load(folder, DTYPE, device)}
    if importlib.util.find_spec("transformers") is None:
        print("transformers isn't installed: ours alone")
        return found
    import transformers

    theirs = getattr(transformers, TASKS["normal"].estimator).from_pretrained(folder, dtype=DTYPE)
    return found | {"transformers": theirs.to(device).eval()}


def forward_of(model: nn.Module, pixel_values: Tensor) -> Callable[[], object]:
    """A job: one forward pass."""

    def run() -> object:
        with torch.inference_mode():
            return model(pixel_values)

    return run


def compare(models: dict[str, nn.Module], device: torch.device, size: list[int], rate: float, runs: int) -> None:
    """Prints frames per second and the share of the card's rate, then the same compiled."""
    pixels = {batch: torch.randn(batch, 3, *size, device=device, dtype=DTYPE) for batch in BATCHES}
    eager = {}
    for batch, pixel_values in pixels.items():
        with FlopCounterMode(display=False) as counter:
            forward_of(models["ours"], pixel_values)()
        times = medians({name: forward_of(model, pixel_values) for name, model in models.items()}, device, runs)
        eager[batch] = times["ours"]
        speeds = ", ".join(f"{name} {batch / taken:.2f}" for name, taken in times.items())
        ratio = f", ratio {times['transformers'] / times['ours']:.2f}" if "transformers" in times else ""
        share = counter.get_total_flops() / times["ours"] / rate
        print(f"batch {batch}: frames/s {speeds}{ratio}; {share:.0%} of the matrix rate", flush=True)
    models.pop("transformers", None)
    compile_parts(models["ours"])
    for batch, pixel_values in pixels.items():
        compiled = medians({"ours": forward_of(models["ours"], pixel_values)}, device, runs)["ours"]
        print(
            f"compiled, batch {batch}: frames/s {batch / compiled:.2f}, ratio {eager[batch] / compiled:.2f}", flush=True
        )


def stream(folder: Path, device: torch.device, frames: int) -> None:
    """Prints the device's peak for a few frames and for a long clip."""
    run = with_estimator(Estimator.from_checkpoint(folder, "bf16", device))
    clip = torch.rand(1, 1080, 1920, 3).expand(frames, -1, -1, -1)
    few, long = device_peak(run, clip[:FEW]), device_peak(run, clip)
    print(f"streaming: {FEW} frames {few:.0f} MB, {frames} frames {long:.0f} MB, ratio {long / few:.3f}", flush=True)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--size", default="1b", choices=("tiny", *SIZES))
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    device, on_gpu = options.device, options.device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else "CPU"
    print(f"{name}, PyTorch {torch.__version__}, {options.size} normals in bf16, median of {options.runs}")
    rate = matrix_rate(device, 8192 if on_gpu else 1024, options.runs)
    print(f"matrix products: {rate / 1e12:.2f} TFLOP/s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        config = tiny_config("normal") if options.size == "tiny" else official_config(options.size, "normal")
        torch.manual_seed(0)
        with device:  # drawn there: a billion numbers take a CPU a while
            build(config, "normal").to(DTYPE).save_pretrained(folder)
        if on_gpu:
            stream(Path(folder), device, 200)
        where = {"device": torch.device("cpu")} if on_gpu else {"dtype": torch.bfloat16}
        for task in TASKS:
            print(f"partly loaded {task}: {difference(task, CastingOperations, device, **where):.1e}", flush=True)
        compare(networks(Path(folder), device), device, config.image_size, rate, options.runs)


if __name__ == "__main__":
    main()
