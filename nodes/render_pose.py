"""Render Pose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.keypoints import VISIBLE_SCORE
from ..sapiens2_core.openpose import to_openpose
from ..sapiens2_core.openpose_in import OpenPoseFrame, from_openpose, openpose_people, read_openpose, write_openpose
from ..sapiens2_core.pose_parts import Parts, keep_openpose_parts, keep_parts, resize_frame
from ..sapiens2_core.render import draw_pose
from ..sapiens2_core.render_openpose import STICK_BRIGHTNESS, draw_openpose
from ..sapiens2_core.results import Pose
from . import host
from .inputs import check_companion, frame_colors
from .sockets import PoseKeypointSocket, PoseSocket

STYLES = ["OpenPose", "OpenPose thick for SDXL", "Sapiens 308"]


def _side(name: str) -> io.Input:
    return io.Int.Input(
        name,
        default=0,
        min=0,
        max=16384,
        tooltip=f"{name.capitalize()} of the picture in pixels; the pose is drawn anew at that size. 0: that of image "
        "or of the frames the poses are from, or in proportion when the other one is set.",
    )


def _part(name: str, what: str, default: bool = True) -> io.Input:
    return io.Boolean.Input(
        name, default=default, tooltip=f"Draws {what}. Off: they are absent from picture and keypoints."
    )


class Sapiens2RenderPose(io.ComfyNode):
    """Skeletons as pictures."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2RenderPose",
            display_name="Render Pose (Sapiens2)",
            category="Sapiens2/Pose",
            description="Draws poses: as the OpenPose and DWPose annotators do, for OpenPose ControlNets, or all 308 "
            "keypoints.",
            search_aliases=[
                "openpose",
                "dwpose",
                "draw pose",
                "skeleton",
                "controlnet pose",
                "pose image",
                "keypoints",
            ],
            inputs=[
                io.MultiType.Input(
                    "pose",
                    types=[PoseSocket, PoseKeypointSocket],
                    tooltip="From Estimate Pose or Load Pose; or OpenPose keypoints (POSE_KEYPOINT) of any node.",
                ),
                io.Combo.Input(
                    "style",
                    options=STYLES,
                    default=STYLES[0],
                    tooltip="OpenPose: what OpenPose ControlNets were trained on. thick for SDXL: wider sticks and "
                    "joints, as SDXL's openpose networks (xinsir's) want them. Sapiens 308: every keypoint, for the "
                    "eye.",
                ),
                _side("width"),
                _side("height"),
                _part("body", "trunk, arms and legs"),
                _part("head", "nose, eyes and ears"),
                _part("hands", "fingers"),
                _part("feet", "toes and heels, which OpenPose ControlNets don't know", default=False),
                _part("face", "the fine points of the face"),
                io.Float.Input(
                    "threshold",
                    default=VISIBLE_SCORE,
                    min=0.0,
                    max=1.0,
                    step=0.01,
                    tooltip="Keypoints whose score is above this are drawn, and sticks between two such. Higher leaves "
                    "out doubtful and hidden ones.",
                ),
                io.Float.Input(
                    "size",
                    default=1.0,
                    min=0.1,
                    max=10.0,
                    step=0.05,
                    tooltip="Factor on the thickness of sticks, lines and points. 1 suits ControlNets.",
                ),
                io.Float.Input(
                    "stick_brightness",
                    default=STICK_BRIGHTNESS,
                    min=0.0,
                    max=1.0,
                    step=0.05,
                    advanced=True,
                    tooltip="Of the sticks of the OpenPose styles. 0.6 is what OpenPose and DWPose draw; 1 is what "
                    "ComfyUI's SDPose Draw Keypoints draws.",
                ),
                io.Image.Input(
                    "image",
                    optional=True,
                    tooltip="Draws over it instead of over black: one picture for all frames, or one per frame. It is "
                    "scaled to width and height where they are set.",
                ),
            ],
            outputs=[
                io.Image.Output("image", tooltip="A picture of each frame."),
                PoseKeypointSocket.Output(
                    "keypoints", tooltip="The people of the picture as OpenPose keypoints, in its pixels."
                ),
            ],
        )

    @classmethod
    def execute(
        cls,
        pose: Any,
        style: str,
        width: int,
        height: int,
        body: bool,
        head: bool,
        hands: bool,
        feet: bool,
        face: bool,
        threshold: float,
        size: float,
        stick_brightness: float,
        image: Tensor | None = None,
    ) -> io.NodeOutput:
        """Draws frame by frame."""
        parts = Parts(body, head, hands, feet, face)
        if not isinstance(pose, Pose):
            # Frames that don't say their size are as large as the picture that they are drawn over, or as asked for.
            pose = read_openpose(pose, *((height, width) if image is None else image.shape[1:3]))
        frames, draw = _drawing(pose, style, parts, threshold, size, stick_brightness)
        if not frames:
            raise ValueError("pose has no frames: there is nothing to draw.")
        if image is not None:
            check_companion(image, "image", len(frames), of="pose")
        source = (frames[0].height, frames[0].width) if image is None else tuple(image.shape[1:3])
        height, width = _picture_size(height, width, *source)
        pictures = host.empty_images(len(frames), height, width)
        for index in host.with_progress(len(frames)):
            background = None
            if image is not None:
                background = frame_colors(image, index if len(image) > 1 else 0)
                if background.shape[1:] != (height, width):
                    background = F.interpolate(background[None], (height, width), mode="bilinear", antialias=True)[0]
            pictures[index] = draw(frames[index], height, width, background).movedim(0, -1)
        return io.NodeOutput(pictures, _keypoints(pose, parts, threshold, height, width))


def _picture_size(height: int, width: int, source_height: int, source_width: int) -> tuple[int, int]:
    """Height and width to draw at, where 0 means the source's, or in proportion to the other."""
    if not height and not width:
        return source_height, source_width
    height = height or max(1, round(width * source_height / source_width))
    return height, width or max(1, round(height * source_width / source_height))


def _keypoints(
    pose: Pose | list[OpenPoseFrame], parts: Parts, threshold: float, height: int, width: int
) -> list[dict[str, Any]]:
    """POSE_KEYPOINT of these parts, for a picture of that size; keypoints of other nodes keep their confidences."""
    frames = read_openpose(to_openpose(pose, threshold)) if isinstance(pose, Pose) else pose
    return write_openpose([keep_openpose_parts(frame, parts).resized(height, width) for frame in frames])


def _drawing(
    pose: Pose | list[OpenPoseFrame], style: str, parts: Parts, threshold: float, size: float, stick_brightness: float
) -> tuple[Any, Callable[..., Tensor]]:
    """The frames, and what draws one of them at (height, width) over a background."""
    if style == STYLES[2]:
        frames = (pose if isinstance(pose, Pose) else from_openpose(pose)).frames

        def draw(frame: Any, height: int, width: int, background: Tensor | None) -> Tensor:
            return draw_pose(resize_frame(keep_parts(frame, parts), height, width), background, threshold, size)

        return frames, draw

    # OpenPose's own keypoints are drawn as they are; the way over the 308 would give them a fitted jaw.
    is_ours = isinstance(pose, Pose)

    def draw_in_openpose_style(frame: Any, height: int, width: int, background: Tensor | None) -> Tensor:
        people = openpose_people(frame, threshold) if is_ours else frame
        return draw_openpose(
            people.resized(height, width),
            background,
            threshold=threshold,
            parts=parts,
            thick=style == STYLES[1],
            size=size,
            stick_brightness=stick_brightness,
        )

    return pose.frames if is_ours else pose, draw_in_openpose_style
