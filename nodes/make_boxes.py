"""Boxes from Mask and Boxes from Pose."""

from __future__ import annotations

import json
from typing import Any

from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.geometry import match_mask
from ..sapiens2_core.keypoints import VISIBLE_SCORE
from ..sapiens2_core.pose_boxes import PARTS, STEADY, boxes_from_pose, prompt_points
from ..sapiens2_core.results import Pose
from .boxes import PERSON
from .pose import people_in_mask
from .sockets import PoseSocket


def _as_dicts(boxes: list[Any], **more: Any) -> list[dict[str, Any]]:
    """One frame of BOUNDING_BOX."""
    return [dict(zip(("x", "y", "width", "height"), box, strict=True)) | more for box in boxes]


class Sapiens2BoxesFromMask(io.ComfyNode):
    """Connected areas of a mask as people."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2BoxesFromMask",
            display_name="Boxes from Mask",
            category="Sapiens2/Pose",
            description="Puts a box around each connected area of a mask, left to right.",
            search_aliases=["mask to bbox", "mask to boxes", "connected components", "bounding box", "segs"],
            inputs=[
                io.Mask.Input("mask", tooltip="One mask, or one per frame of a clip. What is at least half in counts."),
                io.Float.Input(
                    "min_area",
                    default=0.1,
                    min=0.0,
                    max=100.0,
                    step=0.01,
                    tooltip="Smaller areas get no box: in percent of the frame. Higher leaves out specks.",
                ),
                io.Int.Input(
                    "merge",
                    default=0,
                    min=0,
                    max=16384,
                    tooltip="Areas with about so many pixels between them, or fewer, get one box: somebody behind a "
                    "pole is one person. 0 joins only what touches.",
                ),
            ],
            outputs=[
                io.BoundingBox.Output("boxes", tooltip="Per frame a list of boxes; an empty one where the mask is.")
            ],
        )

    @classmethod
    def execute(cls, mask: Tensor, min_area: float, merge: int) -> io.NodeOutput:
        """Frame by frame."""
        frames, height, width = (1, *mask.shape) if mask.ndim == 2 else mask.shape
        people = people_in_mask(match_mask(mask, frames, height, width), min_area=min_area / 100, merge=merge)
        return io.NodeOutput([_as_dicts(boxes, label=PERSON, score=1.0) for boxes in people])


class Sapiens2BoxesFromPose(io.ComfyNode):
    """A part of a person, in every frame."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2BoxesFromPose",
            display_name="Boxes from Pose",
            category="Sapiens2/Pose",
            description="Puts exactly one box a frame around the face, head, hand or body of one person, held steady, "
            "so that a clip cut out with it stays in step with its video.",
            search_aliases=["face crop", "face bbox", "hand crop", "pose to bbox", "bounding box", "sam points"],
            inputs=[
                PoseSocket.Input("pose", tooltip="From Estimate Pose, of all frames of a clip at once."),
                io.Combo.Input(
                    "part",
                    options=list(PARTS),
                    default="face",
                    tooltip="What the box holds. face: brows to chin and jaw; head: up to the crown; upper body: all "
                    "but the legs. Left and right are the person's own.",
                ),
                io.Int.Input(
                    "person",
                    default=0,
                    min=0,
                    max=1000,
                    tooltip="Whose. People are numbered from 0 and followed through the clip: those of the first frame "
                    "in their order there, then those who come later.",
                ),
                io.Boolean.Input(
                    "square",
                    default=True,
                    tooltip="Makes the shorter side as long as the longer one, so that a square crop isn't stretched.",
                ),
                io.Float.Input(
                    "padding",
                    default=0.2,
                    min=0.0,
                    max=5.0,
                    step=0.05,
                    tooltip="Room on each side, as a share of the box's width and height.",
                ),
                io.Combo.Input(
                    "steady",
                    options=list(STEADY),
                    default="smooth",
                    tooltip="smooth: size and place change smoothly. constant size: one size for the clip, as models "
                    "that animate faces like it. off: each frame's own box.",
                ),
                io.Float.Input(
                    "score_threshold",
                    default=VISIBLE_SCORE,
                    min=0.0,
                    max=1.0,
                    step=0.01,
                    tooltip="Keypoints whose score is above this make the box. Higher leaves out doubtful ones.",
                ),
            ],
            outputs=[
                io.BoundingBox.Output(
                    "boxes",
                    tooltip="One box in each frame; where the part isn't seen, one between those before and after.",
                ),
                io.String.Output(
                    "points",
                    tooltip="Points inside the part in the first frame where it is seen, for SAM's positive points: "
                    "JSON, in pixels.",
                ),
            ],
        )

    @classmethod
    def execute(
        cls, pose: Pose, part: str, person: int, square: bool, padding: float, steady: str, score_threshold: float
    ) -> io.NodeOutput:
        """Over the whole clip."""
        boxes = boxes_from_pose(
            pose, part, person, square=square, padding=padding, steady=steady, threshold=score_threshold
        )
        points = [{"x": x, "y": y} for x, y in prompt_points(pose, part, person, score_threshold)]
        return io.NodeOutput([_as_dicts([box]) for box in boxes], json.dumps(points))
