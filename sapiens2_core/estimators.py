"""The networks that people use: a backbone and a head for each task, and what they give."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .backbone import Sapiens2Backbone, Sapiens2Model
from .config import Sapiens2Config
from .heads import Sapiens2Head, Sapiens2PointmapScaleHead
from .initialisation import init_head
from .losses import albedo_loss, heatmap_loss, matting_loss, normal_loss, pointmap_loss, segmentation_loss
from .pretrained import Sapiens2PreTrainedModel
from .tasks import TASKS

# Fields of outputs come in transformers' order. In each of them ``loss`` is a scalar, where there were labels, and
# ``hidden_states`` and ``attentions`` are as in backbone.BaseModelOutputWithPooling, on request.


@dataclass
class Sapiens2PoseEstimatorOutput:
    """``heatmaps``: (B, 308, H/4, W/4), about 0..1."""

    loss: Tensor | None = None
    heatmaps: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class SemanticSegmenterOutput:
    """``logits``: (B, 29, H, W), before the softmax."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class Sapiens2NormalEstimatorOutput:
    """``normals``: (B, 3, H, W), x right, y up, z towards the camera; not normalised."""

    loss: Tensor | None = None
    normals: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class Sapiens2PointmapEstimatorOutput:
    """``pointmaps``: (B, 3, H, W), x right, y down, z forward, for the canonical focal length.

    ``scales``: (B, 1) canonical focal length / actual focal length, or None without a scale branch; metres are
    ``pointmaps / scales``.
    """

    loss: Tensor | None = None
    pointmaps: Tensor | None = None
    scales: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


@dataclass
class Sapiens2ImageMattingOutput:
    """``alphas``: (B, 1, H, W), ``foregrounds``: (B, 3, H, W) premultiplied; both 0..1."""

    loss: Tensor | None = None
    alphas: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    foregrounds: Tensor | None = None


@dataclass
class Sapiens2AlbedoEstimatorOutput:
    """``albedos``: (B, 3, H, W); a picture is made by clamping to 0..1, the network's output is not clamped."""

    loss: Tensor | None = None
    albedos: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class _Sapiens2Estimator(Sapiens2PreTrainedModel):
    """A backbone and a decode head."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__(config)
        self.model = Sapiens2Model(config, operations)
        self.decode_head = Sapiens2Head(config, operations)
        init_head(self.decode_head)

    def _features(self, pixel_values: Tensor, **requests: bool) -> tuple[Tensor, dict[str, tuple[Tensor, ...] | None]]:
        """The backbone's map (B, C, rows, columns), and what else was asked of it."""
        outputs = self.model(pixel_values, **requests)
        feature_map = self.model.feature_map(outputs.last_hidden_state, pixel_values.shape[2])
        return feature_map, {"hidden_states": outputs.hidden_states, "attentions": outputs.attentions}


def flip_back(heatmaps: Tensor, flip_pairs: Tensor) -> Tensor:
    """Heatmaps of a mirrored image as those of the image itself.

    Args:
        heatmaps: (B, keypoints, H, W).
        flip_pairs: (pairs, 2) indices of keypoints that are each other's mirror image.
    """
    order = torch.arange(heatmaps.shape[1], device=heatmaps.device)
    left, right = flip_pairs.to(heatmaps.device).unbind(-1)
    order[left], order[right] = right, left
    return heatmaps[:, order].flip(-1)


class Sapiens2ForPoseEstimation(_Sapiens2Estimator):
    """Heatmaps of 308 keypoints."""

    def forward(
        self,
        pixel_values: Tensor,
        flip_pairs: Tensor | None = None,
        labels: Tensor | None = None,
        label_weights: Tensor | None = None,
        **requests: bool,
    ) -> Sapiens2PoseEstimatorOutput:
        """Heatmaps of (B, 3, H, W) crops of one person each.

        Args:
            pixel_values: normalised; H and W multiples of 16.
            flip_pairs: (pairs, 2); give it when the crops were mirrored, and the heatmaps are mirrored back.
            labels, label_weights: targets as large as the heatmaps, and what they weigh, for the loss:
                :func:`~sapiens2_core.losses.heatmap_loss`.
            requests: ``output_hidden_states``, ``output_attentions``.

        Raises:
            ValueError: the input's size doesn't fit, or labels don't fit the output.
        """
        feature_map, extras = self._features(pixel_values, **requests)
        heatmaps = self.decode_head(feature_map)
        if flip_pairs is not None:
            heatmaps = flip_back(heatmaps, flip_pairs)
        loss = None if labels is None else heatmap_loss(heatmaps, labels, label_weights)
        return Sapiens2PoseEstimatorOutput(loss=loss, heatmaps=heatmaps, **extras)


class Sapiens2ForSemanticSegmentation(_Sapiens2Estimator):
    """Logits of 29 body parts."""

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None, **requests: bool) -> SemanticSegmenterOutput:
        """Logits of (B, 3, H, W) normalised images.

        ``labels`` are those of :func:`~sapiens2_core.losses.segmentation_loss`, with the configuration's
        ``semantic_loss_ignore_index``; ``requests`` as in :class:`Sapiens2ForPoseEstimation`.
        """
        feature_map, extras = self._features(pixel_values, **requests)
        logits = self.decode_head(feature_map)
        ignored = self.config.semantic_loss_ignore_index
        loss = None if labels is None else segmentation_loss(logits, labels, ignored)
        return SemanticSegmenterOutput(loss=loss, logits=logits, **extras)


