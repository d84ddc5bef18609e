"""What every network shares: its configuration, reading and writing checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .config import Sapiens2Config
from .hub import resolve
from .precision import as_device, as_dtype

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
        path_or_repo: str | Path,
        dtype: torch.dtype | str | None = None,
        device: str | torch.device | None = None,
        operations=nn,
        *,
        device_map: str | int | torch.device | None = None,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        endpoint: str | None = None,
        **config_overrides: Any,
    ) -> Model:
        """Reads a checkpoint: a .safetensors file, a folder or a repository, in the authors' or transformers' layout.

        Args:
            path_or_repo: the file or folder, or the "owner/name" of a repository on the Hugging Face hub, such as
                "facebook/sapiens2-normal-1b". The bare model and the backbone also read the checkpoint of any task;
                :class:`Sapiens2PreTrainedModel` itself gives the class of the checkpoint's task.
            dtype: type to hold the weights in, also by name ("bfloat16"); None, or "auto", keeps the stored one.
            device: where to put them; the CPU by default.
            operations: namespace of layer classes.
            device_map: transformers' name for ``device``; "auto" takes the best there is. Always one device.
            revision, cache_dir, local_files_only, token, endpoint: see :class:`~sapiens2_core.hub.HubOptions`.
            config_overrides: fields of the configuration to change, such as ``out_indices``; only what changes no
                weight.

        Raises:
            CheckpointError: the file isn't a Sapiens2 checkpoint, is broken, or is of another task; the repository
                can't be had.
            ValueError: an override that isn't a field or that doesn't fit the weights; an unknown dtype or device.
        """
        from .checkpoint import load  # checkpoint builds networks, so it imports this module

        if device is not None and device_map is not None:
            raise ValueError("device and device_map mean the same; give one of them.")
        if device is None:
            device = "cpu" if device_map is None else as_device(device_map)
        hub = {
            "revision": revision,
            "cache_dir": cache_dir,
            "local_files_only": local_files_only,
            "token": token,
            "endpoint": endpoint,
        }
        return load(
            resolve(path_or_repo, **hub),
            dtype=as_dtype(dtype),
            device=device,
            operations=operations,
            expected=None if cls is Sapiens2PreTrainedModel else cls,
            config_overrides=config_overrides,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes ``config.json`` and ``model.safetensors`` (authors' names, as transformers does by default)."""
        from .checkpoint import save_folder  # as above

        save_folder(self, folder)

    def save_checkpoint(self, path: str | Path) -> None:
        """Writes one .safetensors file in the authors' layout; the native input size travels in its metadata."""
        from .checkpoint import save_file  # as above

        save_file(self, path)
