"""Where a network's time goes, by kind of work: this package's beside transformers', on the same weights and pixels.

    python benchmarks/layers.py                       # 0.4b normals, 1024 × 768, fp32
    python benchmarks/layers.py --task seg --precision bf16

Seconds are PyTorch's own, of its profiler, by operator; what the profiler itself costs is in them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.forward import COMPARED, sized_config
from sapiens2_core.checkpoint import load
from sapiens2_core.estimators import build
from sapiens2_core.precision import PRECISIONS
from sapiens2_core.tasks import TASKS

#: Kinds of work by the beginnings of their operators' names; the first that fits counts.
KINDS = {
    "attention": ("aten::_scaled_dot_product",),
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "mkldnn::_linear"),
    "convolutions": ("aten::mkldnn_convolution", "aten::convolution", "aten::_convolution", "aten::_slow_conv"),
    "copies and shuffles": (
        *("aten::copy_", "aten::clone", "aten::cat", "aten::_to_copy", "aten::contiguous", "aten::pixel_shuffle"),
        *("aten::native_channel_shuffle", "aten::repeat", "aten::fill_", "aten::zero_"),
    ),
    "norms": (
        *("aten::native_batch_norm", "aten::native_layer_norm", "aten::_fused_rms_norm", "aten::mean", "aten::rsqrt"),
        *("aten::pow", "aten::sum", "aten::square", "aten::sub", "aten::var"),
    ),
    "activations and sums": ("aten::silu", "aten::mul", "aten::add", "aten::neg", "aten::sigmoid", "aten::div"),
}


def kind_of(event) -> str:
    """The kind of an operator that was profiled.

    A linear layer that runs as a 1 × 1 convolution (see sapiens2_core/onednn.py) is a matrix product.
    """
    shapes = event.input_shapes
    if "convolution" in event.key and len(shapes) > 1 and shapes[0] and shapes[0][-1] == 1 and shapes[1][2:] == [1, 1]:
        return "matrix products"
    return next((kind for kind, names in KINDS.items() if event.key.startswith(names)), "other")


def seconds_by_kind(model: torch.nn.Module, pixel_values: torch.Tensor, runs: int) -> dict[str, float]:
    """Seconds of one run in each kind of work, mean over ``runs`` after one that isn't counted."""
    found: dict[str, float] = defaultdict(float)
    with torch.inference_mode():
        model(pixel_values)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            for _ in range(runs):
                model(pixel_values)
    for event in profiler.key_averages(group_by_input_shape=True):
        found[kind_of(event)] += event.self_cpu_time_total / 1e6 / runs
    return found


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="normal", choices=COMPARED)
    parser.add_argument("--size", default="0.4b")
    parser.add_argument("--input", default="1024x768", help="height x width")
    parser.add_argument("--precision", default="fp32", choices=PRECISIONS)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    size = tuple(int(side) for side in options.input.split("x"))
    dtype = PRECISIONS[options.precision]
    pixel_values = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0)).to(dtype)
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        build(sized_config(options.size, options.task, size), options.task).save_pretrained(folder)
        ours = seconds_by_kind(load(Path(folder), dtype=dtype), pixel_values, options.runs)
        import transformers

        model = getattr(transformers, TASKS[options.task].estimator).from_pretrained(folder, dtype=dtype).eval()
        theirs = seconds_by_kind(model, pixel_values, options.runs)
    print(f"{options.size} {options.task}, {options.input}, {options.precision}, {torch.get_num_threads()} threads")
    print(f"{'seconds':22} {'ours':>8} {'transformers':>13} {'ratio':>6}")
    for kind in (*KINDS, "other"):
        ratio = f"{ours[kind] / theirs[kind]:6.2f}" if theirs[kind] > 0.005 else "     –"
        print(f"{kind:22} {ours[kind]:8.2f} {theirs[kind]:13.2f} {ratio}")
    total, other = sum(ours.values()), sum(theirs.values())
    print(f"{'all':22} {total:8.2f} {other:13.2f} {total / other:6.2f}")


if __name__ == "__main__":
    main()
