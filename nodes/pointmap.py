"""Estimate Pointmap, Pointmap to Depth."""

from __future__ import annotations

import torch
from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.geometry import depth_picture, match_mask, metric_depth
from ..sapiens2_core.render import colour_depth
from ..sapiens2_core.results import Pointmap
from ..sapiens2_core.steady_scale import steady_pointmap
from . import host
from .inputs import warn_of_empty_mask
from .moge import moge_geometry
from .sockets import (
    LoadedEstimator,
    MogeGeometrySocket,
    PointmapSocket,
    batch_size_input,
    estimator_input,
    image_input,
    mask_input,
    pointmap_input,
)

SCALES = ["per frame", "clip", "running"]
RANGES = ["percentile", "metres"]
SCOPES = ["clip", "frame"]
CURVES = ["inverse", "linear"]
BACKGROUNDS = ["black", "far", "keep"]
COLORS = ["grey", "turbo"]


class Sapiens2EstimatePointmap(io.ComfyNode):
    """Where in front of the camera each pixel's point lies, in metres."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2EstimatePointmap",
            display_name="Estimate Pointmap (Sapiens2)",
            category="Sapiens2/3D",
            description="Finds the place in space of every pixel of a person, in metres, and the camera's focal "
            "length. Pointmap to Depth makes a depth picture of it.",
            search_aliases=["depth", "depth map", "point map", "point cloud", "3d", "metric depth", "camera"],
            inputs=[
                estimator_input("pointmap"),
                image_input(),
                batch_size_input(),
                mask_input(
                    "It travels with the pointmap as its foreground, which later nodes keep to, and no point at its "
                    "edge is mixed with the background. Without one the whole frame is foreground."
                ),
                io.Combo.Input(
                    "scale",
                    optional=True,
                    options=SCALES,
                    default=SCALES[0],
                    tooltip="How large everything is. per frame: as the network says, which jumps from frame to frame "
                    "of a video. clip: one size for each scene, for a lens that does not zoom. running: a slow mean, "
                    "for one that does. Cuts between scenes are found.",
                ),
            ],
            outputs=[
                PointmapSocket.Output(
                    "pointmap", tooltip="Points in metres, focal lengths, and the frames themselves."
                ),
                MogeGeometrySocket.Output(
                    "moge_geometry", tooltip="The same for ComfyUI's own MoGe nodes: render, mesh, field of view."
                ),
            ],
        )

    @classmethod
    def execute(
        cls,
        estimator: LoadedEstimator,
        image: Tensor,
        batch_size: int,
        mask: Tensor | None = None,
        scale: str = SCALES[0],
    ) -> io.NodeOutput:
        """Estimates frame by frame."""
        num_frames, height, width = image.shape[:3]
        person = None if mask is None else match_mask(mask, num_frames, height, width).cpu() >= 0.5
        warn_of_empty_mask(person)
        results = host.predict(estimator, "pointmap", image, batch_size=batch_size, masks=person)
        points = torch.empty((num_frames, 3, height, width))
        scales, focal_lengths = torch.empty(num_frames), torch.empty(num_frames)
        for index, frame in enumerate(results):
            points[index] = frame.points
            scales[index] = frame.scale
            focal_lengths[index] = frame.focal_length
        # A view, where ComfyUI keeps its pictures as it does by default: the clip is not held twice.
        images = image[..., :3].movedim(-1, 1).float().cpu().expand(-1, 3, -1, -1)
        pointmap = steady_pointmap(Pointmap(points, scales, focal_lengths, images, person), scale)
        return io.NodeOutput(pointmap, moge_geometry(pointmap))


class Sapiens2PointmapToDepth(io.ComfyNode):
    """The depth picture that depth ControlNets read, and depth in metres."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2PointmapToDepth",
            display_name="Pointmap to Depth",
            category="Sapiens2/3D",
            description="Makes a depth picture of a pointmap. The defaults are what depth ControlNets expect: "
            "inverse depth, near is white, background black, steady over a clip.",
            search_aliases=["depth map", "depth", "controlnet depth", "metric depth", "z depth", "depth picture"],
            inputs=[
                pointmap_input(),
                io.Combo.Input(
                    "range",
                    options=RANGES,
                    default=RANGES[0],
                    tooltip="Which depths become white and black. percentile: the 1st and 99th percentile of the "
                    "foreground, or near and far where they are set. metres: near and far, which must both be set.",
                ),
                io.Combo.Input(
                    "scope",
                    options=SCOPES,
                    default=SCOPES[0],
                    tooltip="clip: one range for all frames, so that brightness does not flicker. "
                    "frame: each frame has its own range and its full contrast.",
                ),
                io.Combo.Input(
                    "curve",
                    options=CURVES,
                    default=CURVES[0],
                    tooltip="inverse: brightness follows 1 / depth, as depth ControlNets were trained; more contrast "
                    "close to the camera. linear: it follows depth itself.",
                ),
                io.Boolean.Input(
                    "near_is_white",
                    default=True,
                    tooltip="On: near is white and far is black. Off: the other way round, within the foreground.",
                ),
                io.Combo.Input(
                    "background",
                    options=BACKGROUNDS,
                    default=BACKGROUNDS[0],
                    tooltip="What stands outside of the mask. black; far: the shade of the far end; keep: its own "
                    "depth. Without a mask there is no background.",
                ),
                io.Combo.Input(
                    "color",
                    options=COLORS,
                    default=COLORS[0],
                    tooltip="grey is for ControlNets; turbo shows small differences in rainbow colours, for the eye.",
                ),
                io.Float.Input(
                    "near",
                    optional=True,
                    default=0.0,
                    min=0.0,
                    max=10000.0,
                    step=0.01,
                    tooltip="Depth in metres that becomes white; 0 measures it. Connect the near output of the chunk "
                    "before to go on with a clip in the same brightness.",
                ),
                io.Float.Input(
                    "far",
                    optional=True,
                    default=0.0,
                    min=0.0,
                    max=10000.0,
                    step=0.01,
                    tooltip="Depth in metres that becomes black; 0 measures it. Connect the far output of the chunk "
                    "before to go on with a clip in the same brightness.",
                ),
                mask_input("What is foreground, instead of the pointmap's own mask."),
            ],
            outputs=[
                io.Image.Output("depth", tooltip="The depth picture."),
                io.Image.Output("metres", tooltip="Depth in metres, not clipped: for nodes that calculate with it."),
                io.Float.Output("near", tooltip="Metres that became white: the nearest of all frames."),
                io.Float.Output("far", tooltip="Metres that became black: the farthest of all frames."),
            ],
        )

    @classmethod
    def execute(
        cls,
        pointmap: Pointmap,
        range: str,
        scope: str,
        curve: str,
        near_is_white: bool,
        background: str,
        color: str,
        near: float = 0.0,
        far: float = 0.0,
        mask: Tensor | None = None,
    ) -> io.NodeOutput:
        """Measures the range, then makes the pictures."""
        warn_of_empty_mask(mask)
        grey, nears, fars = depth_picture(
            pointmap,
            mask if mask is None else mask.cpu(),
            near=near or None,
            far=far or None,
            range=range,
            scope=scope,
            curve=curve,
            near_is_white=near_is_white,
            background=background,
        )
        num_frames, _, height, width = grey.shape
        pictures = host.empty_images(num_frames, height, width)
        for index, frame in enumerate(grey):
            pictures[index] = colour_depth(frame, color).movedim(0, -1)
        metres = metric_depth(pointmap).movedim(1, -1).repeat(1, 1, 1, 3)
        measured = nears[nears > 0]
        nearest = float(measured.min()) if len(measured) else 0.0
        return io.NodeOutput(pictures, metres, nearest, float(fars.max()))
