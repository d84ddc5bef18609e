"""Segment Body Parts."""

from __future__ import annotations

import torch
from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.render import colour_body_parts
from ..sapiens2_core.results import LikelyParts, Segmentation
from . import host
from .sockets import LoadedEstimator, SegmentationSocket, batch_size_input, estimator_input, image_input


class Sapiens2SegmentBodyParts(io.ComfyNode):
    """29 classes of body parts and clothing."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2SegmentBodyParts",
            display_name="Segment Body Parts (Sapiens2)",
            category="Sapiens2",
            description="Tells hair, face, hands, clothing and 24 more parts of people apart, pixel by pixel. Select "
            "Body Parts makes masks of them.",
            search_aliases=["human parsing", "segmentation", "body parts", "person mask"],
            inputs=[
                estimator_input("seg"),
                image_input(),
                batch_size_input(),
                io.Boolean.Input(
                    "soft",
                    default=False,
                    optional=True,
                    tooltip="Keeps how likely each part is, for soft masks in Select Body Parts. Takes up to 6 MB more "
                    "memory for each frame.",
                ),
            ],
            outputs=[
                SegmentationSocket.Output("segmentation", tooltip="The part that each pixel belongs to."),
                io.Mask.Output("person", tooltip="1 on people, 0 on the background."),
                io.Image.Output("colored", tooltip="Every part in the colour that the model's authors gave it."),
            ],
        )

    @classmethod
    def execute(cls, estimator: LoadedEstimator, image: Tensor, batch_size: int, soft: bool = False) -> io.NodeOutput:
        """Segments frame by frame."""
        results = host.predict(estimator, "seg", image, batch_size=batch_size, soft=soft)
        size = image.shape[:3]
        labels = torch.empty(size, dtype=torch.uint8)
        person, colored = host.empty_masks(*size), host.empty_images(*size)
        likely: list[LikelyParts] = []
        for index, frame in enumerate(results):
            if soft:
                likely.append(frame.likely)
                frame = frame.labels
            labels[index] = frame
            person[index] = frame > 0
            colored[index] = colour_body_parts(frame).movedim(0, -1)
        return io.NodeOutput(Segmentation(labels, tuple(likely) if soft else None), person, colored)
