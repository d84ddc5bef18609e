"""The pack's own sockets, and the inputs that several nodes have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from comfy_api.latest import io

from ..sapiens2_core.inference import Estimator
from ..sapiens2_core.keypoints import VISIBLE_SCORE


@dataclass(frozen=True, eq=False)
class LoadedEstimator:
    """A loaded checkpoint (socket SAPIENS2_ESTIMATOR).

    Attributes:
        estimator: network, processor, task and the precision it computes in; moves no weights.
        patcher: ComfyUI's owner of the weights, which moves them to the device and back.
    """

    estimator: Estimator
    patcher: Any


EstimatorSocket = io.Custom("SAPIENS2_ESTIMATOR")
#: Carries sapiens2_core.results.Pose.
PoseSocket = io.Custom("SAPIENS2_POSE")
#: Carries sapiens2_core.results.Segmentation.
SegmentationSocket = io.Custom("SAPIENS2_SEGMENTATION")
#: Carries sapiens2_core.results.Pointmap.
PointmapSocket = io.Custom("SAPIENS2_POINTMAP")
#: Carries the dict of ComfyUI's own MoGe nodes, see moge.py.
MogeGeometrySocket = io.Custom("MOGE_GEOMETRY")
#: OpenPose people per frame, as ComfyUI's core and its ControlNet packs pass them on.
PoseKeypointSocket = io.Custom("POSE_KEYPOINT")


def estimator_input(task: str) -> io.Input:
    """The checkpoint, for a node that takes those of one task ("pose")."""
    article = "An" if task[0] in "aeiou" else "A"
    return EstimatorSocket.Input(
        "estimator",
        tooltip=f"{article} {task} checkpoint from Load Sapiens2. A larger one sees finer detail and takes longer; "
        "a checkpoint of another task is refused.",
    )


def pointmap_input() -> io.Input:
    """A pointmap, for a node that makes something of it."""
    return PointmapSocket.Input(
        "pointmap", tooltip="From Estimate Pointmap. Its mask, if it has one, is the foreground."
    )


def frame_input(effect: str = "", all_frames: bool = False) -> io.Input:
    """Which frame of a clip."""
    return io.Int.Input(
        "frame",
        default=0,
        min=-1 if all_frames else 0,
        max=100_000,
        tooltip=f"Which frame of the clip, from 0. {effect}".strip(),
    )


def image_input() -> io.Input:
    """The frames."""
    return io.Image.Input(
        "image",
        tooltip="One picture, or a batch that is taken as the frames of a clip, of any size. "
        "More frames take longer, not more GPU memory. An alpha channel is ignored.",
    )


def batch_size_input(of: str = "frames") -> io.Input:
    """How many frames or crops go through the network at once."""
    return io.Int.Input(
        "batch_size",
        default=1,
        min=1,
        max=64,
        tooltip=f"How many {of} go through the network at once. More is faster on a large GPU and takes more of its "
        "memory; the result is the same.",
    )


def mask_input(effect: str) -> io.Input:
    """The person's mask."""
    return io.Mask.Input(
        "mask",
        optional=True,
        tooltip=f"1 on the person: one mask for all frames, or one per frame. {effect} "
        "(The mask of Load Image is 1 where a picture is transparent: invert that one.)",
    )


def boxes_input(effect: str) -> io.Input:
    """Boxes around people, from ComfyUI's core or from packs that have BBOX."""
    # Not io.BoundingBox.Input: it has a default box, with which the page would show a widget.
    return io.MultiType.Input(
        "boxes",
        types=[io.BoundingBox, io.BBOX],
        optional=True,
        extra_dict={"forceInput": True},
        tooltip=f"{effect} Boxes with a label other than person are dropped.",
    )


#: What stands as confidence in POSE_KEYPOINT.
CONFIDENCES = ["0 or 1", "real"]


def score_threshold_input() -> io.Input:
    """Which keypoints are present in POSE_KEYPOINT."""
    return io.Float.Input(
        "score_threshold",
        default=VISIBLE_SCORE,
        min=0.0,
        max=1.0,
        step=0.01,
        tooltip="Keypoints whose score is not above this are absent from the OpenPose keypoints. Higher leaves out "
        "doubtful and hidden ones, lower keeps them. The pose output keeps all with scores.",
    )


def confidence_input() -> io.Input:
    """What is written for those that are."""
    return io.Combo.Input(
        "confidence",
        options=CONFIDENCES,
        default=CONFIDENCES[0],
        tooltip="Confidence written into the OpenPose keypoints. 0 or 1: 1 for each that is present; some packs drop "
        "every keypoint below 1. real: its score.",
    )


def pose_outputs() -> list[io.Output]:
    """People as 308 keypoints, and as OpenPose's."""
    return [
        PoseSocket.Output("pose", tooltip="All 308 keypoints of each person with scores."),
        PoseKeypointSocket.Output(
            "keypoints", tooltip="OpenPose body, feet, hands and face, for nodes that draw or use those."
        ),
    ]
