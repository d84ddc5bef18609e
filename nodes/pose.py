"""Estimate Pose."""

from __future__ import annotations

from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.openpose import to_openpose
from ..sapiens2_core.results import Pose
from . import host
from .boxes import boxes_per_frame
from .inputs import check_image
from .sockets import (
    LoadedEstimator,
    PoseKeypointSocket,
    PoseSocket,
    batch_size_input,
    boxes_input,
    estimator_input,
    image_input,
)

#: What stands as confidence in POSE_KEYPOINT.
CONFIDENCES = ["0 or 1", "real"]


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
                io.Float.Input(
                    "score_threshold",
                    default=0.3,
                    min=0.0,
                    max=1.0,
                    step=0.01,
                    tooltip="Keypoints whose score is not above this are absent from the OpenPose keypoints. Higher "
                    "leaves out doubtful and hidden ones, lower keeps them. The pose output keeps all with scores.",
                ),
                io.Combo.Input(
                    "confidence",
                    options=CONFIDENCES,
                    default=CONFIDENCES[0],
                    tooltip="Confidence written into the OpenPose keypoints. 0 or 1: 1 for each that is present; "
                    "some packs drop every keypoint below 1. real: its score.",
                ),
                batch_size_input("people"),
                boxes_input(
                    "Where the people are: each box is cropped and looked at on its own, in full resolution. "
                    "Without boxes the whole frame is taken as one person."
                ),
            ],
            outputs=[
                PoseSocket.Output("pose", tooltip="All 308 keypoints of each person with scores."),
                PoseKeypointSocket.Output(
                    "keypoints", tooltip="OpenPose body, feet, hands and face, for nodes that draw or use those."
                ),
            ],
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
        boxes: object = None,
    ) -> io.NodeOutput:
        """Estimates frame by frame."""
        check_image(image)
        num_frames, height, width = image.shape[:3]
        people = None if boxes is None else boxes_per_frame(boxes, num_frames, height, width)
        frames = host.predict(estimator, "pose", image, boxes=people, batch_size=batch_size, flip_test=flip_test)
        pose = Pose(tuple(frames))
        return io.NodeOutput(pose, to_openpose(pose, score_threshold, real_confidence=confidence == "real"))
