"""Loading a checkpoint from a warm disk cache, against reading its file as plain bytes.

Printed per stored type and type loaded into: median seconds of both, and how many readings one loading takes.

    python benchmarks/load.py                  # 0.4b normals
    python benchmarks/load.py --size 1b --runs 3
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sapiens2_core.checkpoint import load
from sapiens2_core.config import SIZES, official_config
from sapiens2_core.estimators import build
from sapiens2_core.precision import PRECISIONS

STORED = ("fp32", "bf16")


def seconds(job: Callable[[], object]) -> float:
    """How long a job takes; what it gives is released outside of that."""
    started = time.perf_counter()
    result = job()
    taken = time.perf_counter() - started
    del result
    return taken


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="0.4b", choices=SIZES)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.size} normals, median of {options.runs}, {torch.get_num_threads()} threads")
    print(f"{'stored':6} {'loaded':6} {'MB':>7} {'read s':>7} {'load s':>7} {'readings':>9}")
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        model = build(official_config(options.size, "normal"), "normal")
        for stored in STORED:
            path = Path(folder) / f"{stored}.safetensors"
            model.to(PRECISIONS[stored]).save_checkpoint(path)
            for into in STORED:
                jobs = (path.read_bytes, lambda path=path, into=into: load(path, PRECISIONS[into]))
                for job in jobs:  # warms the cache
                    job()
                # The two take turns, so that a machine whose speed drifts treats both alike.
                turns = [[seconds(job) for job in jobs] for _ in range(options.runs)]
                read, loading = (statistics.median(times) for times in zip(*turns, strict=True))
                size = path.stat().st_size / 1e6
                print(f"{stored:6} {into:6} {size:7.0f} {read:7.2f} {loading:7.2f} {loading / read:9.2f}", flush=True)


if __name__ == "__main__":
    main()
