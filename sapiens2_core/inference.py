"""From frames to results: a checkpoint, its processor, a device and a precision, streaming batch by batch."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .auto import AutoImageProcessor, processor_for
from .checkpoint import load
from .checks import check_boxes, check_frame
from .crops import letterbox
from .estimators import task_of
from .fitting import FittingBatches
from .image_processor import Sapiens2ImageProcessor
from .people import Box, whole_frame
from .point_resize import resize_points
from .precision import FP8_WEIGHTS, choose_dtype, default_device
from .pretrained import Sapiens2PreTrainedModel
from .results import FrameFeatures, FrameMatte, FrameParts, FramePointmap, FramePose, PersonPose
from .soft_labels import likely_parts
from .tasks import TASKS

Size = tuple[int, int]
FrameResult = FramePose | FramePointmap | FrameMatte | FrameFeatures | FrameParts | Tensor


def _nothing(*_: Any) -> None:
    """For callbacks that nobody gave."""


class Estimator:
    """Runs one checkpoint over frames.

    Attributes:
        model: the network; whoever made the Estimator puts it on ``device``.
        processor: takes frames of 0..1; made for the network's native input and its task's way in, unless given.
        device: where frames are sent.
        dtype: type computed in; results are decoded in float32.
        task: the row of :data:`~sapiens2_core.tasks.TASKS`.
    """

    def __init__(
        self,
        model: Sapiens2PreTrainedModel,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        processor: Sapiens2ImageProcessor | None = None,
    ) -> None:
        self.model = model.eval()
        self.device = torch.device(device) if device is not None else model.device
        self.dtype = dtype or model.dtype
        self.task = TASKS[task_of(model)]
        made = processor or processor_for(model.config, self.task)
        self.processor = dataclasses.replace(made, do_rescale=False)  # frames are 0..1 here

    @classmethod
    def from_checkpoint(
        cls, path: str | Path, precision: str = "auto", device: torch.device | str | None = None
    ) -> Estimator:
        """Loads a checkpoint.

        Args:
            path: a .safetensors file or a folder.
            precision: "auto", "bf16", "fp16", "fp32" or "fp8 weights" (see
                :func:`~sapiens2_core.precision.choose_dtype`).
            device: where to run; None takes the best there is.

        Raises:
            CheckpointError: the file can't be used; the message says why.
        """
        device = torch.device(device) if device is not None else default_device()
        dtype = choose_dtype(device, precision)
        model = load(path, dtype=dtype, device=device, fp8_weights=precision == FP8_WEIGHTS)
        return cls(model, device, dtype, processor=AutoImageProcessor.from_pretrained(path))

    def require(self, task: str) -> None:
        """Raises ValueError unless this is a checkpoint for ``task``."""
        if self.task.name != task:
            wanted = TASKS[task]
            raise ValueError(
                f"This checkpoint {self.task.does}; connect one that {wanted.does} "
                f"(its name has “{wanted.name}” in it)."
            )
        found = self.model.config.num_labels
        if task == "pose" and found != self.task.num_labels:
            raise ValueError(
                f"This checkpoint has {found} keypoints; Sapiens2's {self.task.num_labels} are needed here. Load one "
                "that was trained for them."
            )

    def backbone(self) -> Estimator:
        """An Estimator of this checkpoint's bare network, whatever its task; the weights are shared."""
        bare = self.model if self.task.predictor is None else self.model.model
        return Estimator(bare, self.device, self.dtype)

    def predict(
        self,
        frames: Iterable[Tensor],
        boxes: Iterable[Sequence[Box]] | None = None,
        *,
        batch_size: int = 1,
        flip_test: bool = False,
        masks: Iterable[Tensor] | None = None,
        soft: bool = False,
        on_progress: Callable[[int], None] = _nothing,
        check_cancelled: Callable[[], None] = _nothing,
    ) -> Iterator[list[FrameResult]]:
        """Takes frames one by one, works on them in batches, and yields each batch's results in frame order.

        A batch is brought home and released before the next begins, so memory does not grow with the clip.

        Args:
            frames: (C, H, W) tensors, C 1, 3 or 4 (alpha is dropped), float 0..1 or uint8; sizes may differ.
            boxes: for pose only: per frame the people as (x, y, width, height) in pixels; an empty list is nobody.
                None looks for one person in the whole frame, as the authors do.
            batch_size: how many frames (pose: crops of people, over all frames) go through at once; halved, with a
                warning, where the device's memory is too small.
            flip_test: for pose: average with the mirrored image's heatmaps; twice the time.
            masks: for pointmaps: per frame (H, W) bool, True on the person, so that no point of the result is an
                average of person and background (:func:`~sapiens2_core.point_resize.resize_points`).
            soft: for seg only: keep the parts' probabilities (:mod:`~sapiens2_core.soft_labels`).
            on_progress: called after each batch with the number of frames done.
            check_cancelled: called before each batch; raise from it to stop.

        Yields:
            Per frame, on the CPU, by task: pose FramePose; seg (H, W) uint8 labels, or FrameParts when soft; normal
            (3, H, W) unit normals; pointmap FramePointmap; matting FrameMatte; albedo (3, H, W) 0..1; pretrain
            FrameFeatures.

        Raises:
            ValueError: a frame or box that can't be used; the message names it.
            RuntimeError: the network's result isn't finite.
            torch.OutOfMemoryError: the device's memory is too small for one frame.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1.")
        if masks is not None and self.task.name != "pointmap":
            raise ValueError(f"Masks are for pointmaps; this checkpoint {self.task.does}.")
        if soft and self.task.name != "seg":
            raise ValueError(f"Probabilities of parts (soft) are for seg; this checkpoint {self.task.does}.")
        if self.task.name == "pose":
            batches = self._pose_batches(frames, boxes, batch_size, flip_test, check_cancelled)
        elif boxes is not None:
            raise ValueError(f"Boxes are for pose; this checkpoint {self.task.does} over whole frames.")
        else:
            batches = self._dense_batches(frames, masks, soft, batch_size, check_cancelled)
        done = 0
        for results in batches:
            done += len(results)
            on_progress(done)
            yield results
            del results  # or it would live on while the next batch is made

    def _dense_batches(
        self,
        frames: Iterable[Tensor],
        masks: Iterable[Tensor] | None,
        soft: bool,
        batch_size: int,
        check_cancelled: Callable[[], None],
    ) -> Iterator[list[FrameResult]]:
        frames = iter(frames)
        masks = None if masks is None else iter(masks)
        fitting = FittingBatches(batch_size, "frames")
        done = 0
        # As many as fitted before: what is read is sent to the device.
        while batch := list(itertools.islice(frames, fitting.size)):
            check_cancelled()
            more: dict[str, Any] = {"soft": True} if soft else {}
            batch_masks = None if masks is None else list(itertools.islice(masks, len(batch)))
            if batch_masks is not None and len(batch_masks) < len(batch):
                raise ValueError(f"There are masks for {done + len(batch_masks)} frames only, but more frames.")
            first, done = done, done + len(batch)
            yield self._dense_batch(batch, first, fitting, batch_masks, **more)

    @torch.no_grad()
    def _dense_batch(
        self, batch: list[Tensor], first: int, fitting: FittingBatches, masks: list[Tensor] | None, **more: Any
    ) -> list[FrameResult]:
        """Results of frames; those of ``batch`` are let go of as soon as the network has its input of them.

        They can be larger than everything else here.
        """
        for index, frame in enumerate(batch):
            check_frame(frame, first + index)
        sizes = [tuple(frame.shape[-2:]) for frame in batch]
        numbers = range(first, first + len(batch))
        decode = getattr(self, f"_decode_{self.task.name}")

        def prepare(part: slice) -> list[Tensor]:
            moved = [self._on_device(*frame) for frame in zip(batch[part], numbers[part], strict=True)]
            return list(self._pixel_values(moved))

        def work(part: slice) -> list[FrameResult]:
            own = more if masks is None else more | {"masks": masks[part]}
            return decode(self._forward(torch.stack(inputs[part])), sizes[part], **own)

        inputs = fitting.run(prepare, len(sizes))
        batch.clear()
        return fitting.run(work, len(sizes))

    def _pixel_values(self, frames: list[Tensor], **more: Any) -> Tensor:
        """Frames, or crops of them, as the network's input."""
        processed = self.processor.preprocess(frames, return_tensors="pt", input_data_format="channels_first", **more)
        return processed["pixel_values"]

    def _on_device(self, frame: Tensor, number: int) -> Tensor:
        """A frame that :func:`check_frame` let through as (3, H, W) float 0..1 on the device, its pixels checked."""
        # The type first: float64 can't be moved to every device.
        frame = (frame[:3].float() if frame.is_floating_point() else frame[:3].float() / 255).to(self.device)
        if not torch.isfinite(frame).all():
            raise ValueError(
                f"Frame {number} holds pixels that are not numbers (NaN or infinity). "
                "Check the node or program that made it."
            )
        return frame.expand(3, -1, -1)

    def _forward(self, pixel_values: Tensor, **more: Any) -> Any:
        """The network's outputs in float32; checks that they are finite."""
        outputs = self.model(pixel_values.to(self.dtype), **more)
        tensors = {f.name: getattr(outputs, f.name) for f in dataclasses.fields(outputs)}
        tensors = {name: value.float() for name, value in tensors.items() if isinstance(value, Tensor)}
        if not all(torch.isfinite(value).all() for value in tensors.values()):
            advice = (
                "The checkpoint may be damaged: download it again."
                if self.dtype == torch.float32
                else "Load the checkpoint with precision fp32."
            )
            raise RuntimeError(f"The network's result is not finite (NaN or infinity). {advice}")
        return dataclasses.replace(outputs, **tensors)

    # One decoder per task, named after it: the network's outputs and the frames' (height, width) to results.

    def _decode_seg(self, outputs: Any, sizes: list[Size], soft: bool = False) -> list[Tensor] | list[FrameParts]:
        maps = self.processor.post_process_semantic_segmentation(outputs, target_sizes=sizes)
        maps = [labels.to(torch.uint8).cpu() for labels in maps]
        if not soft:
            return maps
        frames = zip(maps, outputs.logits, sizes, strict=True)
        return [FrameParts(labels, likely_parts(logits, size)) for labels, logits, size in frames]

    def _decode_normal(self, outputs: Any, sizes: list[Size]) -> list[Tensor]:
        maps = self.processor.post_process_normal_estimation(outputs, source_sizes=sizes)
        # The processor resizes unit vectors, which shortens them between pixels that face different ways.
        return [F.normalize(found["normals"], dim=0).cpu() for found in maps]

    def _decode_albedo(self, outputs: Any, sizes: list[Size]) -> list[Tensor]:
        maps = self.processor.post_process_albedo_estimation(outputs, source_sizes=sizes)
        return [found["albedo"].cpu() for found in maps]

    def _decode_matting(self, outputs: Any, sizes: list[Size]) -> list[FrameMatte]:
        mattes = self.processor.post_process_image_matting(outputs, target_sizes=sizes)
        return [FrameMatte(alpha=found["alpha"].cpu(), foreground=found["foreground"].cpu()) for found in mattes]

    def _decode_pointmap(
        self, outputs: Any, sizes: list[Size], masks: Sequence[Tensor] | None = None
    ) -> list[FramePointmap]:
        boxes = [letterbox(size, self.model.config.image_height_width) for size in sizes]
        inner_sizes = [(box.height, box.width) for box in boxes]
        maps = self.processor.post_process_pointmap_estimation(outputs, source_sizes=sizes, target_sizes=inner_sizes)
        scales = [1.0] * len(sizes) if outputs.scales is None else outputs.scales[:, 0].tolist()
        results = []
        for index, (found, scale, size) in enumerate(zip(maps, scales, sizes, strict=True)):
            mask = None if masks is None else masks[index].to(found["pointmap"].device)
            points = resize_points(found["pointmap"], size, mask).cpu()
            results.append(FramePointmap(points, scale, self._focal_length(scale, size)))
        return results

    def _focal_length(self, scale: float, size: Size) -> float:
        """In pixels of a frame of (height, width) ``size``.

        The network's canonical focal length is the width of its native input (authors: 768 px of 768), and its scale
        is the canonical over the actual focal length in the letterboxed input.
        """
        height, width = self.model.config.image_height_width
        resize_ratio = min(height / size[0], width / size[1])
        return width / scale / resize_ratio

    def _decode_pretrain(self, outputs: Any, sizes: list[Size]) -> list[FrameFeatures]:
        height, _ = self.model.config.image_height_width
        maps = self.model.feature_map(outputs.last_hidden_state, height)
        return [FrameFeatures(cls.cpu(), found.cpu()) for cls, found in zip(outputs.pooler_output, maps, strict=True)]

    # Pose: crops of people instead of frames.

    def _pose_batches(
        self,
        frames: Iterable[Tensor],
        boxes: Iterable[Sequence[Box]] | None,
        batch_size: int,
        flip_test: bool,
        check_cancelled: Callable[[], None],
    ) -> Iterator[list[FramePose]]:
        """People of consecutive frames share batches; a frame is yielded once all its people are done."""
        if flip_test and not self.model.config.flip_pairs:
            raise ValueError("This checkpoint doesn't say which keypoints mirror each other; turn the flip test off.")
        fitting = FittingBatches(batch_size, "crops")
        waiting: deque[_WaitingFrame] = deque()
        people: list[tuple[_WaitingFrame, Box]] = []
        for number, (frame, frame_boxes) in enumerate(_with_boxes(frames, boxes)):
            check_frame(frame, number)
            waiting.append(_WaitingFrame(frame, number, _boxes_of(frame, frame_boxes, number)))
            people += ((waiting[-1], box) for box in waiting[-1].boxes)
            # Also where few people are in many frames: those that wait must not grow with the clip.
            while people and max(len(people), len(waiting)) >= batch_size:
                check_cancelled()
                self._pose_batch(people[:batch_size], flip_test, fitting)
                del people[:batch_size]
            if finished := _take_finished(waiting):
                yield finished
        if people:
            check_cancelled()
            self._pose_batch(people, flip_test, fitting)
        if finished := _take_finished(waiting):
            yield finished

    @torch.no_grad()
    def _pose_batch(self, people: list[tuple[_WaitingFrame, Box]], flip_test: bool, fitting: FittingBatches) -> None:
        boxes = [box for _, box in people]

        def work(part: slice) -> list[dict[str, Tensor]]:
            # Sent and cropped here and not when a frame arrives: frames that wait, and the crops of a crowd, would
            # outweigh everything else on the device.
            pixel_values = torch.cat(list(self._crops(people[part])))
            outputs, flipped = self._forward(pixel_values), None
            if flip_test:
                pairs = torch.tensor(self.model.config.flip_pairs, device=self.device)
                flipped = self._forward(pixel_values.flip(-1), flip_pairs=pairs)
            return self.processor.post_process_pose_estimation(outputs, [boxes[part]], outputs_flipped=flipped)[0]

        results = fitting.run(work, len(people))
        for (frame, box), found in zip(people, results, strict=True):
            frame.people.append(PersonPose(found["keypoints"].cpu(), found["scores"].cpu(), box))

    def _crops(self, people: list[tuple[_WaitingFrame, Box]]) -> Iterator[Tensor]:
        """Crops (n, 3, H, W) of each frame's people, who come frame by frame."""
        for _, group in itertools.groupby(people, key=lambda person: person[0].number):
            frames, boxes = zip(*group, strict=True)
            pixels = self._on_device(frames[0].pixels, frames[0].number)
            yield from (self._pixel_values([pixels], boxes=[[box]]) for box in boxes)


