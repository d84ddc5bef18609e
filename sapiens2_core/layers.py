"""One transformer layer: attention, then a gated MLP, each on a residual branch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Sapiens2Attention
from .config import Sapiens2Config
from .norms import LayerScale, RMSNorm
from .onednn import linear_class


def silu(x: Tensor) -> Tensor:
    """SiLU, over its input where autograd is off."""
    return F.silu(x, inplace=not torch.is_grad_enabled())


ACTIVATIONS = {"silu": silu, "gelu": F.gelu, "relu": F.relu}


class Sapiens2MLP(nn.Module):
    """up → activation → down."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__()
        self.up_proj = linear_class(operations)(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down_proj = linear_class(operations)(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)
        self.act_fn = ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        """(…, C) → (…, C)."""
        return self.down_proj(self.act_fn(self.up_proj(x)))


class Sapiens2GatedMLP(Sapiens2MLP):
    """SwiGLU: activation(gate) · up → down."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__(config, operations)
        self.gate_proj = linear_class(operations)(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, C) → (…, C)."""
        gate = self.act_fn(self.gate_proj(x))
        # In place where autograd is off: on CPUs, fresh memory of this size costs as much as the product.
        return self.down_proj(gate * self.up_proj(x) if torch.is_grad_enabled() else gate.mul_(self.up_proj(x)))


def drop_path(x: Tensor, probability: float, training: bool) -> Tensor:
    """Stochastic depth: drops whole samples of a residual branch while training (arXiv 1603.09382).

    Draws as transformers does, so that one seed gives both the same network.
    """
    if probability == 0.0 or not training:
        return x
    keep = 1 - probability
    kept = torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), dtype=x.dtype, device=x.device) + keep
    return x / keep * kept.floor()


class Sapiens2Layer(nn.Module):
    """Pre-norm transformer layer; LayerScale on the attention branch only."""

    def __init__(
        self,
        config: Sapiens2Config,
        num_key_value_heads: int,
        qk_norm: bool = True,
        layer_scale: bool = True,
        operations=nn,
    ) -> None:
        super().__init__()
        self.norm1 = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Sapiens2Attention(config, num_key_value_heads, qk_norm, operations)
        self.layer_scale1 = LayerScale(config.hidden_size, config.layerscale_value) if layer_scale else nn.Identity()
        self.norm2 = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = (Sapiens2GatedMLP if config.use_gated_mlp else Sapiens2MLP)(config, operations)
        self.drop_path_rate = config.drop_path_rate

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, tokens, C) → (B, tokens, C) and, where asked for, the attention weights."""
        branch, weights = self.attention(self.norm1(hidden_states), position_embeddings, output_attentions)
        branch = self.layer_scale1(branch)
        hidden_states = hidden_states + drop_path(branch, self.drop_path_rate, self.training)
        branch = self.mlp(self.norm2(hidden_states))
        return hidden_states + drop_path(branch, self.drop_path_rate, self.training), weights


def chunked(function, x: Tensor, size: int) -> Tensor:
    """``function`` over at most ``size`` samples at once, so that its memory does not grow with the batch."""
    return torch.cat([function(part) for part in x.split(size)]) if x.shape[0] > size else function(x)
