"""What the small checkpoints are called that were trained on mannequins: toy networks that know nothing else."""

from __future__ import annotations

from ..tasks import TASKS


def demo_tasks() -> list[str]:
    """Names of the tasks that mannequins can teach: all but the pretrained backbone's, which has no truth."""
    return [name for name in TASKS if name != "pretrain"]


def checkpoint_name(task: str) -> str:
    """File name of a task's checkpoint."""
    return f"mannequin_{task}.safetensors"
