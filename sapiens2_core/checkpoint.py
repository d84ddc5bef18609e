"""What a checkpoint file is, loading it strictly, saving it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file as save_safetensors
from torch import Tensor, nn

from .backbone import Sapiens2Backbone, Sapiens2Model
from .checkpoint_files import CheckpointError, CheckpointFiles
from .config import Sapiens2Config
from .estimators import MODEL_CLASSES, task_of
from .files import replacing
from .fp8 import fp8_operations, is_stored_in_fp8, quantise, set_scales
from .hub import resolve
from .layouts import IGNORED, ORIGINAL, TRANSFORMERS, Source, source_of
from .pretrained import Sapiens2PreTrainedModel
from .recognition import IMAGE_SIZE_KEY, recognise
from .tasks import TASKS, Task


@dataclass(frozen=True)
class CheckpointInfo:
    """What a checkpoint is, told from its header.

    Attributes:
        path: the file or folder.
        task: name of the task.
        size: the official size ("0.4b"), else "custom".
        layout: "original" (the authors' names) or "transformers".
        config: its configuration; ``config.image_height_width`` is the native input.
        dtype: the type that most weights are stored in.
        num_parameters: how many numbers it holds.
        num_bytes: size of the files.
    """

    path: Path
    task: str
    size: str
    layout: str
    config: Sapiens2Config
    dtype: torch.dtype
    num_parameters: int
    num_bytes: int


def inspect(path: str | Path) -> CheckpointInfo:
    """Tells what the checkpoint at ``path`` is, reading only its header.

    Raises:
        CheckpointError: it isn't a Sapiens2 checkpoint, or is broken.
    """
    with CheckpointFiles(path) as files:
        return describe(files)


def describe(files: CheckpointFiles) -> CheckpointInfo:
    """The same for files that are open."""
    found = recognise(files)
    return CheckpointInfo(
        path=files.path,
        task=found.task.name,
        size=found.size,
        layout=found.layout,
        config=found.config,
        dtype=files.dtype,
        num_parameters=sum(torch.Size(shape).numel() for shape in files.shapes.values()),
        num_bytes=files.num_bytes,
    )


def load(
    path_or_repo: str | Path,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    operations=nn,
    expected: type[Sapiens2PreTrainedModel] | None = None,
    config_overrides: Mapping[str, Any] | None = None,
    fp8_weights: bool = False,
) -> Sapiens2PreTrainedModel:
    """The network of a checkpoint, in evaluation mode.

    Each tensor is copied once from the mapped file into its type and place, so that memory never holds more than
    the network, and the file is free afterwards.

    Args:
        path_or_repo: a .safetensors file, or a folder with one or with shards, with or without config.json, or a
            repository on the Hugging Face hub ("owner/name"), which is downloaded if it isn't in the cache.
        dtype: type to hold the weights in; None keeps the stored one.
        device: where to put them.
        operations: namespace of layer classes (see :class:`~sapiens2_core.pretrained.Sapiens2PreTrainedModel`).
        expected: the class wanted; None takes the one of the checkpoint's task.
        config_overrides: fields of the configuration to change; only what changes no weight.
        fp8_weights: keep the transformer's linear weights in eight bits (see :mod:`~sapiens2_core.fp8`); everything
            else, and what is computed in, is ``dtype``.

    Raises:
        CheckpointError: not a Sapiens2 checkpoint, broken, of another task, or with missing or unexpected tensors;
            a repository that can't be had.
        ValueError: an override that isn't a field or that doesn't fit the weights.
    """
    with CheckpointFiles(resolve(path_or_repo)) as files:
        info = describe(files)
        cls = _class_for(info, expected)
        sources = match_tensors(files, info, cls)
        if config_overrides:
            info = _overridden(info, cls, config_overrides)
        dtype = dtype or info.dtype
        weights, scales = {}, {}
        for name, source in sources.items():
            if fp8_weights and is_stored_in_fp8(name):
                stored = files.read(source, files.dtypes[source.name], device)
                weights[name], scales[name] = quantise(stored)
            else:
                weights[name] = files.read(source, dtype, device)
    with torch.device("meta"):
        model = cls(info.config, fp8_operations(operations) if fp8_weights else operations)
    model.load_state_dict(weights, strict=True, assign=True)
    set_scales(model, scales)
    return model.eval()


def _class_for(info: CheckpointInfo, expected: type[Sapiens2PreTrainedModel] | None) -> type[Sapiens2PreTrainedModel]:
    """The bare model and the backbone read any checkpoint; every other class only its own."""
    own = MODEL_CLASSES[TASKS[info.task].estimator]
    if expected is None or expected in (own, Sapiens2Model, Sapiens2Backbone):
        return expected or own
    raise CheckpointError(
        f"{info.path.name} {TASKS[info.task].does}: it is a checkpoint for {own.__name__}, not for {expected.__name__}."
    )


def _overridden(
    info: CheckpointInfo, cls: type[Sapiens2PreTrainedModel], overrides: Mapping[str, Any]
) -> CheckpointInfo:
    """``info`` with fields of its configuration changed, where the network keeps its weights."""
    config = info.config.replaced(**overrides)
    if _blueprint(cls, config) != _blueprint(cls, info.config):
        names = ", ".join(f"{name}={value!r}" for name, value in overrides.items())
        raise ValueError(f"{names} asks for other weights than {info.path.name} holds; leave out what changes them.")
    return dataclasses.replace(info, config=config)


def _blueprint(cls: type[Sapiens2PreTrainedModel], config: Sapiens2Config) -> dict[str, tuple[int, ...]]:
    """Shapes of a network's parameters by name.

    They are those of torch.nn's layers: a host's may have no weights before they are loaded.
    """
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in cls(config).state_dict().items()}


def match_tensors(
    files: CheckpointFiles, info: CheckpointInfo, cls: type[Sapiens2PreTrainedModel]
) -> dict[str, Source]:
    """Where each parameter of a network of class ``cls`` lies in the file.

    Raises:
        CheckpointError: tensors are missing, unexpected or of another shape; the message lists them.
    """
    blueprint = _blueprint(cls, info.config)
    task = TASKS[info.task]
    head = info.config.head_config
    shuffle = bool(head and head.use_pixel_shuffle)
    bare = cls in (Sapiens2Model, Sapiens2Backbone)
    # In a task's file, the bare network is a part whose names have a prefix.
    part = "model." if bare and task.predictor is not None else ""
    sources = {name: source_of(part + name, info.layout, task, shuffle) for name in blueprint}

    wanted = {source.name for source in sources.values()}
    heads = ("decode_head.", "scale_head.")
    unexpected = {
        name
        for name in files.shapes.keys() - wanted
        if not IGNORED.search(name) and not (bare and name.startswith(heads))
    }
    misshapen = {
        f"{source.name} {files.shape(source)} instead of {blueprint[name]}"
        for name, source in sources.items()
        if source.name in files.shapes and files.shape(source) != blueprint[name]
    }
    titles = {"missing": wanted - files.shapes.keys(), "unexpected": unexpected, "of another shape": misshapen}
    problems = [f"{title}: {_listing(sorted(names))}" for title, names in titles.items() if names]
    if problems:
        raise CheckpointError(
            f"{files.path.name} does not hold the tensors of a Sapiens2 checkpoint. {'; '.join(problems)}. "
            "It may be damaged: download it again."
        )
    return sources


def _listing(names: list[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def original_state(model: Sapiens2PreTrainedModel) -> dict[str, Tensor]:
    """The weights under the authors' names, stacked halves joined."""
    task: Task = TASKS[task_of(model)]
    head = model.config.head_config
    layout = ORIGINAL if model.config.use_gated_mlp else TRANSFORMERS  # the authors have no ungated MLP
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in sorted(model.state_dict().items(), key=lambda item: "up_proj" in item[0]):
        source = source_of(name, layout, task, bool(head and head.use_pixel_shuffle))
        parts.setdefault(source.name, []).append(tensor)
    return {name: torch.cat(tensors) if len(tensors) > 1 else tensors[0] for name, tensors in parts.items()}


def save_file(model: Sapiens2PreTrainedModel, path: str | Path) -> None:
    """Writes one .safetensors file in the authors' layout; nothing is left half-written."""
    metadata = {"format": "pt", IMAGE_SIZE_KEY: json.dumps(list(model.config.image_height_width))}
    tensors = {name: tensor.cpu().contiguous() for name, tensor in original_state(model).items()}
    with replacing(Path(path)) as temporary:
        save_safetensors(tensors, temporary, metadata=metadata)


def save_folder(model: Sapiens2PreTrainedModel, folder: str | Path) -> None:
    """Writes ``model.safetensors`` in the authors' layout and ``config.json``; transformers opens the folder too."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model, folder / "model.safetensors")
    dtype = str(model.dtype).removeprefix("torch.")
    config = model.config.to_dict() | {"architectures": [type(model).__name__], "dtype": dtype}
    with replacing(folder / "config.json") as temporary:
        temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
