"""Shapes of the networks: configurations with transformers' field names, and the official sizes."""

from __future__ import annotations

import copy
import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .hub import CONFIG_NAME, find_json
from .keypoints import FLIP_PAIRS
from .tasks import TASKS

#: (height, width) of the official checkpoints' native input, and of the 4K backbone's.
NATIVE_SIZE = (1024, 768)
NATIVE_SIZE_4K = (4096, 3072)


def as_pair(value: int | list[int] | tuple[int, int]) -> tuple[int, int]:
    """``value`` as (height, width); one number stands for both."""
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _known_fields(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(cls)}
    return {key: value for key, value in values.items() if key in names}


#: Fields of a configuration that are worked out anew when another is changed.
_FOLLOWING = {
    "out_indices": ("out_features",),
    "num_labels": ("id2label",),
    "num_hidden_layers": ("num_key_value_heads_per_layer", "out_features", "out_indices"),
    "num_attention_heads": ("num_key_value_heads_per_layer",),
    "num_key_value_attention_heads": ("num_key_value_heads_per_layer",),
}


@dataclass
class Sapiens2HeadConfig:
    """Shape of a decode head. Fields are those of transformers' class, and one more.

    Attributes:
        upsample_out_channels: output channels of each block that doubles the resolution.
        upsample_kernel_sizes: kernel of each of them; filled with ``upsample_kernel_size`` when None.
        use_pixel_shuffle: convolution and pixel shuffle (normals, pointmaps, mattes, albedo) instead of a
            transposed convolution (body parts, pose).
        conv_out_channels, conv_kernel_sizes, conv_kernel_size: the refining convolutions that follow.
        scale_conv_out_channels, scale_conv_kernel_sizes, scale_conv_kernel_size: stride-2 convolutions of the
            pointmap's scale branch; None builds no such branch.
        scale_final_input_size: flattened size the scale MLP takes; None: from the native input size.
        scale_final_hidden_sizes: hidden sizes of the scale MLP.
        use_rms_norm: RMSNorm over channels with a weight, as in the albedo head, instead of InstanceNorm.
            Not in transformers, which has no albedo head.
    """

    upsample_out_channels: list[int] | None = None
    upsample_kernel_sizes: list[int] | None = None
    upsample_kernel_size: int = 4
    use_pixel_shuffle: bool | None = None
    conv_out_channels: list[int] | None = None
    conv_kernel_sizes: list[int] | None = None
    conv_kernel_size: int = 1
    scale_conv_out_channels: list[int] | None = None
    scale_conv_kernel_sizes: list[int] | None = None
    scale_conv_kernel_size: int = 1
    scale_final_input_size: int | None = None
    scale_final_hidden_sizes: list[int] | None = None
    use_rms_norm: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):
                setattr(self, name, list(value))
        for group in ("upsample", "conv", "scale_conv"):
            channels = getattr(self, f"{group}_out_channels")
            if channels is not None and getattr(self, f"{group}_kernel_sizes") is None:
                default = getattr(self, f"{group}_kernel_size")
                setattr(self, f"{group}_kernel_sizes", [default] * len(channels))

    def flattened_scale_size(self, image_size: tuple[int, int], patch_size: tuple[int, int]) -> int:
        """Features that the scale branch's convolutions leave of an input of (height, width) pixels."""
        height, width = image_size[0] // patch_size[0], image_size[1] // patch_size[1]
        for kernel in self.scale_conv_kernel_sizes:
            padding = (kernel - 1) // 2
            height = (height + 2 * padding - kernel) // 2 + 1
            width = (width + 2 * padding - kernel) // 2 + 1
        return height * width * self.scale_conv_out_channels[-1]


