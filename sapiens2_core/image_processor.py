"""Pixels in, results out: the one door between images and networks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .batch_feature import BatchFeature
from .crops import Boxes, as_boxes, center_crop, crop_and_resize, resize, resize_letterboxed
from .files import replacing
from .heatmap_targets import Keypoints, as_keypoints, keypoints_to_heatmaps
from .hub import PREPROCESSOR_NAME, HubOptions, find_json
from .image_inputs import ImageInput, as_rgb_images
from .label_maps import as_label_maps, reduce_labels
from .post_processing import PostProcessing

# ImageNet's, in 0..1; the authors' 123.675 116.28 103.53 and 58.395 57.12 57.375 are these × 255.
IMAGE_MEAN = (0.485, 0.456, 0.406)
IMAGE_STD = (0.229, 0.224, 0.225)

#: PIL.Image.Resampling's numbers to PyTorch's modes.
RESAMPLING_MODES = {0: "nearest-exact", 2: "bilinear", 3: "bicubic"}


@dataclass(kw_only=True, eq=False)
class Sapiens2ImageProcessor(PostProcessing):
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
        resample: PIL's number of the filter that resizes: 0 nearest, 2 bilinear, 3 bicubic. Crops by boxes are
            sampled as the authors do instead.
        do_center_crop: whether to cut the middle out of what was resized or cropped, zeros where it is smaller.
        crop_size: of that middle, like ``size``.
        do_reduce_labels: whether ids of segmentation maps are lessened by one: 0, the background, becomes 255,
            which the loss ignores, and so does padding.
        keypoint_heatmap_downscale_factor: how many pixels of the input make one of the target heatmaps.
        keypoint_heatmap_sigma: of the Gaussians in them, in pixels of the heatmap.
        default_to_square: what a ``size`` of one number means; only True, a square, is supported.
        data_format: only "channels_first".
        pad_size, disable_grouping, image_seq_length: without effect, as in transformers' class for Sapiens2.
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
    resample: int = 2
    do_center_crop: bool = False
    crop_size: dict[str, int] | int | Sequence[int] = field(default_factory=lambda: {"height": 224, "width": 224})
    do_reduce_labels: bool = False
    keypoint_heatmap_downscale_factor: int = 4
    keypoint_heatmap_sigma: float = 6.0
    default_to_square: bool = True
    data_format: str = "channels_first"
    pad_size: dict[str, int] | int | Sequence[int] | None = None
    disable_grouping: bool | None = None
    image_seq_length: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.size, int) and not self.default_to_square:
            raise ValueError(
                f"size is {self.size} with default_to_square=False, which would give every image a shape of its own; "
                'networks need one: give {"height": …, "width": …}.'
            )
        self.size = _size_dict(self.size, "size")
        self.crop_size = _size_dict(self.crop_size, "crop_size")
        if self.resample not in RESAMPLING_MODES:
            raise ValueError(f"resample is {self.resample!r}; it must be 0 (nearest), 2 (bilinear) or 3 (bicubic).")
        if self.data_format != "channels_first":
            raise ValueError(f'data_format is {self.data_format!r}; results are always "channels_first".')

    @classmethod
    def from_pretrained(cls, path_or_repo: str | Path, **options: Any) -> Sapiens2ImageProcessor:
        """Reads ``preprocessor_config.json``: of a folder, of a repository on the hub, or the file itself.

        Args:
            path_or_repo: the folder, the repository's "owner/name", or the file.
            options: options of this class to change, and :class:`~sapiens2_core.hub.HubOptions`.

        Raises:
            ValueError: there is none, or it is of another model's processor.
            TypeError: an unknown option.
        """
        hub, changes = cls.split_options(options)
        path = Path(path_or_repo)
        file = path if path.is_file() else find_json(path_or_repo, PREPROCESSOR_NAME, **hub)
        if file is None:
            raise ValueError(
                f"There is no {PREPROCESSOR_NAME} in {path_or_repo}; AutoImageProcessor.from_pretrained makes a "
                "processor for any checkpoint."
            )
        stored = json.loads(file.read_text(encoding="utf-8"))
        kind = stored.get("image_processor_type") or cls.__name__
        if not kind.startswith(cls.__name__):  # transformers has names with endings for other ways of resizing
            raise ValueError(f"{file} is of a {kind}, not of a {cls.__name__}.")
        known = {field.name: stored[field.name] for field in dataclasses.fields(cls) if field.name in stored}
        return cls(**(known | changes))

    @staticmethod
    def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of :meth:`from_pretrained` as those of the hub, and the processor's own."""
        hub = {name: value for name, value in options.items() if name in HubOptions.__annotations__}
        return hub, {name: value for name, value in options.items() if name not in hub}

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes ``preprocessor_config.json``, which transformers reads too."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        options = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        text = json.dumps({"image_processor_type": type(self).__name__} | options, indent=2)
        with replacing(folder / PREPROCESSOR_NAME) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    def preprocess(
        self,
        images: ImageInput,
        segmentation_maps: ImageInput | None = None,
        boxes: Boxes | None = None,
        keypoints: Keypoints | None = None,
        *,
        return_tensors: str | None = None,
        input_data_format: str | None = None,
        device: torch.device | str | None = None,
        **overrides: Any,
    ) -> BatchFeature:
        """Makes images, or the people in their boxes, ready for a network, and labels to train it on.

        Args:
            images: a PIL image, array or tensor, a list of them or a batch of four dimensions (see
                :func:`~sapiens2_core.image_inputs.as_rgb_images`), in 0..255, or with ``do_rescale=False`` in 0..1.
                Whether pixels are finite is not checked.
            segmentation_maps: per image its class ids (see :func:`~sapiens2_core.label_maps.as_label_maps`). They
                become ``labels``, resized or cropped as the images are, but by nearest neighbour: transformers resizes
                them as pictures and so makes up classes between two others.
            boxes: per image a list, empty too, of (x, y, width, height) in pixels. Each box becomes one crop: 1.25
                times as large, grown to the aspect ratio of ``size``, black where it reaches out of the image.
            keypoints: per image and box the person's keypoints (x, y) or (x, y, visibility) in pixels. They become
                ``labels``, heatmaps, and ``label_weights``
                (see :func:`~sapiens2_core.heatmap_targets.keypoints_to_heatmaps`).
            return_tensors: "pt" for one tensor of all images or crops, None for a list of them.
            input_data_format: "channels_first", "channels_last" or "none"; None infers it per image.
            device: where to work; None stays where each image is.
            overrides: options of the class, for this call.

        Returns:
            {"pixel_values": (N, 3, height, width) float32, or N times (3, height, width)}. Without ``do_normalize``
            and ``do_rescale`` the images' own type, except for crops, which are always float32. Likewise ``labels``
            (N, height, width) int64 class ids, or (N, K, h, w) float32 heatmaps and ``label_weights`` (N, K) 0 or 1.

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
        rows = None if boxes is None else as_boxes(boxes, len(pictures))
        features = {"pixel_values": [options._normalize(part) for part in options._place(pictures, rows)]}
        if keypoints is not None:
            if segmentation_maps is not None or rows is None or options.do_center_crop:
                raise ValueError(
                    "keypoints need boxes, and go neither with segmentation_maps nor with do_center_crop, which would "
                    "cut the crops but not their heatmaps."
                )
            labels, weights = options._heatmap_targets(as_keypoints(keypoints, rows), torch.cat(rows))
            target = pictures[0].device
            features["labels"] = [label.to(target) for label in labels]
            features["label_weights"] = [weight.to(target) for weight in weights]
        elif segmentation_maps is not None:
            maps = as_label_maps(segmentation_maps, pictures, as_large=rows is not None)
            labels = [part[0].to(torch.int64) for part in options._place(maps, rows, "nearest-exact")]
            features["labels"] = [reduce_labels(label) for label in labels] if options.do_reduce_labels else labels
        if return_tensors is None:
            return BatchFeature(features)
        if not features["pixel_values"] and len(features) == 1:
            return BatchFeature(pixel_values=torch.empty(0, 3, *options._height_width, device=pictures[0].device))
        return BatchFeature({name: _stack(parts, name) for name, parts in features.items()})

    __call__ = preprocess

    def _place(self, pictures: list[Tensor], boxes: list[Tensor] | None, mode: str | None = None) -> Iterator[Tensor]:
        """Images, or the people in their boxes, (C, h, w) as the network takes them; ``mode`` overrides resampling."""
        fit = resize_letterboxed if self.do_pad else resize
        resizing = mode or RESAMPLING_MODES[self.resample]
        sampling = None if mode is None else "nearest"  # grid_sample's name for the same
        for index, picture in enumerate(pictures):
            if boxes is not None:
                parts = crop_and_resize(picture, boxes[index], self._height_width, sampling)
            elif self.do_resize:
                parts = [fit(picture, self._height_width, resizing)]
            else:
                parts = [picture]
            for part in parts:
                yield center_crop(part, tuple(self.crop_size.values())) if self.do_center_crop else part

    def _heatmap_targets(self, people: list[Tensor], boxes: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Heatmaps and weights of each person, who may have another number of keypoints than the next."""
        factor, sigma = self.keypoint_heatmap_downscale_factor, self.keypoint_heatmap_sigma
        targets = [
            keypoints_to_heatmaps(person[None], box[None], self._height_width, factor, sigma)
            for person, box in zip(people, boxes, strict=True)
        ]
        return [maps[0] for maps, _ in targets], [weights[0] for _, weights in targets]

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


def _stack(parts: list[Tensor], name: str) -> Tensor:
    if not parts:
        raise ValueError(f"There is no box in any image, so there are no {name}.")
    if len({tuple(part.shape) for part in parts}) > 1:
        raise ValueError(
            f"The {name} have different sizes, so they don't fit in one tensor; leave do_resize on, or don't ask for "
            "return_tensors."
        )
    return torch.stack(parts)


def _size_dict(size: dict[str, int] | int | Sequence[int], name: str) -> dict[str, int]:
    if isinstance(size, int):
        size = (size, size)
    if isinstance(size, dict):
        size = (size.get("height"), size.get("width"))
    sides = tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(
            f'{name} is {sides}; give {{"height": …, "width": …}}, (height, width) or one number of pixels.'
        )
    return {"height": sides[0], "width": sides[1]}
