"""Smooth Pose."""

from __future__ import annotations

from comfy_api.latest import io

from ..sapiens2_core.results import Pose
from ..sapiens2_core.smoothing import smooth
from .sockets import PoseSocket


class Sapiens2SmoothPose(io.ComfyNode):
    """Steady skeletons over a clip."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2SmoothPose",
            display_name="Smooth Pose",
            category="Sapiens2/Pose",
            description="Takes jitter and flicker out of the poses of a clip, and fills short gaps. Each person is "
            "followed on its own; fast motion keeps its speed and its peaks, and nothing is smoothed across a cut.",
            search_aliases=["stabilize pose", "pose jitter", "flicker", "one euro", "kalman", "temporal smoothing"],
            inputs=[
                PoseSocket.Input("pose", tooltip="From Estimate Pose, of all frames of a clip at once."),
                io.Float.Input(
                    "strength",
                    default=0.5,
                    min=0.0,
                    max=1.0,
                    step=0.05,
                    tooltip="How much jitter goes. 0: none, gaps are filled only. 0.5: five sixths of it at rest. "
                    "1: more still, and small quick movements begin to go with it.",
                ),
                io.Int.Input(
                    "fill_gaps",
                    default=5,
                    min=0,
                    max=100,
                    tooltip="People and keypoints that are lost for up to so many frames are put back in between. "
                    "0 fills nothing.",
                ),
            ],
            outputs=[PoseSocket.Output("pose", tooltip="The same people, steady.")],
        )

    @classmethod
    def execute(cls, pose: Pose, strength: float, fill_gaps: int) -> io.NodeOutput:
        """Smooths the whole clip."""
        return io.NodeOutput(smooth(pose, strength, fill_gaps))
