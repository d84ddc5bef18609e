"""Pixels in, results out: the one door between images and networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .batch_feature import BatchFeature, SemanticSegmentationPostProcessorOutput
from .crops import (
    Boxes,
    Size,
    as_boxes,
    boxes_to_crop_params,
    crop_and_resize,
    crop_to_image,
    resize,
    resize_letterboxed,
)
from .heatmaps import decode_heatmaps
from .image_inputs import ImageInput, as_backgrounds, as_rgb_images
from .maps import composite, resize_argmax, resize_map, restore_maps

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

# ImageNet's, in 0..1; the authors' 123.675 116.28 103.53 and 58.395 57.12 57.375 are these × 255.
IMAGE_MEAN = (0.485, 0.456, 0.406)
IMAGE_STD = (0.229, 0.224, 0.225)


@dataclass(kw_only=True, eq=False)
class Sapiens2ImageProcessor:
    """Prepares images for Sapiens2 networks and turns their outputs into results in the images' pixels.

    Every option can be overridden in one call of :meth:`preprocess`; an unknown one is a TypeError that names it.

    Attributes:
        size: the network's native input, {"height", "width"}; an int (a square) and (height, width) are taken too.
        do_resize: whether to resize to ``size``; crops by boxes have that size in any case.
        do_pad: keep the aspect ratio and pad with zeros (before normalisation) on both sides: normals, pointmaps,
            albedo. Else images are stretched: body parts, mattes.
        do_rescale: whether to multiply pixels by ``rescale_factor``; False for images in 0..1.
        rescale_factor: 1/255 for pixels in 0..255.
        do_normalize: whether to subtract ``image_mean`` and divide by ``image_std``, both of rescaled pixels.
        image_mean: per channel R, G, B.
        image_std: per channel R, G, B.
        do_convert_rgb: lay transparent pixels on white, as transformers does with this option; else alpha is dropped.
            Grey becomes RGB in any case.
    """

    size: dict[str, int] | int | Sequence[int] = field(default_factory=lambda: {"height": 1024, "width": 768})
    do_resize: bool = True
    do_pad: bool = False
    do_rescale: bool = True
    rescale_factor: float = 1 / 255
    do_normalize: bool = True
    image_mean: float | Sequence[float] = IMAGE_MEAN
    image_std: float | Sequence[float] = IMAGE_STD
    do_convert_rgb: bool | None = None

    def __post_init__(self) -> None:
        self.size = _size_dict(self.size)

    @property
    def _height_width(self) -> Size:
        return self.size["height"], self.size["width"]

    # Pixels in.

    def preprocess(
        self,
        images: ImageInput,
        *,
        boxes: Boxes | None = None,
        return_tensors: str | None = None,
        input_data_format: str | None = None,
        device: torch.device | str | None = None,
        **overrides: Any,
    ) -> BatchFeature:
        """Makes images, or the people in their boxes, ready for a network.

        Args:
            images: a PIL image, array or tensor, a list of them or a batch of four dimensions (see
                :func:`~sapiens2_core.image_inputs.as_rgb_images`), in 0..255, or with ``do_rescale=False`` in 0..1.
                Whether pixels are finite is not checked.
            boxes: per image a list, empty too, of (x, y, width, height) in pixels. Each box becomes one crop: 1.25
                times as large, grown to the aspect ratio of ``size``, black where it reaches out of the image.
            return_tensors: "pt" for one tensor of all images or crops, None for a list of them.
            input_data_format: "channels_first", "channels_last" or "none"; None infers it per image.
            device: where to work; None stays where each image is.
            overrides: options of the class, for this call.

        Returns:
            {"pixel_values": (N, 3, height, width) float32, or N times (3, height, width)}. Without ``do_normalize``
            and ``do_rescale`` the images' own type, except for crops, which are always float32.

        Raises:
            ValueError: no image; an image or box that can't be used; images of several sizes that can't be stacked.
            TypeError: an unknown option.
        """
        if return_tensors not in (None, "pt"):
            raise ValueError(f'return_tensors is {return_tensors!r}; it must be "pt" or None.')
        options = dataclasses.replace(self, **overrides)
        pictures = as_rgb_images(
            images, input_data_format=input_data_format, do_convert_rgb=bool(options.do_convert_rgb)
        )
        if device is not None:
            pictures = [picture.to(device) for picture in pictures]
        if boxes is None:
            pixels = [options._normalize(options._fit(picture)) for picture in pictures]
        else:
            pixels = [
                crop
                for picture, rows in zip(pictures, as_boxes(boxes, len(pictures)), strict=True)
                for crop in options._normalize(crop_and_resize(picture, rows, options._height_width))
            ]
        if return_tensors is None:
            return BatchFeature(pixel_values=pixels)
        if not pixels:
            return BatchFeature(pixel_values=torch.empty(0, 3, *options._height_width, device=pictures[0].device))
        if len({tuple(picture.shape) for picture in pixels}) > 1:
            raise ValueError(
                "The images have different sizes, so they don't fit in one tensor; leave do_resize on, or don't ask "
                "for return_tensors."
            )
        return BatchFeature(pixel_values=torch.stack(pixels))

    __call__ = preprocess

    def _fit(self, image: Tensor) -> Tensor:
        if not self.do_resize:
            return image
        return (resize_letterboxed if self.do_pad else resize)(image, self._height_width)

    def _normalize(self, pixels: Tensor) -> Tensor:
        """Rescales and normalises (..., 3, H, W); transformers folds the factor into mean and std, and so it's here."""
        if not self.do_normalize:
            if not self.do_rescale:
                return pixels
            return (pixels if pixels.is_floating_point() else pixels.float()) * self.rescale_factor
        mean, std = (
            torch.tensor(value, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)
            * (1 / self.rescale_factor if self.do_rescale else 1)
            for value in (self.image_mean, self.image_std)
        )
        return (pixels.float() - mean).div_(std)

    # Results out.

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
            laid = None if behind is None else composite(foreground, alpha, behind[index % len(behind)])
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


def _size_dict(size: dict[str, int] | int | Sequence[int]) -> dict[str, int]:
    if isinstance(size, int):
        size = (size, size)
    if isinstance(size, dict):
        size = (size.get("height"), size.get("width"))
    sides = tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f'size is {sides}; give {{"height": …, "width": …}}, (height, width) or one number of pixels.')
    return {"height": sides[0], "width": sides[1]}


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
