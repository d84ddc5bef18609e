"""Estimate Albedo."""

from __future__ import annotations

from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.geometry import match_mask
from . import host
from .inputs import warn_of_empty_mask
from .sockets import LoadedEstimator, batch_size_input, estimator_input, image_input, mask_input


class Sapiens2EstimateAlbedo(io.ComfyNode):
    """The colour of skin and clothing without light and shadow."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2EstimateAlbedo",
            display_name="Estimate Albedo (Sapiens2)",
            category="Sapiens2",
            description="Gives the colour of skin, hair and clothing with light and shadow taken away.",
            search_aliases=["albedo", "delight", "relight", "base color", "intrinsic image", "remove shadows"],
            inputs=[
                estimator_input("albedo"),
                image_input(),
                batch_size_input(),
                mask_input("Everything else becomes black. Without a mask the whole frame is kept."),
            ],
            outputs=[io.Image.Output("albedo", tooltip="The colour without light, 0..1.")],
        )

    @classmethod
    def execute(
        cls, estimator: LoadedEstimator, image: Tensor, batch_size: int, mask: Tensor | None = None
    ) -> io.NodeOutput:
        """Estimates frame by frame."""
        results = host.predict(estimator, "albedo", image, batch_size=batch_size)
        size = image.shape[:3]
        person = None if mask is None else match_mask(mask, *size).cpu()
        warn_of_empty_mask(person)
        pictures = host.empty_images(*size)
        for index, albedo in enumerate(results):
            pictures[index] = (albedo if person is None else albedo * person[index]).movedim(0, -1)
        return io.NodeOutput(pictures)
