"""What weights in eight bits save and what they cost: memory, and the error of each task's outputs.

Random weights. Printed per task: MB of weights in bf16 and with fp8 weights; how far outputs are from those in fp32, as
root mean square in the outputs' standard deviations: in bf16, with fp8 weights computed in bf16, and in fp32.

    python benchmarks/fp8.py                                 # 0.4b on 256 × 192 pixels
    python benchmarks/fp8.py --size 1b --input 1024x768 --device cuda
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.forward import sized_config
from sapiens2_core.checkpoint import load
from sapiens2_core.config import SIZES
from sapiens2_core.estimators import build
from sapiens2_core.tasks import TASKS

#: Type computed in, and whether weights are in eight bits.
WAYS = {
    "fp32": (torch.float32, False),
    "bf16": (torch.bfloat16, False),
    "fp8 bf16": (torch.bfloat16, True),
    "fp8 fp32": (torch.float32, True),
}


def megabytes(model: nn.Module) -> float:
    """Size of the weights."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) / 1e6


def outputs(model: nn.Module, pixel_values: Tensor) -> list[Tensor]:
    """All outputs in float32 on the CPU."""
    with torch.inference_mode():
        values = vars(model(pixel_values.to(model.device, model.dtype))).values()
    return [value.float().cpu() for value in values if isinstance(value, Tensor)]


def error(found: list[Tensor], exact: list[Tensor]) -> float:
    """The worst output's root mean square, in its standard deviations (or, of one number, in its value)."""
    return max(
        float((a - b).square().mean().sqrt() / (b.std() if b.numel() > 1 else b.abs()))
        for a, b in zip(found, exact, strict=True)
    )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--size", default="0.4b", choices=SIZES)
    parser.add_argument("--input", default="256x192", help="height x width")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    size = tuple(int(side) for side in options.input.split("x"))
    pixel_values = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0))
    print(f"{options.size}, one frame of {options.input}")
    print(f"{'task':9} {'bf16 MB':>8} {'fp8 MB':>8} {'share':>6} {'bf16':>8} {'fp8 bf16':>9} {'fp8 fp32':>9}")
    for task in options.tasks:
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(0)
            build(sized_config(options.size, task, size), task).save_pretrained(folder)
            found, sizes = {}, {}
            for way, (dtype, fp8_weights) in WAYS.items():
                model = load(folder, dtype, options.device, fp8_weights=fp8_weights)
                found[way], sizes[way] = outputs(model, pixel_values), megabytes(model)
                del model
        errors = {way: error(values, found["fp32"]) for way, values in found.items()}
        share = sizes["fp8 bf16"] / sizes["bf16"]
        print(
            f"{task:9} {sizes['bf16']:8.0f} {sizes['fp8 bf16']:8.0f} {share:6.2f} {errors['bf16']:8.1e} "
            f"{errors['fp8 bf16']:9.1e} {errors['fp8 fp32']:9.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
