"""Two layouts of one network: transformers' parameter names, which are ours, and the authors' names.

Only one direction is written down, ours to the authors'; the other follows from asking it for every parameter that
a network has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tasks import Task

ORIGINAL, TRANSFORMERS = "original", "transformers"

#: Tensors that a checkpoint may hold although no network has them: RoPE's periods are a constant.
IGNORED = re.compile(r"(^|\.)rope_embed\.periods$")

#: In order; the first that matches the part of a name inside a transformer layer is applied.
_LAYER = {
    "norm1.": "ln1.",
    "norm2.": "ln2.",
    "attention.q_proj.": "attn.wq.",
    "attention.k_proj.": "attn.wk.",
    "attention.v_proj.": "attn.wv.",
    "attention.o_proj.": "attn.proj.",
    "attention.q_norm.": "attn.q_norm.",
    "attention.k_norm.": "attn.k_norm.",
    "layer_scale1.lambda1": "attn.gamma.weight",
    "mlp.gate_proj.": "ffn.w12.",
    "mlp.up_proj.": "ffn.w12.",
    "mlp.down_proj.": "ffn.w3.",
}

_TRANSFORMER = {
    "embeddings.cls_token": "cls_token",
    "embeddings.register_tokens": "storage_tokens",
    "embeddings.mask_token": "mask_token",
    "embeddings.patch_embeddings.": "patch_embed.projection.",
    "embeddings.tokenizer.cls_token": "tokenizer.w_cls",
    "embeddings.tokenizer.position_embeddings": "tokenizer.local_pos_embed",
    "embeddings.tokenizer.layer.": "tokenizer.blocks.",
    "model.layer.": "blocks.",
    "norm.": "ln1.",
}

#: Position of each linear layer in the authors' ``scale_final_layer`` sequence, which starts with a flatten.
_SCALE_MLP = {"block1.layers.0.": "1.", "block2.layers.0.": "3.", "proj.": "5."}


@dataclass(frozen=True)
class Source:
    """Where a parameter lies in a file.

    Attributes:
        name: the tensor's name there.
        half: 0 or 1 when the parameter is the upper or lower half of its rows (the authors stack the MLP's gate and
            up projections in ``ffn.w12``), else None.
    """

    name: str
    half: int | None = None


def _replace_start(name: str, table: dict[str, str]) -> str:
    for ours, theirs in table.items():
        if name.startswith(ours):
            return theirs + name[len(ours) :]
    raise KeyError(name)


def _half(name: str) -> int | None:
    return 0 if ".mlp.gate_proj." in name else 1 if ".mlp.up_proj." in name else None


def _transformer_source(name: str) -> str:
    layer = re.match(r"((?:embeddings\.tokenizer|model)\.layer\.)(\d+)\.(.*)", name)
    if layer:
        stack, number, rest = layer.groups()
        return f"{_TRANSFORMER[stack]}{number}.{_replace_start(rest, _LAYER)}"
    return _replace_start(name, _TRANSFORMER)


def _head_source(name: str, task: Task, pixel_shuffle: bool) -> str:
    if name.startswith("scale_head.predictor."):
        rest = name.removeprefix("scale_head.predictor.")
        return "decode_head.scale_final_layer." + _replace_start(rest, _SCALE_MLP)
    if name.startswith("decode_head.predictor."):
        return name.replace("predictor", task.predictor)
    # The authors' convolution, normalisation and activation follow each other in one sequence, so that layer n of
    # a plain stack starts at 3 n; each block of a pixel-shuffle stack is a sequence of its own, and so is input_conv.
    head, stack, number, part, rest = re.match(
        r"(decode_head|scale_head)\.(input_conv|upsample_layers|conv_layers)\.(?:(\d+)\.)?(convolution|norm)\.(.*)",
        name,
    ).groups()
    norm = part == "norm"
    if stack == "input_conv":
        return f"decode_head.input_conv.{'1.norm' if norm else 0}.{rest}"
    if stack == "upsample_layers" and pixel_shuffle:
        return f"decode_head.upsample_blocks.{number}.{'2.norm' if norm else 0}.{rest}"
    if stack == "upsample_layers":
        return f"decode_head.deconv_layers.{3 * int(number)}.{rest}"
    prefix = "scale_" if head == "scale_head" else ""
    return f"decode_head.{prefix}conv_layers.{3 * int(number) + norm}.{'norm.' if norm else ''}{rest}"


def source_of(name: str, layout: str, task: Task, pixel_shuffle: bool = False) -> Source:
    """Where the parameter ``name`` of a task's network lies in a file of ``layout``.

    Args:
        name: as in the network's ``state_dict``.
        layout: :data:`ORIGINAL` or :data:`TRANSFORMERS`.
        task: the network's task; the bare model and the backbone are of task "pretrain".
        pixel_shuffle: whether the decode head upsamples by pixel shuffle.
    """
    if layout == TRANSFORMERS:
        return Source(name)
    if task.predictor is None:
        return Source(_transformer_source(name), _half(name))
    if name.startswith("model."):
        return Source("backbone." + _transformer_source(name.removeprefix("model.")), _half(name))
    return Source(_head_source(name, task, pixel_shuffle))
