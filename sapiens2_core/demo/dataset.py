"""Mannequins to train on: a data set that is drawn as it is read, the same at every reading."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from .render import Render, render
from .scene import random_scene

#: Seeds of scenes that nothing is ever trained on; :class:`MannequinDataset` begins behind them.
HELD_OUT = range(10_000)


class MannequinDataset(Dataset[dict[str, Tensor]]):
    """Renders by number, augmented.

    Row ``index`` depends on ``seed`` and ``index`` alone, so training resumes at any row::

        loader = DataLoader(dataset, batch_size=32, sampler=range(first_row, len(dataset)), num_workers=2)

    Each row is a dict, ready for the default collation:

    * image (3, H, W) 0..1, labels (H, W) uint8, normals, points, albedo, foreground (3, H, W), alpha (1, H, W), mask
      (H, W) bool, focal_length () pixels: as in :class:`~.render.Render`;
    * keypoints (308, 3): x, y in pixels and visibility 0 or 1, and box (4,): x, y, width, height, of one person drawn
      among those that show.

    Args:
        length: number of rows.
        size: (height, width) of the pictures, pixels.
        seed: another seed is another data set.
        augment: whether pictures get another exposure, colour cast, contrast, blur and noise, as a camera would give
            them. The foreground changes with the picture but for blur and noise; everything else stays true.
        supersample: see :func:`~.render.render`.
    """

    def __init__(
        self,
        length: int,
        size: tuple[int, int] = (256, 192),
        seed: int = 0,
        augment: bool = True,
        supersample: int = 2,
    ) -> None:
        self.length, self.size, self.seed = length, size, seed
        self.augment, self.supersample = augment, supersample

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not 0 <= index < self.length:
            raise IndexError(f"Row {index} of {self.length}.")
        random = np.random.default_rng([self.seed, index])
        scene = HELD_OUT.stop + int(random.integers(2**48))
        picture = render(random_scene(scene, self.size), self.supersample)
        shows = [person for person in range(len(picture.boxes)) if (picture.persons == person + 1).any()]
        person = int(random.choice(shows)) if shows else 0
        visibility = picture.visibility[person, :, None].float()
        row = {
            "image": picture.image,
            "labels": picture.labels,
            "normals": picture.normals,
            "points": picture.points,
            "albedo": picture.albedo,
            "alpha": picture.alpha,
            "foreground": picture.foreground,
            "mask": picture.mask,
            "focal_length": torch.tensor(picture.focal_length, dtype=torch.float32),
            "keypoints": torch.cat([picture.keypoints[person], visibility], dim=1),
            "box": picture.boxes[person],
        }
        if self.augment:
            row["image"], row["foreground"] = _photograph(random, picture)
        return row


def _photograph(random: np.random.Generator, picture: Render) -> tuple[Tensor, Tensor]:
    """A picture and its premultiplied foreground as another camera might take them."""
    cast = np.exp(random.normal(0, 0.06, 3) + random.normal(0, 0.15))
    gain = torch.tensor(cast, dtype=torch.float32)[:, None, None]
    contrast = float(np.exp(random.normal(0, 0.12)))
    # A linear change of the picture is the same change of the foreground where it covers the pixel.
    gain = gain * contrast
    bias = 0.5 * (1 - contrast)
    image = picture.image * gain + bias
    foreground = picture.foreground * gain + bias * picture.alpha
    if random.random() < 0.3:
        image = _blurred(image, float(random.uniform(0.3, 1.0)))
    noise = torch.from_numpy(random.standard_normal(image.shape, dtype=np.float32))
    image = image + noise * float(abs(random.normal(0, 0.015)))
    return image.clamp(0, 1), torch.minimum(foreground.clamp(min=0), picture.alpha)


def _blurred(image: Tensor, sigma: float) -> Tensor:
    """(3, H, W) smoothed by a Gaussian of 5 pixels."""
    kernel = torch.exp(-(torch.arange(-2.0, 3.0) ** 2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).expand(3, 1, 5)
    padded = F.pad(image[None], (2, 2, 2, 2), mode="replicate")
    return F.conv2d(F.conv2d(padded, kernel[:, :, None], groups=3), kernel[..., None], groups=3)[0]
