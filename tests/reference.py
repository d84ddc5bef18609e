"""transformers' Sapiens2 as the reference: small networks with random weights, saved in either layout."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
import transformers
from torch import nn

from sapiens2_core.config import Sapiens2Config, tiny_config
from sapiens2_core.tasks import TASKS

#: What transformers has: all but albedo.
REFERENCE_TASKS = [name for name in TASKS if name != "albedo"]
OUTPUT_FIELDS = {
    "pretrain": ["last_hidden_state", "pooler_output"],
    "pose": ["heatmaps"],
    "seg": ["logits"],
    "normal": ["normals"],
    "pointmap": ["pointmaps", "scales"],
    "matting": ["alphas", "foregrounds"],
}


def reference_config(config: Sapiens2Config) -> transformers.Sapiens2Config:
    """Our configuration as transformers' class."""
    return transformers.Sapiens2Config(**{k: v for k, v in config.to_dict().items() if k != "model_type"})


def reference_model(config: Sapiens2Config, class_name: str, seed: int = 0) -> nn.Module:
    """transformers' network with every parameter random, so that no forgotten one goes unnoticed."""
    torch.manual_seed(seed)
    model = getattr(transformers, class_name)(reference_config(config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Enough variance for every layer to matter, a mean of one where a norm's weight is one.
            mean = 1.0 if parameter.ndim == 1 and (parameter == 1).all() else 0.0
            parameter.copy_(mean + 0.2 * torch.randn_like(parameter))
    return model


def saved_reference(
    folder: Path, task: str, layout: str, image_size: tuple[int, int] = (128, 96)
) -> tuple[nn.Module, Path]:
    """A random reference network of a task and the folder that it was saved to."""
    model = reference_model(copy.deepcopy(tiny_config(task, image_size)), TASKS[task].estimator)
    model.save_pretrained(folder, save_original_format=layout == "original")
    return model, folder