@dataclass
class Sapiens2Config:
    """Shape of a Sapiens2 network. Fields are those of transformers' class, with its defaults, and two more.

    Attributes:
        image_size: native input, one number or (height, width).
        num_key_value_heads_per_layer: filled from the next three when None: full attention in the first and last
            layers, grouped-query attention between them.
        id2label: name of each channel of the decode head's last convolution; LABEL_0, LABEL_1… when None.
        num_labels: how many there are; follows from ``id2label`` where that is given.
        output_hidden_states, output_attentions, return_class_token: what networks give when a call doesn't say.
        num_tokenizer_layers: transformer blocks of the 4K tokenizer; 0 builds none. Not in transformers.
        tokenizer_window_size: patch tokens per side of a tokenizer window. Not in transformers.

    The other fields are documented at transformers' ``Sapiens2Config``.
    """

    patch_size: int | list[int] = 16
    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    hidden_act: str = "silu"
    attention_dropout: float = 0.0
    initializer_range: float = 0.02
    rope_theta: float = 100.0
    image_size: int | list[int] = 224
    num_channels: int = 3
    query_bias: bool = True
    key_bias: bool = True
    value_bias: bool = True
    proj_bias: bool = True
    mlp_bias: bool = True
    layerscale_value: float = 1.0
    drop_path_rate: float = 0.0
    use_gated_mlp: bool = True
    num_register_tokens: int = 8
    pos_embed_shift: float | None = None
    pos_embed_jitter: float | None = None
    pos_embed_rescale: float | None = 2.0
    reshape_hidden_states: bool = True
    use_mask_token: bool = False
    rms_norm_eps: float = 1e-6
    normalize_backbone_outputs: bool = True
    use_qk_norm: bool = True
    num_key_value_heads_per_layer: list[int] | None = None
    num_key_value_attention_heads: int = 8
    num_first_full_attention_layers: int = 8
    num_last_full_attention_layers: int = 8
    semantic_loss_ignore_index: int = 255
    flip_pairs: list[list[int]] | None = None
    head_config: Sapiens2HeadConfig | dict | None = None
    num_labels: int = 2
    id2label: dict[int, str] | None = None
    architectures: list[str] | None = None
    out_features: list[str] | None = None
    out_indices: list[int] | None = None
    output_hidden_states: bool = False
    output_attentions: bool = False
    return_class_token: bool = False
    num_tokenizer_layers: int = 0
    tokenizer_window_size: int = 4

    model_type: str = field(default="sapiens2", init=False)

    def __post_init__(self) -> None:
        if isinstance(self.head_config, dict):
            self.head_config = Sapiens2HeadConfig(**_known_fields(Sapiens2HeadConfig, self.head_config))
        # Of its own: configurations are changed in place, and tables and other configurations must not follow.
        self.head_config, self.flip_pairs = copy.deepcopy((self.head_config, self.flip_pairs))
        if self.id2label is None:
            self.id2label = {index: f"LABEL_{index}" for index in range(self.num_labels)}
        self.id2label = {int(index): name for index, name in self.id2label.items()}  # JSON has no int keys
        self.num_labels = len(self.id2label)
        if self.num_key_value_heads_per_layer is None:
            last_full = self.num_hidden_layers - self.num_last_full_attention_layers
            self.num_key_value_heads_per_layer = [
                self.num_attention_heads
                if layer < self.num_first_full_attention_layers or layer >= last_full
                else self.num_key_value_attention_heads
                for layer in range(self.num_hidden_layers)
            ]
        head = self.head_config
        if head is not None and head.scale_conv_out_channels is not None and head.scale_final_input_size is None:
            head.scale_final_input_size = head.flattened_scale_size(self.image_height_width, self.patch_height_width)
        self.stage_names = ["stem", *(f"stage{i}" for i in range(1, self.num_hidden_layers + 1))]
        self._align_out_features()

    def _align_out_features(self) -> None:
        """``out_features`` and ``out_indices`` say the same thing; the last stage when neither is given."""
        if self.out_features is not None:
            unknown = [name for name in self.out_features if name not in self.stage_names]
            if unknown:
                raise ValueError(
                    f"out_features has {unknown}, but the stages are {self.stage_names[0]}, stage1 to "
                    f"{self.stage_names[-1]}."
                )
        elif self.out_indices is not None:
            last = len(self.stage_names) - 1
            if any(not -last - 1 <= index <= last for index in self.out_indices):
                raise ValueError(f"out_indices are {list(self.out_indices)}, but the stages are 0 (stem) to {last}.")
            self.out_features = [self.stage_names[index] for index in self.out_indices]
        else:
            self.out_features = [self.stage_names[-1]]
        self.out_indices = [self.stage_names.index(name) for name in self.out_features]

    @property
    def image_height_width(self) -> tuple[int, int]:
        """Native input as (height, width)."""
        return as_pair(self.image_size)

    @property
    def patch_height_width(self) -> tuple[int, int]:
        """Patch as (height, width)."""
        return as_pair(self.patch_size)

    @property
    def head_dim(self) -> int:
        """Channels of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def input_multiple(self) -> tuple[int, int]:
        """What the input's height and width must be multiples of: the patch, times the 4K tokenizer's window."""
        window = self.tokenizer_window_size if self.num_tokenizer_layers else 1
        return self.patch_height_width[0] * window, self.patch_height_width[1] * window

    def replaced(self, **changes: Any) -> Sapiens2Config:
        """A copy with some fields changed; fields that follow from them, and aren't given, change along.

        Raises:
            ValueError: there is no such field, or ``out_features`` and ``out_indices`` contradict each other.
        """
        unknown = [name for name in changes if name not in _known_fields(type(self), changes) or name == "model_type"]
        if unknown:
            raise ValueError(f"A Sapiens2 configuration has no {', '.join(unknown)}.")
        following = {name: None for field, names in _FOLLOWING.items() if field in changes for name in names}
        config = dataclasses.replace(self, **(following | changes))
        indices = changes.get("out_indices")
        if indices is not None and [config.stage_names[index] for index in indices] != config.out_features:
            raise ValueError(
                f"out_features {config.out_features} and out_indices {list(indices)} name different stages; "
                "give one of them."
            )
        return config

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Sapiens2Config:
        """A configuration from what a config.json holds; keys of other libraries are ignored.

        Raises:
            ValueError: the file is of another kind of model.
        """
        kind = values.get("model_type", "sapiens2")
        if kind != "sapiens2":
            raise ValueError(f'This config.json is of a model of type "{kind}", not of Sapiens2.')
        known = _known_fields(cls, values)
        known.pop("model_type", None)
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """What config.json holds: transformers reads it too, so fields it lacks are left out where unused."""
        values = dataclasses.asdict(self)
        values.pop("num_labels")
        for request in ("output_hidden_states", "output_attentions", "return_class_token"):
            if not values[request]:
                values.pop(request)
        if not self.num_tokenizer_layers:
            values.pop("num_tokenizer_layers")
            values.pop("tokenizer_window_size")
        if values["head_config"] is not None and not values["head_config"]["use_rms_norm"]:
            values["head_config"].pop("use_rms_norm")
        return values

    @classmethod
    def from_pretrained(cls, path_or_repo: str | Path, **options) -> Sapiens2Config:
        """Reads ``config.json``: of a folder, of a repository on the hub, or the file itself.

        ``options`` are :class:`~sapiens2_core.hub.HubOptions`.

        Raises:
            ValueError: there is none, or it is of another kind of model.
        """
        path = Path(path_or_repo)
        file = path if path.is_file() else find_json(path_or_repo, CONFIG_NAME, **options)
        if file is None:
            raise ValueError(f"There is no {CONFIG_NAME} in {path_or_repo}.")
        return cls.from_dict(json.loads(file.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class OfficialSize:
    """One row of the family's table (paper, table 1; authors' ``arch_zoo``)."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_widths: str
    num_key_value_attention_heads: int
    num_tokenizer_layers: int = 0


