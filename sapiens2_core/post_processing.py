"""Results out: what networks give, back in the images' pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .batch_feature import SemanticSegmentationPostProcessorOutput
from .compositing import composite_bytes
from .crops import Boxes, Size, as_boxes, boxes_to_crop_params, crop_to_image
from .heatmaps import decode_heatmaps
from .image_inputs import ImageInput, as_backgrounds
from .maps import resize_argmax, resize_map, restore_maps

if TYPE_CHECKING:
    from .estimators import (
        Sapiens2AlbedoEstimatorOutput,
        Sapiens2ImageMattingOutput,
        Sapiens2NormalEstimatorOutput,
        Sapiens2PointmapEstimatorOutput,
        Sapiens2PoseEstimatorOutput,
        SemanticSegmenterOutput,
    )

Sizes = Sequence[Size] | Tensor | np.ndarray


class PostProcessing:
    """The half of the image processor that turns networks' outputs into results.

    Attributes:
        size: the network's native input, {"height", "width"}.
    """

    size: dict[str, int]

    @property
    def _height_width(self) -> Size:
        return self.size["height"], self.size["width"]

    def post_process_pose_estimation(
        self,
        outputs: Sapiens2PoseEstimatorOutput,
        boxes: Boxes,
        outputs_flipped: Sapiens2PoseEstimatorOutput | None = None,
        kernel_size: int = 11,
        threshold: float | None = None,
        source_sizes: Sizes | None = None,
        target_sizes: Sizes | None = None,
    ) -> list[list[dict[str, Tensor]]]:
        """Finds the people's keypoints in heatmaps (N, K, h, w), N the number of boxes of all images.

        Args:
            outputs: with ``heatmaps``.
            boxes: the same as for :meth:`preprocess`.
            outputs_flipped: of the mirrored crops, their heatmaps mirrored back; averaged with ``outputs``.
            kernel_size: of the blur before the refinement (:func:`~sapiens2_core.heatmaps.decode_heatmaps`); odd.
            threshold: drops keypoints whose score is this or less.
            source_sizes: per image its (height, width), for ``target_sizes``.
            target_sizes: per image the (height, width) to scale keypoints and boxes to.

        Returns:
            Per image, per box: ``keypoints`` (K, 2) x, y in pixels of the image (or of ``target_sizes``), ``scores``
            (K,) heatmap maxima, ``labels`` (K,) int64 indices of the keypoints, ``bbox`` (4,) x1, y1, x2, y2.

        Raises:
            ValueError: numbers of boxes, heatmaps and sizes that don't agree; a box without area.
        """
        heatmaps = outputs.heatmaps
        rows = as_boxes(boxes, None)
        counts = [len(image_rows) for image_rows in rows]
        if sum(counts) != len(heatmaps):
            raise ValueError(f"There are heatmaps of {len(heatmaps)} people, but {sum(counts)} boxes.")
        sources = _check_sizes(source_sizes, len(rows), "source_sizes", "images")
        targets = _check_sizes(target_sizes, len(rows), "target_sizes", "images")
        if targets is not None and sources is None:
            raise ValueError("target_sizes need source_sizes: keypoints are scaled from the one to the other.")
        if not sum(counts):
            return [[] for _ in counts]

        mirrored = None if outputs_flipped is None else outputs_flipped.heatmaps
        keypoints, scores = decode_heatmaps(heatmaps, mirrored, kernel_size)
        xywh = torch.cat(rows).to(heatmaps.device)
        centers, scales = boxes_to_crop_params(xywh, self._height_width)
        keypoints = crop_to_image(keypoints, centers, scales, tuple(heatmaps.shape[-2:]))
        corners = torch.cat([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], dim=-1)
        if targets is not None:
            zoom = torch.tensor(targets, dtype=torch.float32) / torch.tensor(sources, dtype=torch.float32)
            zoom = zoom.flip(-1).repeat_interleave(torch.tensor(counts), dim=0).to(heatmaps.device)  # x, y per person
            keypoints, corners = keypoints * zoom[:, None], corners * zoom.repeat(1, 2)

        labels = torch.arange(heatmaps.shape[1], device=heatmaps.device)
        people = []
        for person_keypoints, person_scores, bbox in zip(keypoints, scores, corners, strict=True):
            keep = slice(None) if threshold is None else person_scores > threshold
            people.append(
                {
                    "keypoints": person_keypoints[keep],
                    "scores": person_scores[keep],
                    "labels": labels[keep],
                    "bbox": bbox,
                }
            )
        in_order = iter(people)
        return [[next(in_order) for _ in range(count)] for count in counts]

    def post_process_semantic_segmentation(
        self,
        outputs: SemanticSegmenterOutput,
        target_sizes: Sizes | None = None,
        return_segmentation_scores: bool = False,
    ) -> list[Tensor] | list[SemanticSegmentationPostProcessorOutput]:
        """Resizes logits (B, classes, h, w) and takes the highest class of each pixel.

        Args:
            outputs: with ``logits``.
            target_sizes: per image the (height, width) of the result; None keeps the logits' size.
            return_segmentation_scores: give the resized logits too, which takes classes times 4 bytes a pixel; without
                them memory stays at about 20 bytes a pixel.

        Returns:
            Per image (H, W) int64 class ids, or a :class:`SemanticSegmentationPostProcessorOutput`.
        """
        sizes = _check_sizes(target_sizes, len(outputs.logits), "target_sizes", "maps")
        results = []
        for index, logits in enumerate(outputs.logits):
            size = tuple(logits.shape[-2:]) if sizes is None else sizes[index]
            if return_segmentation_scores:
                scores = resize_map(logits, size)
                results.append(
                    SemanticSegmentationPostProcessorOutput(
                        segmentation=scores.argmax(dim=0), segmentation_scores=scores
                    )
                )
            else:
                results.append(resize_argmax(logits, size))
        return results

    def post_process_normal_estimation(
        self,
        outputs: Sapiens2NormalEstimatorOutput,
        source_sizes: Sizes | None = None,
        target_sizes: Sizes | None = None,
        do_remove_padding: bool | None = None,
    ) -> list[dict[str, Tensor]]:
        """Normalises normals (B, 3, h, w) and brings them back to the images.

        In this order, as transformers does: between pixels that face different ways the result is shorter than 1.

        Args:
            outputs: with ``normals``, as large as the network's input.
            source_sizes: per image its (height, width) before :meth:`preprocess`.
            target_sizes: per image the (height, width) of the result; None takes ``source_sizes``, without which
                nothing is resized.
            do_remove_padding: whether images were letterboxed (``do_pad``); None means yes where there are
                ``source_sizes``.

        Returns:
            Per image {"normals": (3, H, W)}: x to the right, y up, z towards the camera, −1..1.
        """
        maps = self._restore(
            outputs.normals, source_sizes, target_sizes, do_remove_padding, lambda m, _: F.normalize(m, dim=0, eps=1e-8)
        )
        return [{"normals": result} for result in maps]

    def post_process_pointmap_estimation(
        self,
        outputs: Sapiens2PointmapEstimatorOutput,
        source_sizes: Sizes | None = None,
        target_sizes: Sizes | None = None,
        do_remove_padding: bool | None = None,
    ) -> list[dict[str, Tensor]]:
        """Divides pointmaps (B, 3, h, w) by their scales (B, 1) and brings them back to the images.

        Arguments as for :meth:`post_process_normal_estimation`; ``outputs`` has ``pointmaps`` and ``scales``, which may
        be None.

        Returns:
            Per image {"pointmap": (3, H, W)}: x right, y down, z forward in camera space, metres (in the canonical
            camera's units without scales).
        """
        scales = outputs.scales

        def to_metres(points: Tensor, index: int) -> Tensor:
            return points if scales is None else points / scales[index].float().view(1, 1, 1)

        maps = self._restore(outputs.pointmaps, source_sizes, target_sizes, do_remove_padding, to_metres)
        return [{"pointmap": result} for result in maps]

    def post_process_albedo_estimation(
        self,
        outputs: Sapiens2AlbedoEstimatorOutput,
        source_sizes: Sizes | None = None,
        target_sizes: Sizes | None = None,
        do_remove_padding: bool | None = None,
    ) -> list[dict[str, Tensor]]:
        """Brings albedos (B, 3, h, w) back to the images, then clamps them: the network's output is not.

        Arguments as for :meth:`post_process_normal_estimation`; ``outputs`` has ``albedos``.

        Returns:
            Per image {"albedo": (3, H, W)} RGB in 0..1.
        """
        maps = self._restore(outputs.albedos, source_sizes, target_sizes, do_remove_padding, lambda m, _: m)
        return [{"albedo": result.clamp(0.0, 1.0)} for result in maps]

    def post_process_image_matting(
        self,
        outputs: Sapiens2ImageMattingOutput,
        target_sizes: Sizes | None = None,
        backgrounds: ImageInput | None = None,
    ) -> list[dict[str, Tensor | None]]:
        """Resizes mattes (B, 1, h, w) and foregrounds (B, 3, h, w), and composites them.

        Args:
            outputs: with ``alphas`` and ``foregrounds``.
            target_sizes: per image the (height, width) of the result; None keeps the outputs' size.
            backgrounds: one image for all, or one each: PIL, arrays with channels last, tensors with channels first;
                integers up to their type's largest, or floats in 0..1. Resized to the result; (3, 1, 1) is a colour.

        Returns:
            Per image ``alpha`` (1, H, W) 0..1, 1 = person; ``foreground`` (3, H, W) 0..1, premultiplied; ``composite``
            (3, H, W) uint8 = foreground + (1 − alpha) · background, or None without ``backgrounds``.
        """
        count = len(outputs.foregrounds)
        sizes = _check_sizes(target_sizes, count, "target_sizes", "maps")
        behind = None if backgrounds is None else as_backgrounds(backgrounds, count, outputs.foregrounds.device)
        results = []
        for index, layers in enumerate(zip(outputs.foregrounds, outputs.alphas, strict=True)):
            if sizes is None:
                foreground, alpha = (layer.float() for layer in layers)
            else:
                foreground, alpha = (resize_map(layer, sizes[index]).clamp_(0.0, 1.0) for layer in layers)
            laid = None if behind is None else composite_bytes(foreground, alpha, behind[index % len(behind)])
            results.append({"foreground": foreground, "alpha": alpha, "composite": laid})
        return results

    @staticmethod
    def _restore(
        maps: Tensor,
        source_sizes: Sizes | None,
        target_sizes: Sizes | None,
        do_remove_padding: bool | None,
        decode: Callable[[Tensor, int], Tensor],
    ) -> list[Tensor]:
        sources = _check_sizes(source_sizes, len(maps), "source_sizes", "maps")
        targets = _check_sizes(target_sizes, len(maps), "target_sizes", "maps")
        if do_remove_padding is None:
            do_remove_padding = sources is not None
        if do_remove_padding and sources is None:
            raise ValueError("do_remove_padding needs source_sizes: they say where the padding is.")
        return list(restore_maps(maps, sources, targets, do_remove_padding, decode))


def _check_sizes(sizes: Sizes | None, count: int, name: str, things: str) -> list[Size] | None:
    if sizes is None:
        return None
    if len(sizes) != count:
        raise ValueError(f"There are {len(sizes)} {name} for {count} {things}; give one (height, width) for each.")
    pairs = [tuple(int(side) for side in size) for size in sizes]
    for index, pair in enumerate(pairs):
        if len(pair) != 2 or min(pair) < 1:
            raise ValueError(f"{name}[{index}] is {pair}; give a (height, width) in pixels, each at least 1.")
    return pairs
