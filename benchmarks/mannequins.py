"""How many mannequins are drawn in a second: scenes, pictures and all their truth, one process per core.

python benchmarks/mannequins.py
python benchmarks/mannequins.py --size 1024x768 --supersample 4 --pictures 16
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def work(job: tuple[Sequence[int], tuple[int, int], int]) -> float:
    """Draws pictures; the seconds that this process computed for."""
    import torch

    from sapiens2_core.demo import random_scene, render

    torch.set_num_threads(1)
    seeds, size, supersample = job
    start = time.process_time()
    for seed in seeds:
        render(random_scene(seed, size), supersample)
    return time.process_time() - start


def main() -> None:
    """Prints pictures per second of time on the clock, and the computing time of one picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="256x192", help="height x width in pixels")
    parser.add_argument("--supersample", type=int, default=2)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    height, width = (int(side) for side in arguments.size.split("x"))

    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # inherited: each process has one core
    jobs = [
        (range(start, arguments.pictures, arguments.processes), (height, width), arguments.supersample)
        for start in range(arguments.processes)
    ]
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        pool.map(work, [(range(2), (height, width), arguments.supersample)] * arguments.processes, chunksize=1)
        start = time.perf_counter()
        seconds = pool.map(work, jobs, chunksize=1)
        elapsed = time.perf_counter() - start
    count = arguments.pictures
    print(
        f"{count} pictures of {height} × {width} by {arguments.processes} processes: {count / elapsed:.1f} per second"
    )
    print(f"{1000 * sum(seconds) / count:.0f} ms of computing each")


if __name__ == "__main__":
    main()