SIZES: dict[str, OfficialSize] = {
    "0.1b": OfficialSize(768, 12, 12, "base", 12),
    "0.4b": OfficialSize(1024, 24, 16, "base", 8),
    "0.8b": OfficialSize(1280, 32, 16, "base", 8),
    "1b": OfficialSize(1536, 40, 24, "1b", 12),
    "1b-4k": OfficialSize(1536, 40, 24, "base", 12, num_tokenizer_layers=4),
    "5b": OfficialSize(2432, 56, 32, "5b", 16),
}


def _deconvolution_head(upsample: list[int], conv: list[int]) -> dict[str, Any]:
    return {"upsample_out_channels": upsample, "conv_out_channels": conv}


def _pixel_shuffle_head(upsample: list[int], conv: list[int], **more: Any) -> dict[str, Any]:
    return {
        "upsample_out_channels": upsample,
        "upsample_kernel_sizes": [3] * len(upsample),
        "use_pixel_shuffle": True,
        "conv_out_channels": conv,
        "conv_kernel_sizes": [3] * len(conv),
        **more,
    }


_SCALE_BRANCH = {"scale_conv_out_channels": [1536, 512, 128], "scale_final_hidden_sizes": [512, 128]}
_POINTMAP = _pixel_shuffle_head([1536, 768, 512, 256], [64, 32, 16], **_SCALE_BRANCH)
_DENSE = _pixel_shuffle_head([768, 512, 256, 128], [64, 32, 16])
_SEG = _deconvolution_head([512, 256, 128, 64], [64, 64])

