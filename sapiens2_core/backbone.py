"""The vision transformer: embeddings, the 4K tokenizer, the bare model and the backbone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .attention import rotary_embedding
from .config import Sapiens2Config
from .initialisation import init_transformer
from .layers import Sapiens2Layer, chunked
from .norms import RMSNorm
from .pretrained import Sapiens2PreTrainedModel


@dataclass
class BaseModelOutputWithPooling:
    """What :class:`Sapiens2Model` gives.

    Attributes:
        last_hidden_state: (B, tokens, C) CLS, registers, then patches row by row, after the last norm.
        pooler_output: (B, C) the CLS token: an embedding of the whole image.
        hidden_states: the embeddings' output and each layer's, (B, tokens, C), before the last norm; on request.
        attentions: each layer's weights (B, heads, tokens, tokens); on request.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class Sapiens2BackboneOutput:
    """What :class:`Sapiens2Backbone` gives.

    Attributes:
        feature_maps: of each chosen stage, (B, C, rows, columns), or (B, patches, C) when the configuration's
            ``reshape_hidden_states`` is off.
        hidden_states, attentions: as in :class:`BaseModelOutputWithPooling`.
        cls_tokens: of each chosen stage, (B, C); on request.
    """

    feature_maps: tuple[Tensor, ...]
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    cls_tokens: tuple[Tensor, ...] | None = None


def recomputed(function: Callable) -> Callable:
    """``function``, whose inside is not kept for the backward pass but computed again."""
    return partial(checkpoint, function, use_reentrant=False)


class Sapiens2Tokenizer(nn.Module):
    """Pools windows of patch tokens into one token each, so that a 4K image costs what a 1K image does.

    A learned CLS token is put in front of each window's tokens, learned positions are added, and what a few plain
    transformer layers make of the CLS token stands for the window.
    """

    #: Windows worked on at once; they don't see each other, so this only bounds memory.
    windows_at_once = 1024

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__()
        self.gradient_checkpointing = False
        self.window = config.tokenizer_window_size
        self.cls_token = nn.Parameter(torch.empty(1, 1, config.hidden_size))
        self.position_embeddings = nn.Parameter(torch.empty(1, 1 + self.window**2, config.hidden_size))
        plain = dataclasses.replace(config, intermediate_size=4 * config.hidden_size)
        self.layer = nn.ModuleList(
            Sapiens2Layer(plain, config.num_attention_heads, qk_norm=False, layer_scale=False, operations=operations)
            for _ in range(config.num_tokenizer_layers)
        )

    def forward(self, patches: Tensor) -> Tensor:
        """(B, C, rows, columns) → (B, C, rows / window, columns / window)."""
        batch, channels, rows, columns = patches.shape
        grid = (batch, rows // self.window, columns // self.window)
        windows = patches.unflatten(2, (-1, self.window)).unflatten(4, (-1, self.window))
        windows = windows.permute(0, 2, 4, 3, 5, 1).reshape(-1, self.window**2, channels)
        pool = recomputed(self._pool) if self.gradient_checkpointing and self.training else self._pool
        return chunked(pool, windows, self.windows_at_once).view(*grid, channels).permute(0, 3, 1, 2)

    def _pool(self, windows: Tensor) -> Tensor:
        cls_token = self.cls_token.to(windows).expand(windows.shape[0], -1, -1)
        tokens = torch.cat([cls_token, windows], dim=1) + self.position_embeddings.to(windows)
        for layer in self.layer:
            tokens, _ = layer(tokens)
        return tokens[:, 0]


class Sapiens2Embeddings(nn.Module):
    """Pixels to tokens: CLS, registers, then patches row by row."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__()
        self.casts_weights = operations is not nn  # a host's layers cast their weights to the input's type
        size, patch = config.hidden_size, config.patch_height_width
        self.cls_token = nn.Parameter(torch.empty(1, 1, size))
        self.mask_token = nn.Parameter(torch.empty(1, 1, size)) if config.use_mask_token else None
        self.register_tokens = nn.Parameter(torch.empty(1, config.num_register_tokens, size))
        self.patch_embeddings = operations.Conv2d(config.num_channels, size, kernel_size=patch, stride=patch)
        self.tokenizer = Sapiens2Tokenizer(config, operations) if config.num_tokenizer_layers else nn.Identity()

    def forward(self, pixel_values: Tensor, bool_masked_pos: Tensor | None = None) -> tuple[Tensor, tuple[int, int]]:
        """(B, 3, H, W) → (B, tokens, C) and the patch grid (rows, columns)."""
        if not self.casts_weights:
            pixel_values = pixel_values.to(self.patch_embeddings.weight.dtype)
        patches = self.tokenizer(self.patch_embeddings(pixel_values))
        grid = (patches.shape[2], patches.shape[3])
        patches = patches.flatten(2).transpose(1, 2)
        if bool_masked_pos is not None:
            if self.mask_token is None:
                raise ValueError("bool_masked_pos needs a network with a mask token: use_mask_token=True.")
            patches = torch.where(bool_masked_pos.unsqueeze(-1), self.mask_token.to(patches), patches)
        prefix = [
            token.to(patches).expand(patches.shape[0], -1, -1) for token in (self.cls_token, self.register_tokens)
        ]
        return torch.cat([*prefix, patches], dim=1), grid


class Sapiens2Encoder(nn.Module):
    """The stack of transformer layers."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__()
        self.gradient_checkpointing = False
        self.layer = nn.ModuleList(
            Sapiens2Layer(config, key_value_heads, qk_norm=config.use_qk_norm, operations=operations)
            for key_value_heads in config.num_key_value_heads_per_layer
        )

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        keep: range | list[int] | tuple[int, ...] = (),
        output_attentions: bool = False,
    ) -> tuple[Tensor, dict[int, Tensor], tuple[Tensor, ...]]:
        """Runs all layers.

        Args:
            hidden_states: (B, tokens, C).
            position_embeddings: cosines and sines of :func:`~sapiens2_core.attention.rotary_embedding`.
            keep: which states to hold on to: 0 is the input, i the output of layer i.
            output_attentions: whether to return each layer's attention weights.

        Returns:
            The last layer's output, the kept states by number, the attention weights.
        """
        kept, attentions = {}, []
        if 0 in keep:
            kept[0] = hidden_states
        for number, layer in enumerate(self.layer, start=1):
            run = recomputed(layer) if self.gradient_checkpointing and self.training else layer
            hidden_states, weights = run(hidden_states, position_embeddings, output_attentions)
            if number in keep:
                kept[number] = hidden_states
            if output_attentions:
                attentions.append(weights)
        return hidden_states, kept, tuple(attentions)


