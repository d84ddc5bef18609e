"""What a checkpoint is, told from the names and shapes of its tensors: layout, task and every width."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from .checkpoint_files import CheckpointError, CheckpointFiles
from .config import NATIVE_SIZE, NATIVE_SIZE_4K, SIZES, Sapiens2Config, Sapiens2HeadConfig
from .keypoints import FLIP_PAIRS, KEYPOINT_NAMES
from .layouts import ORIGINAL, TRANSFORMERS, source_of
from .tasks import TASKS, Task

#: Key of the native input size, a JSON list [height, width], in a .safetensors file's metadata.
IMAGE_SIZE_KEY = "image_size"

_PATCH_WEIGHT = {ORIGINAL: "patch_embed.projection.weight", TRANSFORMERS: "embeddings.patch_embeddings.weight"}
_TASK_PREFIX = {ORIGINAL: "backbone.", TRANSFORMERS: "model."}


@dataclasses.dataclass(frozen=True)
class Recognition:
    """What a checkpoint is.

    Attributes:
        layout: "original" (the authors' names) or "transformers".
        task: the row of :data:`~sapiens2_core.tasks.TASKS`.
        config: its full configuration.
        size: the official size it has ("0.4b"), else "custom".
    """

    layout: str
    task: Task
    config: Sapiens2Config
    size: str


class _Shapes:
    """Shapes of a file's tensors under our parameter names."""

    def __init__(self, files: CheckpointFiles, layout: str, task: Task, pixel_shuffle: bool) -> None:
        self._files, self._layout, self._task, self._shuffle = files, layout, task, pixel_shuffle
        self._transformer = "" if task.predictor is None else "model."

    def head(self, name: str) -> tuple[int, ...] | None:
        return self._files.shape(source_of(name, self._layout, self._task, self._shuffle))

    def transformer(self, name: str) -> tuple[int, ...] | None:
        return self.head(self._transformer + name)

    def count(self, name: str) -> int:
        """How many layers of a transformer stack there are; ``name`` holds {} for the number."""
        number = 0
        while self.transformer(name.format(number)) is not None:
            number += 1
        return number

    def convolutions(self, name: str) -> list[tuple[int, ...]]:
        """Shapes of a stack of the head's convolutions; ``name`` holds {} for the number."""
        shapes: list[tuple[int, ...]] = []
        while (shape := self.head(name.format(len(shapes)))) is not None:
            shapes.append(shape)
        return shapes


def _layout_and_prefix(files: CheckpointFiles) -> tuple[str, bool]:
    """The layout, and whether the backbone's names carry the prefix that task files have."""
    for layout, name in _PATCH_WEIGHT.items():
        if name in files.shapes:
            return layout, False
        if _TASK_PREFIX[layout] + name in files.shapes:
            return layout, True
    raise CheckpointError(
        f"{files.path.name} is a .safetensors file of another model: it has none of the tensors that every Sapiens2 "
        "checkpoint starts with. Choose a Sapiens2 checkpoint."
    )


def _uses_pixel_shuffle(files: CheckpointFiles) -> bool:
    return (
        "decode_head.input_conv.0.weight" in files.shapes or "decode_head.input_conv.convolution.weight" in files.shapes
    )


def _task(files: CheckpointFiles, layout: str, has_prefix: bool) -> Task:
    """config.json's architectures first, then the authors' head names, then shapes."""
    for architecture in files.config.get("architectures") or []:
        if architecture == "Sapiens2Backbone":
            return TASKS["pretrain"]
        for task in TASKS.values():
            if task.estimator == architecture:
                return task
    if not has_prefix:
        return TASKS["pretrain"]
    for task in TASKS.values():
        if f"decode_head.{task.predictor}.weight" in files.shapes:
            return task
    if layout == TRANSFORMERS:
        return _task_from_shapes(files)
    raise CheckpointError(
        f"{files.path.name} is a Sapiens2 backbone with a head that is none of "
        f"{', '.join(task.name for task in TASKS.values() if task.predictor)}."
    )


def _task_from_shapes(files: CheckpointFiles) -> Task:
    shapes = files.shapes
    labels = shapes.get("decode_head.predictor.weight", (0,))[0]
    if not _uses_pixel_shuffle(files):
        for name in ("pose", "seg"):
            if labels == TASKS[name].num_labels:
                return TASKS[name]
    elif "decode_head.input_conv.norm.weight" in shapes:
        return TASKS["albedo"]
    elif any(name.startswith("scale_head.") for name in shapes):
        return TASKS["pointmap"]
    elif labels == TASKS["matting"].num_labels:
        return TASKS["matting"]
    raise CheckpointError(
        f"{files.path.name} has a head of {labels} channels and does not say which task it is for: normals and a "
        "pointmap without a scale branch look alike. Put the config.json that belongs to it beside it, in a folder, "
        "and choose the folder."
    )


def _head_config(shapes: _Shapes, pixel_shuffle: bool) -> Sapiens2HeadConfig:
    upsample = shapes.convolutions("decode_head.upsample_layers.{}.convolution.weight")
    conv = shapes.convolutions("decode_head.conv_layers.{}.convolution.weight")
    scale = shapes.convolutions("scale_head.conv_layers.{}.convolution.weight") if pixel_shuffle else []
    fields: dict[str, Any] = {
        # A transposed convolution's weight is (in, out, k, k), a convolution's (out, in, k, k); the pixel shuffle
        # after it makes one channel out of four.
        "upsample_out_channels": [shape[0] // 4 if pixel_shuffle else shape[1] for shape in upsample],
        "upsample_kernel_sizes": [shape[-1] for shape in upsample],
        "use_pixel_shuffle": pixel_shuffle or None,
        "conv_out_channels": [shape[0] for shape in conv],
        "conv_kernel_sizes": [shape[-1] for shape in conv],
        "use_rms_norm": pixel_shuffle and shapes.head("decode_head.input_conv.norm.weight") is not None,
    }
    if scale:
        blocks = [shapes.head(f"scale_head.predictor.block{n}.layers.0.weight") for n in (1, 2)]
        if None in blocks:
            raise CheckpointError("The pointmap's scale branch is incomplete: its linear layers are missing.")
        fields |= {
            "scale_conv_out_channels": [shape[0] for shape in scale],
            "scale_conv_kernel_sizes": [shape[-1] for shape in scale],
            "scale_final_input_size": blocks[0][1],
            "scale_final_hidden_sizes": [shape[0] for shape in blocks],
        }
    return Sapiens2HeadConfig(**fields)


def _from_json(text: str | None) -> Any:
    """What a metadata value says; None where it isn't JSON, since any program may write metadata of this name."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def _as_size(value: Any) -> tuple[int, int] | None:
    """One side, or [height, width], as (height, width); None for anything else."""
    sides = [value, value] if isinstance(value, int) else value
    if isinstance(sides, list) and len(sides) == 2 and all(isinstance(side, int) and side > 0 for side in sides):
        return sides[0], sides[1]
    return None


def _native_size(files: CheckpointFiles, tokenizer: bool, patch: tuple[int, int], head: Sapiens2HeadConfig | None):
    """(height, width): config.json, then the file's metadata, then what official files have.

    A pointmap's scale branch fits few sizes; where none of these is among them, the 4:3 size that does is taken.
    """
    stated = [
        size
        for value in (files.config.get("image_size"), _from_json(files.metadata.get(IMAGE_SIZE_KEY)))
        if (size := _as_size(value)) is not None
    ]
    stated.append(NATIVE_SIZE_4K if tokenizer else NATIVE_SIZE)
    if head is None or head.scale_final_input_size is None:
        return list(stated[0])
    similar = [(4 * patch[0] * n, 3 * patch[1] * n) for n in range(1, 65)]
    for size in (*stated, *similar):
        if head.flattened_scale_size(size, patch) == head.scale_final_input_size:
            return list(size)
    raise CheckpointError(
        f"{files.path.name} has a scale branch made for an input size that it does not state. "
        "Put the config.json that belongs to it beside it, in a folder, and choose the folder."
    )


def _require(shape: tuple[int, ...] | None, what: str, files: CheckpointFiles) -> tuple[int, ...]:
    if shape is None:
        raise CheckpointError(f"{files.path.name} is incomplete: it has no {what}.")
    return shape


def recognise(files: CheckpointFiles) -> Recognition:
    """Tells what an opened checkpoint is.

    What the tensors say wins over config.json; what they can't say (RoPE's base, epsilon…) comes from there.

    Raises:
        CheckpointError: not a Sapiens2 checkpoint, or one whose task can't be told.
    """
    layout, has_prefix = _layout_and_prefix(files)
    task = _task(files, layout, has_prefix)
    if (task.predictor is not None) != has_prefix:
        raise CheckpointError(f"{files.path.name} does not hold what its config.json says: {task.estimator}.")
    shuffle = _uses_pixel_shuffle(files)
    shapes = _Shapes(files, layout, task, shuffle)

    patch_weight = _require(shapes.transformer("embeddings.patch_embeddings.weight"), "patch embedding", files)
    hidden, channels, *patch = patch_weight
    num_layers = shapes.count("model.layer.{}.norm1.weight")
    attention = "model.layer.{}.attention."
    if num_layers == 0:
        raise CheckpointError(
            f"{files.path.name} is of another model: it begins like Sapiens2, as the first Sapiens does, but has none "
            "of its layers. Choose a Sapiens2 checkpoint."
        )
    qk_norm = shapes.transformer(attention.format(0) + "q_norm.weight")
    if qk_norm is None and "num_attention_heads" not in files.config:
        raise CheckpointError(
            f"{files.path.name} does not say how many attention heads it has. "
            "Put the config.json that belongs to it beside it, in a folder, and choose the folder."
        )
    head_dim = hidden // files.config["num_attention_heads"] if qk_norm is None else qk_norm[0]
    key_value_widths = [
        _require(shapes.transformer(attention.format(n) + "k_proj.weight"), f"key projection in layer {n}", files)[0]
        for n in range(num_layers)
    ]
    registers = _require(shapes.transformer("embeddings.register_tokens"), "register tokens", files)
    up = _require(shapes.transformer("model.layer.0.mlp.up_proj.weight"), "MLP in layer 0", files)
    tokenizer = shapes.count("embeddings.tokenizer.layer.{}.norm1.weight")
    positions = shapes.transformer("embeddings.tokenizer.position_embeddings")
    head = None if task.predictor is None else _head_config(shapes, shuffle)

    def has(name: str) -> bool:
        return shapes.transformer(name) is not None

    try:
        stated = dataclasses.asdict(Sapiens2Config.from_dict(files.config))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"config.json in {files.path.name} can't be used: {error}") from error
    stated.pop("model_type")
    num_labels = _require(shapes.head("decode_head.predictor.weight"), "predictor", files)[0] if head else None
    told: dict[str, Any] = {
        "patch_size": patch[0] if patch[0] == patch[1] else patch,
        "hidden_size": hidden,
        "intermediate_size": up[0],
        "num_hidden_layers": num_layers,
        "num_attention_heads": hidden // head_dim,
        "num_key_value_heads_per_layer": [width // head_dim for width in key_value_widths],
        "num_key_value_attention_heads": min(key_value_widths) // head_dim,
        "image_size": _native_size(files, bool(tokenizer), tuple(patch), head),
        "num_channels": channels,
        "query_bias": has(attention.format(0) + "q_proj.bias"),
        "key_bias": has(attention.format(0) + "k_proj.bias"),
        "value_bias": has(attention.format(0) + "v_proj.bias"),
        "proj_bias": has(attention.format(0) + "o_proj.bias"),
        "mlp_bias": has("model.layer.0.mlp.up_proj.bias"),
        "use_gated_mlp": has("model.layer.0.mlp.gate_proj.weight"),
        "num_register_tokens": registers[1],
        "use_mask_token": has("embeddings.mask_token"),
        "use_qk_norm": qk_norm is not None,
        "head_config": head,
        "architectures": [task.estimator],
        "num_tokenizer_layers": tokenizer,
        "tokenizer_window_size": 4 if positions is None else round((positions[1] - 1) ** 0.5),
        "out_features": None,
    }
    if not files.config:
        told["out_indices"] = None
    if num_labels is not None:
        told["num_labels"] = num_labels
        if len(stated["id2label"]) != num_labels:
            told["id2label"] = None
    if task.name == "pose" and num_labels == len(KEYPOINT_NAMES) and stated["flip_pairs"] is None:
        told["flip_pairs"] = FLIP_PAIRS
    config = Sapiens2Config(**(stated | told))
    return Recognition(layout, task, config, _official_size(config))


def _official_size(config: Sapiens2Config) -> str:
    for name, row in SIZES.items():
        shape = (config.hidden_size, config.num_hidden_layers, config.num_tokenizer_layers)
        if shape == (row.hidden_size, row.num_hidden_layers, row.num_tokenizer_layers):
            return name
    return "custom"