#: Head widths by task, then by ``OfficialSize.head_widths`` ("base" serves the sizes without a row).
HEADS: dict[str, dict[str, dict[str, Any]]] = {
    "seg": {"base": _SEG},
    "pose": {
        "base": _deconvolution_head([1024, 768], [512, 512, 256]),
        "1b": _deconvolution_head([1536, 1024], [768, 512, 256]),
    },
    "normal": {"base": _DENSE, "5b": _pixel_shuffle_head([1536, 768, 512, 256], [128, 64, 32])},
    "matting": {"base": _DENSE},
    "pointmap": {
        "base": _POINTMAP,
        "5b": _pixel_shuffle_head([1536, 768, 768, 768], [128, 64, 32], **_SCALE_BRANCH),
    },
    "albedo": {
        "base": {**_DENSE, "use_rms_norm": True},
        "5b": _pixel_shuffle_head([1536, 768, 512, 256], [64, 32, 16], use_rms_norm=True),
    },
}


def official_config(size: str, task: str = "pretrain") -> Sapiens2Config:
    """The configuration of an official checkpoint.

    Args:
        size: a key of :data:`SIZES`, such as "0.4b".
        task: a key of :data:`sapiens2_core.tasks.TASKS`.
    """
    row = SIZES[size]
    widths = HEADS.get(task, {})
    head = None if task == "pretrain" else Sapiens2HeadConfig(**widths.get(row.head_widths, widths["base"]))
    return Sapiens2Config(
        hidden_size=row.hidden_size,
        intermediate_size=4 * row.hidden_size,
        num_hidden_layers=row.num_hidden_layers,
        num_attention_heads=row.num_attention_heads,
        num_key_value_attention_heads=row.num_key_value_attention_heads,
        num_tokenizer_layers=row.num_tokenizer_layers,
        image_size=list(NATIVE_SIZE_4K if row.num_tokenizer_layers else NATIVE_SIZE),
        head_config=head,
        num_labels=TASKS[task].num_labels or 2,
        flip_pairs=FLIP_PAIRS if task == "pose" else None,
        architectures=[TASKS[task].estimator],
    )


def tiny_config(task: str = "pretrain", image_size: tuple[int, int] = (128, 96)) -> Sapiens2Config:
    """A network with every part of the real ones, grouped-query layers included, that runs in milliseconds.

    For tests and for trying the graph: its weights are random and its pictures mean nothing.
    """
    heads = {
        "seg": _deconvolution_head([24, 16, 12, 8], [8, 8]),
        "pose": _deconvolution_head([24, 16], [16, 16, 8]),
    }
    dense = _pixel_shuffle_head([24, 16, 12, 8], [8, 8, 8])
    if task == "pointmap":
        dense |= {"scale_conv_out_channels": [16, 8], "scale_final_hidden_sizes": [16, 8]}
    if task == "albedo":
        dense |= {"use_rms_norm": True}
    return Sapiens2Config(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_attention_heads=2,
        image_size=list(image_size),
        head_config=None if task == "pretrain" else Sapiens2HeadConfig(**heads.get(task, dense)),
        num_labels=TASKS[task].num_labels or 2,
        flip_pairs=FLIP_PAIRS if task == "pose" else None,
        architectures=[TASKS[task].estimator],
    )
