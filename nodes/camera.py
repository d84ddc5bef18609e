"""Camera from Pointmap."""

from __future__ import annotations

from comfy_api.latest import io

from ..sapiens2_core.camera import check_focal_length, field_of_view, viewer_camera
from ..sapiens2_core.geometry import foreground
from ..sapiens2_core.results import Pointmap
from .inputs import check_frame
from .sockets import frame_input, pointmap_input


class Sapiens2PointmapCamera(io.ComfyNode):
    """The camera that took the photo."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2PointmapCamera",
            display_name="Camera from Pointmap",
            category="Sapiens2/3D",
            description="The camera that a photo was taken with: its field of view, and a view of the mesh that "
            "matches the photo in Preview 3D.",
            search_aliases=["camera", "fov", "field of view", "focal length", "intrinsics", "camera info"],
            inputs=[pointmap_input(), frame_input()],
            outputs=[
                io.Load3DCamera.Output(
                    "camera_info", tooltip="For Preview 3D and Render Mesh: the photo's view of Pointmap to Mesh."
                ),
                io.Float.Output("fov_x", tooltip="Horizontal field of view, degrees."),
                io.Float.Output("fov_y", tooltip="Vertical field of view, degrees."),
                io.Float.Output("focal_length", tooltip="By the network's scale, in pixels of the photo."),
                io.Float.Output(
                    "fitted_focal_length",
                    tooltip="By the points themselves, in pixels: a check. 0 where they don't tell. A difference of "
                    "more than 10 % is in the log.",
                ),
            ],
        )

    @classmethod
    def execute(cls, pointmap: Pointmap, frame: int) -> io.NodeOutput:
        """Reads one frame's camera."""
        check_frame(frame, len(pointmap.points))
        height, width = pointmap.points.shape[-2:]
        focal_length = float(pointmap.focal_lengths[frame])
        if focal_length <= 0:
            raise ValueError(
                f"The network gives frame {frame} a focal length of {focal_length:g} pixels, which no camera has. "
                "Choose another frame, or scale clip in Estimate Pointmap."
            )
        depth = pointmap.points[frame, 2][foreground(pointmap, frame)]
        distance = float(depth.median()) if len(depth) else 1.0
        return io.NodeOutput(
            viewer_camera(focal_length, height, width, distance),
            field_of_view(focal_length, width),
            field_of_view(focal_length, height),
            focal_length,
            check_focal_length(pointmap, frame) or 0.0,
        )
