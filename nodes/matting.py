"""Matting."""

from __future__ import annotations

import torch
from comfy_api.latest import io
from PIL import ImageColor
from torch import Tensor

from ..sapiens2_core.compositing import composite as composite_over
from ..sapiens2_core.compositing import straight_colour
from . import host
from .inputs import check_companion, cover, frame_colors
from .sockets import LoadedEstimator, batch_size_input, estimator_input, image_input

COLOR_SOURCES = ["network", "photo"]


class Sapiens2Matting(io.ComfyNode):
    """Cuts people out, hair included."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2Matting",
            display_name="Matting (Sapiens2)",
            category="Sapiens2",
            description="Cuts people out of their background with soft edges: a transparent picture, its alpha, "
            "and the people on another background.",
            search_aliases=["remove background", "cutout", "matte", "alpha", "green screen", "transparent"],
            inputs=[
                estimator_input("matting"),
                image_input(),
                io.Color.Input(
                    "background_color",
                    default="#000000",
                    tooltip="Colour behind the people in composite. background_image, where connected, replaces it.",
                ),
                io.Combo.Input(
                    "color_from",
                    options=COLOR_SOURCES,
                    default=COLOR_SOURCES[0],
                    tooltip="Colour of the people. network: as the network sees them without the old background, "
                    "so that hair and edges have no fringe of it. photo: the photo's own pixels, sharper in large "
                    "pictures, with the old background shining through soft edges.",
                ),
                batch_size_input(),
                io.Image.Input(
                    "background_image",
                    optional=True,
                    tooltip="Picture behind the people in composite: one for all frames, or one per frame. "
                    "Scaled to cover the frame and cut to it.",
                ),
            ],
            outputs=[
                io.Image.Output("rgba", tooltip="The people on transparent ground; save it as PNG."),
                io.Mask.Output("alpha", tooltip="1 on people, 0 on the background, between in hair and soft edges."),
                io.Image.Output("foreground", tooltip="The people's colour without alpha, continued under soft edges."),
                io.Image.Output("composite", tooltip="The people on the background colour or picture."),
            ],
        )

    @classmethod
    def execute(
        cls,
        estimator: LoadedEstimator,
        image: Tensor,
        background_color: str,
        color_from: str,
        batch_size: int,
        background_image: Tensor | None = None,
    ) -> io.NodeOutput:
        """Mattes frame by frame."""
        results = host.predict(estimator, "matting", image, batch_size=batch_size)
        size = num_frames, height, width = image.shape[:3]
        if background_image is not None:
            check_companion(background_image, "background_image", num_frames)
        plain = torch.tensor(ImageColor.getcolor(background_color, "RGB")).view(3, 1, 1) / 255
        rgba, alpha = host.empty_images(*size, 4), host.empty_masks(*size)
        foreground, composite = host.empty_images(*size), host.empty_images(*size)
        for index, matte in enumerate(results):
            if color_from == "photo":
                color = frame_colors(image, index)
                premultiplied = color * matte.alpha
            else:
                color, premultiplied = straight_colour(matte.foreground, matte.alpha), matte.foreground
            background = plain
            if background_image is not None:
                picture = frame_colors(background_image, index % len(background_image))
                background = cover(picture, height, width)
            alpha[index] = matte.alpha[0]
            foreground[index] = color.movedim(0, -1)
            rgba[index, ..., :3] = foreground[index]
            rgba[index, ..., 3] = alpha[index]
            composite[index] = composite_over(premultiplied, matte.alpha, background).clamp(0, 1).movedim(0, -1)
        return io.NodeOutput(rgba, alpha, foreground, composite)
