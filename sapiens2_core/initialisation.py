"""First weights for training, as transformers documents them for Sapiens2."""

from __future__ import annotations

import torch
from torch import nn

from .config import Sapiens2Config
from .norms import LayerScale


def _filled_from_a_checkpoint() -> bool:
    """Networks built on the meta device get their weights from a file: there is nothing to draw."""
    return torch.get_default_device().type == "meta"


@torch.no_grad()
def init_transformer(transformer: nn.Module, config: Sapiens2Config) -> None:
    """Truncated normal weights and tokens, zero biases and mask token, constant LayerScale."""
    if _filled_from_a_checkpoint():
        return
    for module in transformer.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.trunc_normal_(module.weight, std=config.initializer_range)
            _zero_bias(module)
        elif isinstance(module, LayerScale):
            nn.init.constant_(module.lambda1, config.layerscale_value)
    for name, parameter in transformer.named_parameters():
        if name.endswith(("cls_token", "register_tokens", "position_embeddings")):
            nn.init.trunc_normal_(parameter, std=config.initializer_range)
        elif name.endswith("mask_token"):
            nn.init.zeros_(parameter)


@torch.no_grad()
def init_head(head: nn.Module) -> None:
    """Kaiming normal weights (by fan-out before SiLU, by fan-in in the scale branch's MLP), zero biases."""
    if _filled_from_a_checkpoint():
        return
    for module in head.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            _zero_bias(module)
        elif isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="linear")
            _zero_bias(module)


def _zero_bias(module: nn.Module) -> None:
    if module.bias is not None:
        nn.init.zeros_(module.bias)