@dataclasses.dataclass
class _WaitingFrame:
    """A frame as it came, whose people are not all done."""

    pixels: Tensor
    number: int
    boxes: list[Box]
    people: list[PersonPose] = dataclasses.field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        return len(self.people) == len(self.boxes)


def _take_finished(waiting: deque[_WaitingFrame]) -> list[FramePose]:
    """Removes the finished frames at the front: frames are given in order."""
    finished = []
    while waiting and waiting[0].is_finished:
        frame = waiting.popleft()
        finished.append(FramePose(tuple(frame.people), *frame.pixels.shape[-2:]))
    return finished


def _with_boxes(
    frames: Iterable[Tensor], boxes: Iterable[Sequence[Box]] | None
) -> Iterator[tuple[Tensor, Sequence[Box] | None]]:
    if boxes is None:
        yield from ((frame, None) for frame in frames)
        return
    missing = object()
    for number, (frame, frame_boxes) in enumerate(itertools.zip_longest(frames, boxes, fillvalue=missing)):
        if frame is missing or frame_boxes is missing:
            less, more = ("frames", "boxes") if frame is missing else ("boxes", "frames")
            raise ValueError(f"There are {less} for {number} frames only, but more {more}.")
        yield frame, frame_boxes


def _boxes_of(frame: Tensor, boxes: Sequence[Box] | None, number: int) -> list[Box]:
    """The frame's boxes, checked; the whole frame as one person where none were given."""
    height, width = frame.shape[-2:]
    if boxes is None:
        return [whole_frame(height, width)]
    check_boxes(boxes, height, width, f"frame {number}")
    return [tuple(float(value) for value in box) for box in boxes]
