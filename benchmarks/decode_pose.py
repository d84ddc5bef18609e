"""Heatmaps of several people to keypoints: this package against transformers, on the same heatmaps.

Each side runs `post_process_pose_estimation` in a process of its own, and the two take turns, so that a machine whose
speed drifts treats both alike. Printed per kind of heatmaps: median seconds, the most memory above what the process
had before, and the ratios.

    python benchmarks/decode_pose.py                    # 8 people, 308 keypoints, maps of 256 × 192
    python benchmarks/decode_pose.py --people 2 --runs 3
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.turns import Side, take_turns  # noqa: E402

KEYPOINTS, HEIGHT, WIDTH = 308, 256, 192
#: gaussians: peaks as a trained network makes them, some weak. noise: around zero, so that the clamp acts on each map.
KINDS = ("gaussians", "flip test", "bfloat16", "noise")


def make_heatmaps(kind: str, people: int) -> Tensor:
    """(people, 308, 256, 192)."""
    torch.manual_seed(0)
    if kind == "noise":
        return 0.01 * torch.randn(people, KEYPOINTS, HEIGHT, WIDTH)
    points = torch.rand(people, KEYPOINTS, 2) * torch.tensor([WIDTH - 1, HEIGHT - 1])
    x = torch.exp(-0.5 * ((torch.arange(WIDTH) - points[..., :1]) / 6) ** 2)  # standard deviation 6, the authors'
    y = torch.exp(-0.5 * ((torch.arange(HEIGHT) - points[..., 1:]) / 6) ** 2)
    heatmaps = y[..., :, None] * (x * torch.rand(people, KEYPOINTS, 1))[..., None, :]
    return heatmaps.bfloat16() if kind == "bfloat16" else heatmaps


def serve(side: str, kind: str, people: int) -> None:
    """Makes the heatmaps, then decodes them once for every line on standard input and says how long it took."""
    if side == "ours":
        from sapiens2_core.image_processor import Sapiens2ImageProcessor
    else:
        from transformers import Sapiens2ImageProcessor
    processor = Sapiens2ImageProcessor()
    outputs = SimpleNamespace(heatmaps=make_heatmaps(kind, people))
    flipped = SimpleNamespace(heatmaps=outputs.heatmaps * 0.9) if kind == "flip test" else None
    boxes = [[[10.0 * index, 20.0, 300.0, 400.0] for index in range(people)]]
    # Code and threads that the first call brings in are no part of what a call needs.
    few = SimpleNamespace(heatmaps=outputs.heatmaps[:1, :4])
    processor.post_process_pose_estimation(few, [boxes[0][:1]])
    take_turns(lambda: processor.post_process_pose_estimation(outputs, boxes, flipped))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.kinds[0], options.people)
        return
    print(
        f"{options.people} people, {KEYPOINTS} maps of {HEIGHT} × {WIDTH} each, median of {options.runs}, "
        f"{torch.get_num_threads()} threads"
    )
    print(f"{'heatmaps':10} {'ours s':>8} {'theirs s':>9} {'faster':>7} {'ours MB':>9} {'theirs MB':>10} {'share':>6}")
    for kind in options.kinds:
        ours, theirs = (
            Side(__file__, "--serve", side, "--kinds", kind, "--people", str(options.people))
            for side in ("ours", "transformers")
        )
        for _ in range(options.runs):
            ours.run()
            theirs.run()
        ours.close()
        theirs.close()
        print(
            f"{kind:10} {ours.seconds:8.3f} {theirs.seconds:9.3f} {theirs.seconds / ours.seconds:6.1f}× "
            f"{ours.extra:9.0f} {theirs.extra:10.0f} {ours.extra / theirs.extra:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
