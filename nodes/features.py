"""Extract Features."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from comfy_api.latest import io
from torch import Tensor

from ..sapiens2_core.features import cosine_similarity, features_to_rgb
from ..sapiens2_core.geometry import match_mask
from . import host
from .inputs import check_companion, check_image
from .sockets import EstimatorSocket, LoadedEstimator, batch_size_input, image_input, mask_input


class Sapiens2ExtractFeatures(io.ComfyNode):
    """What the backbone sees."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="Sapiens2ExtractFeatures",
            display_name="Extract Features (Sapiens2)",
            category="Sapiens2",
            description="Shows what the network sees: patches that it finds alike have like colours. And says how "
            "alike pictures are to it, as one number each.",
            search_aliases=["features", "embedding", "similarity", "pca", "compare images", "cls token", "dino"],
            inputs=[
                EstimatorSocket.Input(
                    "estimator",
                    tooltip="Any checkpoint from Load Sapiens2: its backbone is used, without the head of its task. "
                    "Pretrain checkpoints are general, those of a task see what their task needs.",
                ),
                image_input(),
                batch_size_input(),
                io.Image.Input(
                    "second_image",
                    optional=True,
                    tooltip="What the frames are compared with: one picture for all frames, or one per frame. "
                    "Without it they are compared with the first frame.",
                ),
                mask_input(
                    "Only patches on the person get colours, so that their differences show; the rest is black."
                ),
            ],
            outputs=[
                io.Image.Output("features", tooltip="The three main directions of all patches as red, green, blue."),
                io.Float.Output(
                    "similarity",
                    is_output_list=True,
                    tooltip="Per frame, how alike it and the second image are: 1 is the same, 0 nothing in common.",
                ),
            ],
        )

    @classmethod
    def execute(
        cls,
        estimator: LoadedEstimator,
        image: Tensor,
        batch_size: int,
        second_image: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> io.NodeOutput:
        """Extracts frame by frame."""
        check_image(image)
        num_frames, height, width = image.shape[:3]
        if second_image is not None:
            check_companion(second_image, "second_image", num_frames)
        person = None if mask is None else match_mask(mask, num_frames, height, width).cpu()
        backbone = LoadedEstimator(estimator.estimator.backbone(), estimator.patcher)
        tokens, cls_tokens = [], []
        for found in host.predict(backbone, "pretrain", image, batch_size=batch_size):
            tokens.append(found.patch_tokens.half())  # a quarter of a full-size frame's picture
            cls_tokens.append(found.cls_token)
        others = cls_tokens[:1]
        if second_image is not None:
            found = host.predict(backbone, "pretrain", second_image, batch_size=batch_size)
            others = [features.cls_token for features in found]
        patches = torch.stack(tokens)
        foreground = None
        if person is not None:
            foreground = F.interpolate(person[:, None].float(), patches.shape[-2:], mode="area")[:, 0] >= 0.5
        pictures = host.empty_images(num_frames, height, width)
        for index, picture in enumerate(features_to_rgb(patches, foreground)):
            pictures[index] = F.interpolate(picture[None], (height, width), mode="nearest-exact")[0].movedim(0, -1)
        similarity = cosine_similarity(torch.stack(cls_tokens), torch.stack(others))
        return io.NodeOutput(pictures, similarity.tolist())
