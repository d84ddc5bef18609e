"""Compiling a network in place, part by part."""

from __future__ import annotations

from torch import nn

from .heads import Sapiens2Head, Sapiens2PointmapScaleHead
from .layers import Sapiens2Layer


def compile_parts(model: nn.Module, backend: str = "inductor") -> None:
    """Makes a network compile its layers and heads when they first run.

    Not the network as a whole: layers of one kind share their code, so that compiling takes a fraction of the time,
    and a host may move weights between them.

    Args:
        model: changed in place; its parameters stay what and where they are.
        backend: of torch.compile. inductor needs Triton on a GPU, and a C++ compiler on a CPU.
    """
    for module in model.modules():
        if isinstance(module, Sapiens2Layer | Sapiens2Head | Sapiens2PointmapScaleHead):
            module.compile(backend=backend)
