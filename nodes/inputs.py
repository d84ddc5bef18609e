"""Checks of what comes in through ComfyUI's own sockets; nothing here needs ComfyUI."""

from __future__ import annotations

import logging

import torch
import torch.nn.functional as F
from torch import Tensor

logger = logging.getLogger("sapiens2")


def check_image(image: Tensor, name: str = "image") -> None:
    """Raises ValueError unless ``image`` is a (B, H, W, C) batch of one frame or more, all pixels finite."""
    if image.ndim != 4 or image.shape[-1] not in (1, 3, 4):
        raise ValueError(
            f"{name} has the shape {tuple(image.shape)}, but pictures are (frames, height, width, colours), "
            "grey, RGB or RGBA."
        )
    if 0 in image.shape:
        raise ValueError(f"{name} is empty (shape {tuple(image.shape)}): there is no frame to work on.")
    for index, frame in enumerate(image):
        low, high = torch.aminmax(frame)  # NaN spreads through it; needs no second frame of memory
        if not (torch.isfinite(low) and torch.isfinite(high)):
            raise ValueError(
                f"{name} has pixels that aren't finite numbers (NaN or infinite) in frame {index}. "
                "Check the node that makes it, often a VAE that decodes in half precision."
            )


def check_companion(image: Tensor, name: str, num_frames: int, of: str = "image") -> None:
    """Raises ValueError unless ``image`` is a usable batch of one picture for all frames of ``of``, or of one each."""
    check_image(image, name)
    if len(image) not in (1, num_frames):
        raise ValueError(
            f"{name} holds {len(image)} frames, but {of} has {num_frames}. Give one per frame, or one for all."
        )


def warn_of_empty_mask(mask: Tensor | None) -> None:
    """Logs a warning where a mask is 0 everywhere: nothing of the picture would count as the person."""
    if mask is not None and not mask.any():
        logger.warning(
            "mask is 0 everywhere, so all of the picture counts as background. Connect a mask that is 1 on the "
            "person, such as person of Segment Body Parts; the mask of Load Image is 1 where a picture is transparent, "
            "and 0 everywhere in a photo."
        )


def check_frame(frame: int, num_frames: int) -> None:
    """Raises ValueError unless ``frame`` is the index of a frame."""
    if not 0 <= frame < num_frames:
        raise ValueError(f"frame is {frame}, but the pointmap has {num_frames} frames: choose 0 to {num_frames - 1}.")


def frame_colors(image: Tensor, index: int) -> Tensor:
    """One frame of an IMAGE as (3, H, W) float32 on the CPU: without alpha, grey as three equal colours."""
    return image[index, ..., :3].movedim(-1, 0).float().cpu().expand(3, -1, -1)


def cover(picture: Tensor, height: int, width: int) -> Tensor:
    """A (C, H, W) picture scaled until it covers ``height`` × ``width``, and cut to that around its centre."""
    if picture.shape[1:] == (height, width):
        return picture
    scale = max(height / picture.shape[1], width / picture.shape[2])
    size = [max(side, round(length * scale)) for side, length in zip((height, width), picture.shape[1:], strict=True)]
    scaled = F.interpolate(picture[None], size, mode="bilinear", antialias=True)[0]
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    return scaled[:, top : top + height, left : left + width]
