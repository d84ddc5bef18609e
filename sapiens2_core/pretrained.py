"""What every network shares: its configuration, reading and writing checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from .config import Sapiens2Config

Model = TypeVar("Model", bound="Sapiens2PreTrainedModel")


class Sapiens2PreTrainedModel(nn.Module):
    """A network with a configuration.

    Every class takes ``operations``, a namespace of layer classes (default ``torch.nn``): a host that moves or casts
    weights on demand passes its own.
    """

    def __init__(self, config: Sapiens2Config) -> None:
        super().__init__()
        self.config = config

    @property
    def device(self) -> torch.device:
        """Where the parameters lie."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return next(self.parameters()).dtype

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether :meth:`gradient_checkpointing_enable` was called."""
        return any(getattr(module, "gradient_checkpointing", False) for module in self.modules())

    def gradient_checkpointing_enable(self) -> None:
        """Makes training keep only the layers' inputs and compute each layer again on the way back.

        Memory falls by what the layers hold inside, for about a third more time. Without effect in evaluation.
        """
        self._set_gradient_checkpointing(True)

    def gradient_checkpointing_disable(self) -> None:
        """Undoes :meth:`gradient_checkpointing_enable`."""
        self._set_gradient_checkpointing(False)

    def _set_gradient_checkpointing(self, enabled: bool) -> None:
        for module in self.modules():
            if hasattr(module, "gradient_checkpointing"):
                module.gradient_checkpointing = enabled

    def check_input(self, pixel_values: Tensor) -> None:
        """Raises ValueError unless (B, 3, H, W) ``pixel_values`` has a size that the network can take."""
        height, width = pixel_values.shape[-2:]
        multiple = self.config.input_multiple
        if height == 0 or width == 0 or height % multiple[0] or width % multiple[1]:
            raise ValueError(
                f"The input is {width} × {height} pixels, but this network takes widths that are multiples of "
                f"{multiple[1]} and heights that are multiples of {multiple[0]}."
            )

    @classmethod
    def from_pretrained(
        cls: type[Model],
        path: str | Path,
        dtype: torch.dtype | None = None,
        device: str | torch.device = "cpu",
        operations=nn,
    ) -> Model:
        """Reads a checkpoint: a .safetensors file or a folder, in the authors' or transformers' layout.

        Args:
            path: the file or folder. The bare model and the backbone also read the checkpoint of any task.
            dtype: type to hold the weights in; None keeps the stored one.
            device: where to put them.
            operations: namespace of layer classes.

        Raises:
            CheckpointError: the file isn't a Sapiens2 checkpoint, is broken, or is of another task.
        """
        from .checkpoint import load  # checkpoint builds networks, so it imports this module

        return load(path, dtype=dtype, device=device, operations=operations, expected=cls)

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes ``config.json`` and ``model.safetensors`` (authors' names, as transformers does by default)."""
        from .checkpoint import save_folder  # as above

        save_folder(self, folder)

    def save_checkpoint(self, path: str | Path) -> None:
        """Writes one .safetensors file in the authors' layout; the native input size travels in its metadata."""
        from .checkpoint import save_file  # as above

        save_file(self, path)
