"""A long clip through Estimate Normals: how much memory it takes beyond its result.

The clip is a view of one frame, so what is measured is what the work on it holds. Printed: MB of the result, MB of the
host's memory at the most above what the loaded process had, their ratio; on CUDA the device's peak for 8 frames and for
all of them too.

    python benchmarks/stream.py                        # the Estimator, a tiny network, 200 frames of 1080 × 1920
    python benchmarks/stream.py --size 1b --frames 50
    python benchmarks/stream.py --comfyui ~/ComfyUI    # the node itself; run it with the Python that runs ComfyUI
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.turns import forget_peak, memory  # noqa: E402
from sapiens2_core.config import SIZES, official_config, tiny_config  # noqa: E402
from sapiens2_core.estimators import build  # noqa: E402
from sapiens2_core.inference import Estimator  # noqa: E402

NAME = "streamed_normal.safetensors"
FEW = 8


def with_estimator(estimator: Estimator) -> Callable[[Tensor], Tensor]:
    """A function from a clip (B, H, W, 3) to its normals (B, 3, H, W)."""

    def run(clip: Tensor) -> Tensor:
        frames, height, width, _ = clip.shape
        normals = torch.empty(frames, 3, height, width)
        batches = estimator.predict(frame.movedim(-1, 0) for frame in clip)
        for index, (found,) in enumerate(batches):
            normals[index] = found
        return normals

    return run


def with_node(folder: Path, comfyui: Path) -> Callable[[Tensor], Tensor]:
    """A function from a clip (B, H, W, 3) to what ComfyUI's node makes of it (B, H, W, 3)."""
    sys.path.insert(0, str(comfyui))  # in front of ours: both have something called nodes
    from comfy.cli_args import args

    args.cpu = not torch.cuda.is_available()
    import folder_paths

    # As ComfyUI imports a pack: a package named by its folder, whose insides import each other relatively.
    spec = importlib.util.spec_from_file_location("pack", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)])
    sys.modules["pack"] = importlib.util.module_from_spec(spec)
    from pack.nodes import host
    from pack.nodes.normals import Sapiens2EstimateNormals

    folder_paths.add_model_folder_path("sapiens2", str(folder))
    host.register_model_folders()
    loaded = host.load_estimator(NAME, "auto")

    def run(clip: Tensor) -> Tensor:
        return Sapiens2EstimateNormals.execute(loaded, clip, "opengl", "keep", 1).args[0]

    return run


def device_peak(run: Callable[[Tensor], Tensor], clip: Tensor) -> float:
    """MB of device memory at the most while a clip runs."""
    torch.cuda.reset_peak_memory_stats()
    run(clip)
    return torch.cuda.max_memory_allocated() / 1e6


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--input", default="1080x1920", help="height x width of a frame")
    parser.add_argument("--size", default="tiny", choices=("tiny", *SIZES))
    parser.add_argument("--comfyui", type=Path, help="ComfyUI's folder, to run the node")
    options = parser.parse_args()
    height, width = (int(side) for side in options.input.split("x"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.manual_seed(0)
        config = tiny_config("normal") if options.size == "tiny" else official_config(options.size, "normal")
        build(config, "normal").save_checkpoint(folder / NAME)
        if options.comfyui is None:
            run = with_estimator(Estimator.from_checkpoint(folder / NAME))
        else:
            run = with_node(folder, options.comfyui.expanduser())
    clip = torch.rand(1, height, width, 3).expand(options.frames, -1, -1, -1)
    run(clip[:2])  # code and threads that the first frames bring in are no part of what a clip needs

    forget_peak()
    before = memory("VmRSS")
    result = run(clip)
    held = memory("VmHWM") - before
    size = result.numel() * result.element_size() / 1e6
    print(f"{options.frames} frames of {height} × {width}, network {options.size}")
    print(f"host: result {size:.0f} MB, at the most {held:.0f} MB, ratio {held / size:.3f}")
    if torch.cuda.is_available():
        del result
        few, all_frames = device_peak(run, clip[:FEW]), device_peak(run, clip)
        print(f"device: {FEW} frames {few:.0f} MB, all {all_frames:.0f} MB, ratio {all_frames / few:.3f}")


if __name__ == "__main__":
    main()
