"""Estimate Normals, Normals from Pointmap."""

from __future__ import annotations

import torch
from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.geometry import foreground, match_mask
from ..sapiens2_core.render import NORMAL_SIGNS, normal_background, normals_to_rgb
from ..sapiens2_core.results import Pointmap
from ..sapiens2_core.surface_normals import face_camera, normals_from_points
from . import host
from .inputs import warn_of_empty_mask
from .sockets import LoadedEstimator, batch_size_input, estimator_input, image_input, mask_input, pointmap_input

BACKGROUNDS = ["keep", "black", "flat"]


def convention_input() -> io.Input:
    """What the colours of a normal map mean."""
    return io.Combo.Input(
        "convention",
        options=list(NORMAL_SIGNS),
        default="opengl",
        tooltip="What the colours mean. opengl: red right, green up (Blender, Unity). directx: green down "
        "(Unreal). controlnet_bae: red left, green up, as ControlNets for normals were trained.",
    )


class Sapiens2EstimateNormals(io.ComfyNode):
    """Which way each point of a person's surface faces."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2EstimateNormals",
            display_name="Estimate Normals (Sapiens2)",
            category="Sapiens2/3D",
            description="Makes a normal map: the colour says which way the surface of skin and clothing faces.",
            search_aliases=["normal map", "surface normals", "normalbae", "normal bae", "relight", "controlnet normal"],
            inputs=[
                estimator_input("normal"),
                image_input(),
                convention_input(),
                io.Combo.Input(
                    "background",
                    options=BACKGROUNDS,
                    default=BACKGROUNDS[0],
                    tooltip="What stands outside of mask. keep: the normals found there. black, or flat (a surface "
                    "that faces the camera): both need a mask.",
                ),
                batch_size_input(),
                mask_input("Where background is black or flat, everything else gets that; keep does not look at it."),
            ],
            outputs=[io.Image.Output("normals", tooltip="The normal map, (n + 1) / 2 in red, green and blue.")],
        )

    @classmethod
    def execute(
        cls,
        estimator: LoadedEstimator,
        image: Tensor,
        convention: str,
        background: str,
        batch_size: int,
        mask: Tensor | None = None,
    ) -> io.NodeOutput:
        """Estimates frame by frame."""
        results = host.predict(estimator, "normal", image, batch_size=batch_size)
        size = image.shape[:3]
        if background != "keep" and mask is None:
            raise ValueError(f"background {background} needs a mask of the people; connect one, or choose keep.")
        person = None if background == "keep" else match_mask(mask, *size).cpu()
        warn_of_empty_mask(person)
        pictures = host.empty_images(*size)
        for index, normals in enumerate(results):
            picture = normals_to_rgb(normals, convention)
            if person is not None:
                picture = normal_background(picture[None], person[index], background)[0]
            pictures[index] = picture.movedim(0, -1)
        return io.NodeOutput(pictures)


class Sapiens2PointmapNormals(io.ComfyNode):
    """Which way the surface of a pointmap faces."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2PointmapNormals",
            display_name="Normals from Pointmap",
            category="Sapiens2/3D",
            description="Makes a normal map of a pointmap's own surface, to compare with Estimate Normals, "
            "which sees finer detail.",
            search_aliases=["normal map", "surface normals", "normals from depth", "depth to normals"],
            inputs=[
                pointmap_input(),
                convention_input(),
                io.Combo.Input(
                    "background",
                    options=BACKGROUNDS,
                    default=BACKGROUNDS[0],
                    tooltip="What stands outside of the pointmap's mask. keep: the normals found there. black, or "
                    "flat (a surface that faces the camera): both need a mask.",
                ),
            ],
            outputs=[io.Image.Output("normals", tooltip="The normal map, (n + 1) / 2 in red, green and blue.")],
        )

    @classmethod
    def execute(cls, pointmap: Pointmap, convention: str, background: str) -> io.NodeOutput:
        """Measures frame by frame."""
        if background != "keep" and pointmap.mask is None:
            raise ValueError(
                f"background {background} needs a mask of the people; connect one to Estimate Pointmap, or choose keep."
            )
        frames, _, height, width = pointmap.points.shape
        everywhere = torch.ones(height, width)
        pictures = host.empty_images(frames, height, width)
        for index, points in enumerate(pointmap.points):
            # With a mask each side has normals of its own, so that none is of a slope between the two.
            inside = foreground(pointmap, index)
            normals = normals_from_points(points, inside)
            if not inside.all():
                normals += normals_from_points(points, foreground(pointmap, index, everywhere) & ~inside)
            picture = normals_to_rgb(face_camera(normals, points), convention)
            if background != "keep":
                picture = normal_background(picture[None], pointmap.mask[index].float(), background)[0]
            pictures[index] = picture.movedim(0, -1)
        return io.NodeOutput(pictures)
