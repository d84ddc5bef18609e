"""Partly loaded networks: do they give what fully loaded ones do?

ComfyUI's partial loading (--lowvram, --novram, or simply a full card) leaves modules where they were; its layer classes
bring weights to the input's device and type when they are used. Here every second module with weights is left behind,
then all others, for each task. Printed per task: the largest difference from the fully loaded network's outputs, in
their standard deviations.

    python benchmarks/partial.py                        # modules left on the CPU by a GPU, without one: left in bf16
    python benchmarks/partial.py --comfyui ~/ComfyUI    # with ComfyUI's own layers; by the Python that runs ComfyUI
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.tasks import TASKS


class CastingOperations:
    """Layers that bring their weights to their input, as a host's do."""

    class Linear(nn.Linear):
        """Of torch, with cast weights."""

        def forward(self, x: Tensor) -> Tensor:
            """(…, inputs) → (…, outputs)."""
            return F.linear(x, self.weight.to(x), _cast(self.bias, x))

    class Conv2d(nn.Conv2d):
        """Of torch, with cast weights."""

        def forward(self, x: Tensor) -> Tensor:
            """(B, C, H, W) → (B, outputs, H', W')."""
            return self._conv_forward(x, self.weight.to(x), _cast(self.bias, x))

    class ConvTranspose2d(nn.ConvTranspose2d):
        """Of torch, with cast weights; only what the heads use."""

        def forward(self, x: Tensor) -> Tensor:
            """(B, C, H, W) → (B, outputs, H', W')."""
            return F.conv_transpose2d(x, self.weight.to(x), _cast(self.bias, x), self.stride, self.padding)


def _cast(bias: Tensor | None, x: Tensor) -> Tensor | None:
    return None if bias is None else bias.to(x)


def leave_behind(model: nn.Module, first: int, **where: Any) -> None:
    """Puts every second module's own weights elsewhere, beginning with the first (0) or the second (1)."""
    owners = [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]
    for module in owners[first::2]:
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(parameter.to(**where), requires_grad=False))


def difference(task: str, operations: Any, device: torch.device, **where: Any) -> float:
    """The largest difference that leaving modules behind makes to a network's outputs, in their standard deviations.

    Args:
        task: of the tiny network.
        operations: namespace of layer classes.
        device: where the network runs, in float32.
        where: what is left behind gets: ``device``, ``dtype``.
    """
    config = tiny_config(task)
    torch.manual_seed(0)
    drawn = build(config, task).bfloat16()  # so that bf16 holds the weights exactly
    pixel_values = torch.randn(2, 3, *config.image_height_width, generator=torch.Generator().manual_seed(0)).to(device)

    def run(first: int | None) -> list[Tensor]:
        model = type(drawn)(config, operations).eval()
        model.load_state_dict(drawn.state_dict())
        model = model.to(device, torch.float32)
        if first is not None:
            leave_behind(model, first, **where)
        with torch.no_grad():
            return [value for value in vars(model(pixel_values)).values() if isinstance(value, Tensor)]

    full = run(None)
    return max(
        float((ours - theirs).abs().max() / theirs.std())
        for first in (0, 1)
        for ours, theirs in zip(run(first), full, strict=True)
    )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comfyui", type=Path, help="ComfyUI's folder, to use its layers")
    options = parser.parse_args()
    operations: Any = CastingOperations
    if options.comfyui is not None:
        sys.path.insert(0, str(options.comfyui.expanduser()))
        from comfy.cli_args import args

        args.cpu = not torch.cuda.is_available()
        import comfy.ops

        operations = comfy.ops.manual_cast
    on_gpu = torch.cuda.is_available()
    device, where = ("cuda", {"device": "cpu"}) if on_gpu else ("cpu", {"dtype": torch.bfloat16})
    print(f"{operations.__name__} on {device}, left behind: {where}")
    for task in TASKS:
        print(f"{task:9} {difference(task, operations, torch.device(device), **where):.1e}", flush=True)


if __name__ == "__main__":
    main()
