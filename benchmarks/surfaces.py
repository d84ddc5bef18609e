"""How long a pointmap of 1024 × 768 takes to become a point cloud, a mesh, a GLB file and a depth picture.

python benchmarks/surfaces.py
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from sapiens2_core.demo import random_scene, render
from sapiens2_core.geometry import depth_picture
from sapiens2_core.glb import glb_bytes
from sapiens2_core.mesh import grid_mesh
from sapiens2_core.point_cloud import ply_bytes
from sapiens2_core.results import Pointmap

ROUNDS = 7


def milliseconds(job: Callable[[], object]) -> list[float]:
    """Of each round, after one that warms up."""
    job()
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        job()
        found.append(1000 * (time.perf_counter() - start))
    return found


def main() -> None:
    """Prints the median and the fastest round of each."""
    scene = render(random_scene(11, (1024, 768), persons=1, framing="ground"), 1)
    everywhere = torch.ones_like(scene.mask)
    focal_length = torch.tensor([scene.focal_length])
    pointmap = Pointmap(scene.points[None], 768 / focal_length, focal_length, scene.image[None])
    mesh = grid_mesh(scene.points, everywhere)
    jobs = {
        "point cloud (PLY)": lambda: ply_bytes(scene.points, scene.image, everywhere),
        "mesh": lambda: grid_mesh(scene.points, everywhere),
        "GLB of the mesh": lambda: glb_bytes([mesh], [scene.image]),
        "depth picture": lambda: depth_picture(pointmap),
    }
    for name, job in jobs.items():
        found = milliseconds(job)
        print(f"{name:18} {statistics.median(found):6.0f} ms, fastest {min(found):6.0f} ms")


if __name__ == "__main__":
    main()
