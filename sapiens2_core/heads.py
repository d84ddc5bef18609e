"""Decode heads: from the backbone's feature map to heatmaps, logits, normals, points, mattes; and the scale branch."""

from __future__ import annotations

from torch import Tensor, nn

from . import onednn
from .config import Sapiens2Config
from .layers import silu
from .norms import ChannelRMSNorm, InstanceNorm


class Sapiens2ConvLayer(nn.Module):
    """Convolution, optional pixel shuffle, normalisation, SiLU."""

    def __init__(self, convolution: nn.Module, out_channels: int, pixel_shuffle: bool, rms_norm_eps: float | None):
        super().__init__()
        self.convolution = convolution
        self.pixel_shuffle = nn.PixelShuffle(2) if pixel_shuffle else nn.Identity()
        self.norm = InstanceNorm() if rms_norm_eps is None else ChannelRMSNorm(out_channels, rms_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, out_channels, H', W')."""
        if onednn.helps(self.convolution, x):
            side = getattr(self.pixel_shuffle, "upscale_factor", 1)
            return onednn.finish(onednn.convolve(self.convolution, x, side), self.norm.for_strips)
        x = self.norm(self.pixel_shuffle(self.convolution(x)))
        return silu(x)


class Sapiens2Head(nn.Module):
    """Doubles the feature map's resolution block by block, refines it, predicts ``num_labels`` channels.

    Transposed convolutions (body parts, pose) or convolutions with pixel shuffle (normals, pointmaps, mattes,
    albedo); facts and names as in transformers.
    """

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__()
        head = config.head_config
        shuffle = bool(head.use_pixel_shuffle)
        rms_norm_eps = config.rms_norm_eps if head.use_rms_norm else None

        def convolution_layer(inputs: int, outputs: int, kernel: int, padding: int) -> Sapiens2ConvLayer:
            convolution = operations.Conv2d(inputs, outputs, kernel_size=kernel, padding=padding)
            return Sapiens2ConvLayer(convolution, outputs, False, rms_norm_eps)

        def upsample_layer(inputs: int, outputs: int, kernel: int) -> Sapiens2ConvLayer:
            if shuffle:
                layer = operations.Conv2d(inputs, outputs * 4, kernel_size=kernel, padding=(kernel - 1) // 2)
            else:
                layer = operations.ConvTranspose2d(inputs, outputs, kernel, stride=2, padding=1, bias=False)
            return Sapiens2ConvLayer(layer, outputs, shuffle, rms_norm_eps)

        channels = config.hidden_size
        self.input_conv = convolution_layer(channels, channels, 3, 1) if shuffle else nn.Identity()
        self.upsample_layers = nn.ModuleList()
        for outputs, kernel in zip(head.upsample_out_channels, head.upsample_kernel_sizes, strict=True):
            self.upsample_layers.append(upsample_layer(channels, outputs, kernel))
            channels = outputs
        self.conv_layers = nn.ModuleList()
        for outputs, kernel in zip(head.conv_out_channels, head.conv_kernel_sizes, strict=True):
            self.conv_layers.append(convolution_layer(channels, outputs, kernel, (kernel - 1) // 2 if shuffle else 0))
            channels = outputs
        self.predictor = operations.Conv2d(channels, config.num_labels, kernel_size=1)

    def forward(self, feature_map: Tensor) -> Tensor:
        """(B, C, rows, columns) → (B, num_labels, rows · 2ⁿ, columns · 2ⁿ) for n upsampling blocks."""
        x = self.input_conv(feature_map)
        for layer in (*self.upsample_layers, *self.conv_layers):
            x = layer(x)
        return self.predictor(x).contiguous()


class Sapiens2PointmapScaleMLPBlock(nn.Module):
    """Linear, SiLU."""

    def __init__(self, inputs: int, outputs: int, operations=nn) -> None:
        super().__init__()
        self.layers = nn.ModuleList([operations.Linear(inputs, outputs)])

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) → (B, outputs)."""
        return silu(self.layers[0](x))


class Sapiens2PointmapScaleMLP(nn.Module):
    """The flattened map to one number."""

    def __init__(self, inputs: int, hidden_sizes: list[int], operations=nn) -> None:
        super().__init__()
        self.block1 = Sapiens2PointmapScaleMLPBlock(inputs, hidden_sizes[0], operations)
        self.block2 = Sapiens2PointmapScaleMLPBlock(hidden_sizes[0], hidden_sizes[1], operations)
        self.proj = operations.Linear(hidden_sizes[1], 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, 1)."""
        return self.proj(self.block2(self.block1(x.flatten(1))))


class Sapiens2PointmapScaleHead(nn.Module):
    """The pointmap's second branch: canonical focal length / actual focal length."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__()
        head = config.head_config
        channels = config.hidden_size
        self.conv_layers = nn.ModuleList()
        for outputs, kernel in zip(head.scale_conv_out_channels, head.scale_conv_kernel_sizes, strict=True):
            layer = operations.Conv2d(channels, outputs, kernel, stride=2, padding=(kernel - 1) // 2)
            self.conv_layers.append(Sapiens2ConvLayer(layer, outputs, False, None))
            channels = outputs
        self.predictor = Sapiens2PointmapScaleMLP(
            head.scale_final_input_size, head.scale_final_hidden_sizes, operations
        )

    def forward(self, feature_map: Tensor) -> Tensor:
        """(B, C, rows, columns) → (B, 1)."""
        for layer in self.conv_layers:
            feature_map = layer(feature_map)
        return self.predictor(feature_map)
