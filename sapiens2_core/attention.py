"""Rotary position embedding and grouped-query attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import onednn_attention
from .config import Sapiens2Config
from .norms import RMSNorm
from .onednn import linear_class


def patch_center_coordinates(grid: tuple[int, int], device: torch.device) -> Tensor:
    """Centres of a (rows, columns) grid of patches as (rows · columns, 2) y and x, each axis scaled to -1..1."""
    axes = [(torch.arange(n, dtype=torch.float32, device=device) + 0.5) / n * 2 - 1 for n in grid]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, 1)


def augment_coordinates(coordinates: Tensor, config: Sapiens2Config) -> Tensor:
    """Moves and stretches (patches, 2) coordinates at random, for training: DINOv3's way to many input sizes.

    One shift per axis, uniform in ±``pos_embed_shift``; one factor per axis, log-uniform in 1/``pos_embed_jitter`` to
    ``pos_embed_jitter``; one factor for both, log-uniform in 1/``pos_embed_rescale`` to ``pos_embed_rescale``; each
    left out where it is None. Drawn in this order, as transformers does, so that one seed gives both the same.
    """
    shift, jitter, rescale = config.pos_embed_shift, config.pos_embed_jitter, config.pos_embed_rescale
    if shift is not None:
        coordinates = coordinates + coordinates.new_empty(1, 2).uniform_(-shift, shift)
    if jitter is not None:
        coordinates = coordinates * coordinates.new_empty(1, 2).uniform_(-math.log(jitter), math.log(jitter)).exp()
    if rescale is not None:
        coordinates = coordinates * coordinates.new_empty(1).uniform_(-math.log(rescale), math.log(rescale)).exp()
    return coordinates


def rotary_embedding(
    config: Sapiens2Config, grid: tuple[int, int], like: Tensor, training: bool = False
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every token's rotation.

    Angles are 2π · coordinate / period with periods ``rope_theta ** (4 i / head_dim)`` (transformers' Sapiens2;
    DINOv3), computed in fp32 whatever the network runs in. CLS and register tokens are not rotated: their rows are
    cos 1, sin 0, so that one multiplication serves the whole sequence.

    Args:
        config: the network's configuration.
        grid: rows and columns of patch tokens.
        like: a tensor of the device and type wanted.
        training: whether to augment the coordinates.

    Returns:
        Two tensors of shape (tokens, head_dim).
    """
    inverse_periods = config.rope_theta ** -torch.arange(
        0, 1, 4 / config.head_dim, dtype=torch.float32, device=like.device
    )
    coordinates = patch_center_coordinates(grid, like.device)
    if training:
        coordinates = augment_coordinates(coordinates, config)
    angles = 2 * math.pi * coordinates[:, :, None] * inverse_periods
    angles = angles.flatten(1).tile(2)
    angles = F.pad(angles, (0, 0, 1 + config.num_register_tokens, 0))
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate_half(x: Tensor) -> Tensor:
    """(…, 2 n) → the second half negated, then the first."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary(x: Tensor, position_embeddings: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates (B, heads, tokens, head_dim) queries or keys."""
    cos, sin = position_embeddings
    return torch.addcmul(x * cos, rotate_half(x), sin)


def _grouped_kernel_available(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether a fused kernel takes fewer key/value heads than query heads as they are.

    On the CPU the fused kernel does. On CUDA flash attention does (fp16 and bf16 only); without it PyTorch falls
    back to the math kernel, whose memory grows with the square of the tokens. torch.compile can't trace the question
    (PyTorch 2.9), so compiled networks do without.
    """
    if query.device.type == "cpu":
        return True
    if query.device.type != "cuda" or torch.compiler.is_compiling():
        return False
    params = torch.backends.cuda.SDPAParams(query, key, value, None, 0.0, False, True)
    return torch.backends.cuda.can_use_flash_attention(params)


def repeat_key_value_heads(x: Tensor, groups: int) -> Tensor:
    """(B, kv heads, tokens, d) → (B, kv heads · groups, tokens, d), each head repeated ``groups`` times in a row."""
    return x.repeat_interleave(groups, dim=1)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0) -> Tensor:
    """Attention of (B, heads, tokens, d) queries over (B, kv heads, tokens, d) keys and values, never quadratic."""
    if dropout == 0 and onednn_attention.helps(query):
        shift = onednn_attention.shift_of_logits(query, key)
        if shift is not None:
            return onednn_attention.attend(query, key, value, shift)
    groups = query.shape[1] // key.shape[1]
    grouped = groups > 1 and _grouped_kernel_available(query, key, value)
    if groups > 1 and not grouped:
        key, value = repeat_key_value_heads(key, groups), repeat_key_value_heads(value, groups)
    return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, enable_gqa=grouped)


def explicit_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """The same with the weights (B, heads, tokens, tokens) written out; used only where somebody asks for them."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_key_value_heads(key, groups), repeat_key_value_heads(value, groups)
    weights = torch.matmul(query, key.transpose(2, 3)) * query.shape[-1] ** -0.5
    weights = weights.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
    weights = F.dropout(weights, dropout, training=dropout > 0)
    return torch.matmul(weights, value), weights


class Sapiens2Attention(nn.Module):
    """Multi-head attention, with fewer key and value heads than query heads in the grouped-query layers."""

    def __init__(self, config: Sapiens2Config, num_key_value_heads: int, qk_norm: bool, operations=nn) -> None:
        super().__init__()
        linear = linear_class(operations)
        hidden, key_value = config.hidden_size, num_key_value_heads * config.head_dim
        self.head_dim = config.head_dim
        self.dropout = config.attention_dropout
        self.q_proj = linear(hidden, hidden, bias=config.query_bias)
        self.k_proj = linear(hidden, key_value, bias=config.key_bias)
        self.v_proj = linear(hidden, key_value, bias=config.value_bias)
        self.o_proj = linear(hidden, hidden, bias=config.proj_bias)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps) if qk_norm else nn.Identity()
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps) if qk_norm else nn.Identity()

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, tokens, C) → (B, tokens, C) and, where asked for, the weights (B, heads, tokens, tokens)."""
        heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        query = self.q_norm(self.q_proj(hidden_states).view(heads)).transpose(1, 2)
        key = self.k_norm(self.k_proj(hidden_states).view(heads)).transpose(1, 2)
        value = self.v_proj(hidden_states).view(heads).transpose(1, 2)
        if position_embeddings is not None:
            query = apply_rotary(query, position_embeddings)
            key = apply_rotary(key, position_embeddings)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if output_attentions:
            attended, weights = explicit_attention(query, key, value, dropout)
        else:
            attended = scaled_dot_product_attention(query, key, value, dropout)
        return self.o_proj(attended.transpose(1, 2).flatten(2)), weights