class _Sapiens2Transformer(Sapiens2PreTrainedModel):
    """What the bare model and the backbone share: their parameters, under transformers' names."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__(config)
        self.embeddings = Sapiens2Embeddings(config, operations)
        self.model = Sapiens2Encoder(config, operations)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        init_transformer(self, config)

    def _requests(self, hidden_states: bool | None, attentions: bool | None) -> tuple[bool, bool]:
        """What a call asks for, or else the configuration."""
        return (
            self.config.output_hidden_states if hidden_states is None else hidden_states,
            self.config.output_attentions if attentions is None else attentions,
        )

    def _encode(
        self, pixel_values: Tensor, bool_masked_pos: Tensor | None, keep, output_attentions: bool
    ) -> tuple[Tensor, dict[int, Tensor], tuple[Tensor, ...], tuple[int, int]]:
        self.check_input(pixel_values)
        hidden_states, grid = self.embeddings(pixel_values, bool_masked_pos)
        rotary = rotary_embedding(self.config, grid, like=hidden_states, training=self.training)
        return (*self.model(hidden_states, rotary, keep, output_attentions), grid)


class Sapiens2Model(_Sapiens2Transformer):
    """The bare network: tokens without a head."""

    def forward(
        self,
        pixel_values: Tensor,
        bool_masked_pos: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutputWithPooling:
        """Tokens of an image.

        Args:
            pixel_values: (B, 3, H, W) normalised; H and W multiples of 16 (64 for the 4K tokenizer).
            bool_masked_pos: (B, patches), True where the mask token stands in for a patch.
            output_hidden_states: whether to return every layer's output; None: as the configuration says.
            output_attentions: likewise every layer's attention weights (memory grows with tokens²).

        Raises:
            ValueError: the input's size doesn't fit.
        """
        output_hidden_states, output_attentions = self._requests(output_hidden_states, output_attentions)
        keep = range(self.config.num_hidden_layers + 1) if output_hidden_states else ()
        hidden, kept, attentions, _ = self._encode(pixel_values, bool_masked_pos, keep, output_attentions)
        hidden = self.norm(hidden)
        return BaseModelOutputWithPooling(
            last_hidden_state=hidden,
            pooler_output=hidden[:, 0],
            hidden_states=tuple(kept.values()) if output_hidden_states else None,
            attentions=attentions if output_attentions else None,
        )

    def feature_map(self, tokens: Tensor, height: int) -> Tensor:
        """The patches among (B, tokens, C) of an input of ``height`` pixels as a map (B, C, rows, columns)."""
        rows = height // self.config.input_multiple[0]
        patches = tokens[:, 1 + self.config.num_register_tokens :]
        return patches.transpose(1, 2).unflatten(2, (rows, -1))


class Sapiens2Backbone(_Sapiens2Transformer):
    """The network as a backbone: feature maps of the stages that ``config.out_features`` names."""

    def forward(
        self,
        pixel_values: Tensor,
        return_class_token: bool | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> Sapiens2BackboneOutput:
        """Feature maps of an image.

        Args:
            pixel_values: (B, 3, H, W) normalised; H and W multiples of 16 (64 for the 4K tokenizer).
            return_class_token: whether to return the CLS tokens of the chosen stages; None: as the configuration says.
            output_hidden_states: likewise every layer's output.
            output_attentions: likewise every layer's attention weights (memory grows with tokens²).

        Raises:
            ValueError: the input's size doesn't fit.
        """
        config = self.config
        output_hidden_states, output_attentions = self._requests(output_hidden_states, output_attentions)
        if return_class_token is None:
            return_class_token = config.return_class_token
        keep = range(config.num_hidden_layers + 1) if output_hidden_states else config.out_indices
        _, kept, attentions, grid = self._encode(pixel_values, None, keep, output_attentions)
        feature_maps, cls_tokens = [], []
        for index in sorted(config.out_indices):
            tokens = self.norm(kept[index]) if config.normalize_backbone_outputs else kept[index]
            patches = tokens[:, 1 + config.num_register_tokens :]
            if config.reshape_hidden_states:
                patches = patches.transpose(1, 2).unflatten(2, grid).contiguous()
            feature_maps.append(patches)
            cls_tokens.append(tokens[:, 0])
        return Sapiens2BackboneOutput(
            feature_maps=tuple(feature_maps),
            hidden_states=tuple(kept.values()) if output_hidden_states else None,
            attentions=attentions if output_attentions else None,
            cls_tokens=tuple(cls_tokens) if return_class_token else None,
        )
