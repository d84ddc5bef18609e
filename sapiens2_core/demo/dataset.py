"""Mannequins to train on: a data set that is drawn as it is read, the same at every reading."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from .render import render
from .scene import random_scene

#: Seeds of scenes that nothing is ever trained on; :class:`MannequinDataset` begins behind them.
HELD_OUT = range(10_000)


class MannequinDataset(Dataset[dict[str, Tensor]]):
    """Renders by number.

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
    """

    def __init__(self, length: int, size: tuple[int, int] = (256, 192), seed: int = 0) -> None:
        self.length, self.size, self.seed = length, size, seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not 0 <= index < self.length:
            raise IndexError(f"Row {index} of {self.length}.")
        random = np.random.default_rng([self.seed, index])
        scene = HELD_OUT.stop + int(random.integers(2**48))
        picture = render(random_scene(scene, self.size))
        shows = [person for person in range(len(picture.boxes)) if (picture.persons == person + 1).any()]
        person = int(random.choice(shows)) if shows else 0
        visibility = picture.visibility[person, :, None].float()
        return {
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
