"""Estimate Pose."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.geometry import match_mask
from ..sapiens2_core.openpose import to_openpose
from ..sapiens2_core.people import ORDERS, Box, boxes_from_mask, choose_people, whole_frame
from ..sapiens2_core.results import Pose
from . import host
from .boxes import Detection, boxes_per_frame
from .host_detector import detect_people
from .inputs import check_image
from .sockets import (
    LoadedEstimator,
    batch_size_input,
    boxes_input,
    confidence_input,
    estimator_input,
    image_input,
    mask_input,
    pose_outputs,
    score_threshold_input,
)

#: What a frame is in which no people were found.
WHEN_NONE = ["no people", "whole frame"]

#: What ComfyUI's RT-DETR node takes as well.
DETECTION_THRESHOLD = 0.5


class Sapiens2EstimatePose(io.ComfyNode):
    """308 keypoints of each person."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2EstimatePose",
            display_name="Estimate Pose (Sapiens2)",
            category="Sapiens2/Pose",
            description="Finds 308 keypoints of body, hands, feet and face of each person, and gives them as "
            "OpenPose keypoints too.",
            search_aliases=["openpose", "dwpose", "pose", "keypoints", "skeleton", "hands", "face landmarks"],
            inputs=[
                estimator_input("pose"),
                image_input(),
                io.Boolean.Input(
                    "flip_test",
                    default=False,
                    tooltip="Looks at each person mirrored as well and takes the mean: a little more exact, "
                    "twice the time.",
                ),
                score_threshold_input(),
                confidence_input(),
                batch_size_input("people"),
                boxes_input(
                    "Where the people are: each box is cropped and looked at on its own, in full resolution. "
                    "Without boxes, mask and detector the whole frame is taken as one person."
                ),
                mask_input("Instead of boxes: each connected area is a person."),
                io.Model.Input(
                    "detector",
                    optional=True,
                    tooltip="Instead of boxes: an RT-DETR from Load Diffusion Model, which finds the people itself "
                    "(those it is at least 50 % sure of).",
                ),
                io.Float.Input(
                    "nms_iou",
                    optional=True,
                    default=0.7,
                    min=0.0,
                    max=1.0,
                    step=0.01,
                    tooltip="Of two boxes that overlap by more than this (intersection over union), the one with the "
                    "lower score goes. Lower takes out more duplicates, and one of two people who embrace; 1 keeps "
                    "all.",
                ),
                io.Int.Input(
                    "max_people",
                    optional=True,
                    default=0,
                    min=0,
                    max=1000,
                    tooltip="How many people of a frame are looked at: the largest, or with order as given the first. "
                    "0: all.",
                ),
                io.Combo.Input(
                    "order",
                    optional=True,
                    options=list(ORDERS),
                    default=ORDERS[0],
                    tooltip="In which order people stand in the results: by the middle of their boxes, by area with "
                    "the largest first, or as the boxes came.",
                ),
                io.Combo.Input(
                    "when_none",
                    optional=True,
                    options=WHEN_NONE,
                    default=WHEN_NONE[0],
                    tooltip="For frames in which boxes, mask or detector have nobody. no people: they stay empty. "
                    "whole frame: it is taken as one person.",
                ),
            ],
            outputs=pose_outputs(),
        )

    @classmethod
    def execute(
        cls,
        estimator: LoadedEstimator,
        image: Tensor,
        flip_test: bool,
        score_threshold: float,
        confidence: str,
        batch_size: int,
        boxes: Any = None,
        mask: Tensor | None = None,
        detector: Any = None,
        nms_iou: float = 0.7,
        max_people: int = 0,
        order: str = ORDERS[0],
        when_none: str = WHEN_NONE[0],
    ) -> io.NodeOutput:
        """Finds the people, then estimates frame by frame."""
        estimator.estimator.require("pose")
        check_image(image)
        found = find_people(image, boxes, mask, detector)
        people: list[list[Box]] | None = None
        if found is not None:
            instead = [whole_frame(*image.shape[1:3])] if when_none == "whole frame" else []
            people = [
                choose_people(
                    [box for box, _ in frame],
                    [score for _, score in frame],
                    max_iou=nms_iou,
                    max_people=max_people,
                    order=order,
                )
                or instead
                for frame in found
            ]
        frames = host.predict(estimator, "pose", image, boxes=people, batch_size=batch_size, flip_test=flip_test)
        pose = Pose(tuple(frames))
        return io.NodeOutput(pose, to_openpose(pose, score_threshold, real_confidence=confidence == "real"))


def find_people(image: Tensor, boxes: Any, mask: Tensor | None, detector: Any) -> list[list[Detection]] | None:
    """Per frame everybody's box and score, from the one of the three that is connected; None when none is.

    Raises:
        ValueError: several are connected, or the one that is can't be used.
    """
    ways = {"boxes": boxes, "mask": mask, "detector": detector}
    connected = [name for name, value in ways.items() if value is not None]
    if len(connected) > 1:
        raise ValueError(
            f"{' and '.join(connected)} are connected, but only one of them can say where the people are. "
            "Disconnect the others."
        )
    num_frames, height, width = image.shape[:3]
    if boxes is not None:
        return boxes_per_frame(boxes, num_frames, height, width)
    if mask is not None:
        return [[(box, 1.0) for box in frame] for frame in people_in_mask(match_mask(mask, num_frames, height, width))]
    if detector is not None:
        return detect_people(detector, image, DETECTION_THRESHOLD)
    return None


def people_in_mask(masks: Tensor, **options: Any) -> list[list[Box]]:
    """Per frame of (B, H, W) masks a box for each connected area (:func:`boxes_from_mask` has the options)."""
    if masks.stride(0) == 0:  # one mask for all frames
        return [boxes_from_mask(masks[0], **options)] * len(masks)
    return [boxes_from_mask(mask, **options) for mask in masks]
