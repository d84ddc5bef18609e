"""The small checkpoints that were trained on mannequins and ship with the package: toys that know nothing else."""

from __future__ import annotations

from pathlib import Path

from ..tasks import TASKS

#: Where they are in the package.
WEIGHTS = Path(__file__).parent / "weights"


def demo_tasks() -> list[str]:
    """Names of the tasks that mannequins can teach: all but the pretrained backbone's, which has no truth."""
    return [name for name in TASKS if name != "pretrain"]


def checkpoint_name(task: str) -> str:
    """File name of a task's checkpoint."""
    return f"mannequin_{task}.safetensors"


def demo_checkpoints() -> dict[str, Path]:
    """The package's own by what a list of checkpoints calls them: ``demo/mannequin_pose`` and so on."""
    files = [WEIGHTS / checkpoint_name(task) for task in demo_tasks()]
    return {f"demo/{file.stem}": file for file in files}
