"""What estimation gives, per frame and per clip: small frozen packets that carry their own frame sizes.

Everything is float32 on the CPU unless said otherwise, and in pixels of the frame as it came in:
x to the right, y down, (0, 0) the centre of the top left pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PersonPose:
    """One person's keypoints.

    Attributes:
        keypoints: (308, 2) x and y in pixels of the frame; may lie outside of it.
        scores: (308,) heatmap maxima, about 0..1, not clamped.
        box: (x, y, width, height) in pixels: where the person was looked for.
    """

    keypoints: Tensor
    scores: Tensor
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class FramePose:
    """The people of one frame, ``height`` × ``width`` pixels."""

    people: tuple[PersonPose, ...]
    height: int
    width: int


@dataclass(frozen=True)
class Pose:
    """The people of a clip, frame by frame (socket SAPIENS2_POSE)."""

    frames: tuple[FramePose, ...]


@dataclass(frozen=True)
class LikelyParts:
    """The likeliest body parts of each pixel of one frame (:mod:`sapiens2_core.soft_labels`).

    Attributes:
        ids: (K, h, w) uint8, the likeliest first; each once a pixel.
        probabilities: (K, h, w) uint8 of these, in 1/255; they sum to 255 at every pixel.
    """

    ids: Tensor
    probabilities: Tensor


@dataclass(frozen=True)
class FrameParts:
    """The body parts of one frame with their probabilities.

    Attributes:
        labels: (H, W) uint8.
        likely: as large as the frame or as the network's output, whichever is smaller.
    """

    labels: Tensor
    likely: LikelyParts


@dataclass(frozen=True)
class Segmentation:
    """The body parts of a clip (socket SAPIENS2_SEGMENTATION).

    Attributes:
        labels: (B, H, W) uint8, ids of :data:`sapiens2_core.body_parts.BODY_PARTS`; 0 is background.
        likely: per frame its probabilities, or None where nobody asked for them.
    """

    labels: Tensor
    likely: tuple[LikelyParts, ...] | None = None


@dataclass(frozen=True)
class FramePointmap:
    """The pointmap of one frame.

    Attributes:
        points: (3, H, W) metres in camera space: x right, y down, z forward.
        scale: canonical focal length / actual focal length, as the network gave it
            (1.0 for a checkpoint without a scale branch, whose points are then in canonical units).
        focal_length: in pixels of the frame; the principal point is the frame's centre.
    """

    points: Tensor
    scale: float
    focal_length: float


@dataclass(frozen=True)
class Pointmap:
    """The pointmaps of a clip (socket SAPIENS2_POINTMAP).

    Attributes:
        points: (B, 3, H, W) metres in camera space: x right, y down, z forward.
        scales: (B,) canonical focal length / actual focal length.
        focal_lengths: (B,) in pixels of the frame.
        images: (B, 3, H, W) the frames, 0..1.
        mask: (B, H, W) bool, True on the person, or None when nobody gave one.
    """

    points: Tensor
    scales: Tensor
    focal_lengths: Tensor
    images: Tensor
    mask: Tensor | None = None

    @property
    def intrinsics(self) -> Tensor:
        """(B, 3, 3) pinhole matrices in pixels; the principal point is the frame's centre."""
        height, width = self.points.shape[-2:]
        matrices = torch.eye(3).repeat(len(self.focal_lengths), 1, 1)
        matrices[:, 0, 0] = self.focal_lengths
        matrices[:, 1, 1] = self.focal_lengths
        # Pixel centres are whole numbers here, so the middle of a row of N pixels is (N - 1) / 2.
        matrices[:, 0, 2] = (width - 1) / 2
        matrices[:, 1, 2] = (height - 1) / 2
        return matrices


@dataclass(frozen=True)
class FrameMatte:
    """The matte of one frame.

    Attributes:
        alpha: (1, H, W) 0..1, 1 = person.
        foreground: (3, H, W) 0..1, premultiplied: composite = foreground + (1 - alpha) · background.
    """

    alpha: Tensor
    foreground: Tensor


@dataclass(frozen=True)
class FrameFeatures:
    """What a bare backbone sees in one frame.

    Attributes:
        cls_token: (C,) embedding of the whole frame.
        patch_tokens: (C, h, w) one token per patch of the native input.
    """

    cls_token: Tensor
    patch_tokens: Tensor
