"""Skeletons drawn in a minute, by one thread, of the styles of Render Pose.

python benchmarks/draw_pose.py                       # 2 people in 1280 × 720
python benchmarks/draw_pose.py --people 8 --size 1920 1080
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sapiens2_core.openpose_in import openpose_people  # noqa: E402
from sapiens2_core.render import draw_pose  # noqa: E402
from sapiens2_core.render_openpose import draw_openpose  # noqa: E402
from sapiens2_core.results import FramePose  # noqa: E402
from tests.synthetic_person import synthetic_person  # noqa: E402


def frames_per_minute(draw: Callable[[FramePose], object], frame: FramePose, frames: int = 50) -> float:
    """From the time that the thread computes: what else the machine does counts little."""
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    draw(frame)
    started = time.thread_time()
    for _ in range(frames):
        draw(frame)
    return 60 * frames / (time.thread_time() - started)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=2)
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720), metavar=("WIDTH", "HEIGHT"))
    options = parser.parse_args()
    width, height = options.size
    places = ((index + 0.5) / options.people for index in range(options.people))
    people = tuple(synthetic_person((place * width, 0.1 * height), height / 2000) for place in places)
    frame = FramePose(people, height, width)
    print(f"{options.people} people in {width} × {height}, frames a minute")
    for style, draw in {
        "OpenPose": lambda frame: draw_openpose(openpose_people(frame, 0.3)),
        "OpenPose thick for SDXL": lambda frame: draw_openpose(openpose_people(frame, 0.3), thick=True),
        "Sapiens 308": draw_pose,
    }.items():
        print(f"{style:24} {frames_per_minute(draw, frame):8.0f}", flush=True)


if __name__ == "__main__":
    main()