class Sapiens2ForNormalEstimation(_Sapiens2Estimator):
    """Surface normals."""

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        valid_mask: Tensor | None = None,
        **requests: bool,
    ) -> Sapiens2NormalEstimatorOutput:
        """Normals of (B, 3, H, W) normalised images.

        ``labels`` and ``valid_mask`` are those of :func:`~sapiens2_core.losses.normal_loss`; ``requests`` as in
        :class:`Sapiens2ForPoseEstimation`.
        """
        feature_map, extras = self._features(pixel_values, **requests)
        normals = self.decode_head(feature_map)
        loss = None if labels is None else normal_loss(normals, labels, valid_mask)
        return Sapiens2NormalEstimatorOutput(loss=loss, normals=normals, **extras)


class Sapiens2ForPointmapEstimation(_Sapiens2Estimator):
    """Camera-space points, and the scale that makes them metric."""

    def __init__(self, config: Sapiens2Config, operations=nn) -> None:
        super().__init__(config, operations)
        has_scale = config.head_config.scale_conv_out_channels is not None
        self.scale_head = Sapiens2PointmapScaleHead(config, operations) if has_scale else None
        if has_scale:
            init_head(self.scale_head)

    def check_input(self, pixel_values: Tensor) -> None:
        """Raises ValueError unless the scale branch, made for one flattened size, fits the input."""
        super().check_input(pixel_values)
        if self.scale_head is None:
            return
        head, patch = self.config.head_config, self.config.patch_height_width
        height, width = pixel_values.shape[-2:]
        if head.flattened_scale_size((height, width), patch) == head.scale_final_input_size:
            return
        native = self.config.image_height_width
        sizes = [native, native[::-1]]
        fitting = [size for size in sizes if head.flattened_scale_size(size, patch) == head.scale_final_input_size]
        names = " and ".join(dict.fromkeys(f"{w} × {h}" for h, w in fitting))
        raise ValueError(
            f"The input is {width} × {height} pixels, which this checkpoint's scale branch can't take. "
            f"It was made for {names} (width × height)."
        )

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        scale_labels: Tensor | None = None,
        valid_mask: Tensor | None = None,
        **requests: bool,
    ) -> Sapiens2PointmapEstimatorOutput:
        """Pointmaps of (B, 3, H, W) normalised images.

        ``labels``, ``scale_labels`` and ``valid_mask`` are those of :func:`~sapiens2_core.losses.pointmap_loss`;
        ``requests`` as in :class:`Sapiens2ForPoseEstimation`.

        Raises:
            ValueError: the scale branch can't take this size (the message says which sizes fit), or labels don't fit
                the output.
        """
        self.check_input(pixel_values)
        feature_map, extras = self._features(pixel_values, **requests)
        scales = None if self.scale_head is None else self.scale_head(feature_map)
        pointmaps = self.decode_head(feature_map)
        loss = None if labels is None else pointmap_loss(pointmaps, labels, scales, scale_labels, valid_mask)
        return Sapiens2PointmapEstimatorOutput(loss=loss, pointmaps=pointmaps, scales=scales, **extras)


class Sapiens2ForImageMatting(_Sapiens2Estimator):
    """Alpha matte and premultiplied foreground."""

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        valid_mask: Tensor | None = None,
        **requests: bool,
    ) -> Sapiens2ImageMattingOutput:
        """Mattes of (B, 3, H, W) normalised images.

        ``labels`` and ``valid_mask`` are those of :func:`~sapiens2_core.losses.matting_loss`; ``requests`` as in
        :class:`Sapiens2ForPoseEstimation`.
        """
        feature_map, extras = self._features(pixel_values, **requests)
        matting = self.decode_head(feature_map).sigmoid()
        foregrounds, alphas = matting[:, :3], matting[:, 3:]
        loss = None if labels is None else matting_loss(alphas, foregrounds, labels, valid_mask)
        return Sapiens2ImageMattingOutput(loss=loss, alphas=alphas, foregrounds=foregrounds, **extras)


class Sapiens2ForAlbedoEstimation(_Sapiens2Estimator):
    """Colour without light. The authors' network; transformers has no class for it."""

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        valid_mask: Tensor | None = None,
        **requests: bool,
    ) -> Sapiens2AlbedoEstimatorOutput:
        """Albedo of (B, 3, H, W) normalised images.

        ``labels`` and ``valid_mask`` are those of :func:`~sapiens2_core.losses.albedo_loss`; ``requests`` as in
        :class:`Sapiens2ForPoseEstimation`.
        """
        feature_map, extras = self._features(pixel_values, **requests)
        albedos = self.decode_head(feature_map)
        loss = None if labels is None else albedo_loss(albedos, labels, valid_mask)
        return Sapiens2AlbedoEstimatorOutput(loss=loss, albedos=albedos, **extras)


#: Every class that a checkpoint may be loaded into, by name.
MODEL_CLASSES: dict[str, type[Sapiens2PreTrainedModel]] = {
    cls.__name__: cls
    for cls in (
        Sapiens2Model,
        Sapiens2Backbone,
        Sapiens2ForPoseEstimation,
        Sapiens2ForSemanticSegmentation,
        Sapiens2ForNormalEstimation,
        Sapiens2ForPointmapEstimation,
        Sapiens2ForImageMatting,
        Sapiens2ForAlbedoEstimation,
    )
}


def build(config: Sapiens2Config, task: str, operations=nn) -> Sapiens2PreTrainedModel:
    """A network of a task with first weights."""
    return MODEL_CLASSES[TASKS[task].estimator](config, operations)


def task_of(model: Sapiens2PreTrainedModel) -> str:
    """Name of the task that ``model`` was built for."""
    name = type(model).__name__
    return next((task.name for task in TASKS.values() if task.estimator == name), "pretrain")
