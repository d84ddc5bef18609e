"""Mannequins drawn once, kept on disk and looked at many times: each time mirrored or not, in other light and colours.

A picture takes longer to draw than a small network takes to learn from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from sapiens2_core.body_parts import BODY_PARTS
from sapiens2_core.crops import Size, crop_and_resize
from sapiens2_core.demo import MannequinDataset
from sapiens2_core.keypoints import FLIP_INDICES

_PART_IDS = {part.name: part.id for part in BODY_PARTS}

#: (29,) uint8, id of each body part's mirror image.
FLIP_LABELS = torch.tensor(
    [_PART_IDS[name.replace("Left_", "\0").replace("Right_", "Left_").replace("\0", "Right_")] for name in _PART_IDS],
    dtype=torch.uint8,
)


def record_type(size: Size) -> np.dtype:
    """How a row lies on disk: bytes for what is 0..1, −127..127 for normals, depth alone for points."""
    return np.dtype(
        [
            ("image", "u1", (3, *size)),
            ("foreground", "u1", (3, *size)),
            ("albedo", "u1", (3, *size)),
            ("alpha", "u1", (1, *size)),
            ("labels", "u1", size),
            ("normals", "i1", (3, *size)),
            ("depth", "f2", size),
            ("keypoints", "f4", (308, 3)),
            ("box", "f4", (4,)),
            ("focal_length", "f4"),
            ("is_drawn", "u1"),
        ]
    )


def pack(row: dict[str, Tensor], target: np.ndarray | np.void) -> None:
    """Writes a row of :class:`~sapiens2_core.demo.MannequinDataset` to a record."""
    for name in ("image", "foreground", "albedo", "alpha"):
        target[name] = (row[name].clamp(0, 1) * 255).round()
    target["labels"] = row["labels"]
    target["normals"] = (row["normals"] * 127).round()
    target["depth"] = row["points"][2]
    for name in ("keypoints", "box", "focal_length"):
        target[name] = row[name]
    target["is_drawn"] = 1


def unpack(record: np.ndarray) -> dict[str, Tensor]:
    """The row of a record, as the data set gave it but for rounding."""
    row = {name: torch.from_numpy(record[name].astype(np.float32)) / 255 for name in ("image", "foreground")}
    row |= {name: torch.from_numpy(record[name].astype(np.float32)) / 255 for name in ("albedo", "alpha")}
    row["labels"] = torch.from_numpy(record["labels"].copy())
    row["normals"] = F.normalize(torch.from_numpy(record["normals"].astype(np.float32)), dim=0)
    row["keypoints"], row["box"] = torch.from_numpy(record["keypoints"].copy()), torch.from_numpy(record["box"].copy())
    row["focal_length"] = torch.tensor(float(record["focal_length"]))
    depth = torch.from_numpy(record["depth"].astype(np.float32))
    height, width = depth.shape
    y, x = torch.meshgrid(torch.arange(height) - (height - 1) / 2, torch.arange(width) - (width - 1) / 2, indexing="ij")
    row["points"] = torch.stack([x / row["focal_length"], y / row["focal_length"], torch.ones_like(x)]) * depth
    return row


class _Records(Dataset[np.ndarray]):
    """Rows as the bytes of their records: packed by the processes that draw them, so that the first only writes."""

    def __init__(self, pictures: MannequinDataset, size: Size) -> None:
        self.pictures, self.dtype = pictures, record_type(size)

    def __getitem__(self, index: int) -> np.ndarray:
        record = np.zeros(1, self.dtype)
        pack(self.pictures[index], record[0])
        return record.view(np.uint8)


def open_pool(folder: Path, rows: int, size: Size, seed: int = 0, workers: int = 2) -> np.ndarray:
    """Draws what ``folder`` lacks of the rows, and maps them.

    Returns:
        (rows,) records of :func:`record_type`, on disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"mannequins_{size[0]}x{size[1]}_seed{seed}_{rows}.npy"
    if not path.exists():
        np.lib.format.open_memmap(path, "w+", record_type(size), (rows,)).flush()
    pool = np.lib.format.open_memmap(path, "r+")
    missing = np.flatnonzero(pool["is_drawn"] == 0).tolist()
    if missing:
        records = _Records(MannequinDataset(rows, size, seed), size)
        loader = DataLoader(records, batch_size=None, sampler=missing, num_workers=workers)
        for index, record in zip(missing, tqdm(loader, "drawing mannequins", unit="row"), strict=True):
            pool[index : index + 1] = record.numpy().view(pool.dtype)
        pool.flush()
    return np.load(path, mmap_mode="r")


def shrunk(row: dict[str, Tensor], stride: int) -> dict[str, Tensor]:
    """The row with maps as small as the networks give them, and ``mask`` (1, H, W), where more than half is people.

    Each pixel is the mean of ``stride`` × ``stride`` ones: of all for colours and alpha, of those on people for normals
    and points and albedo. The picture and the labels stay as they are.
    """

    def mean(values: Tensor) -> Tensor:
        return F.avg_pool2d(values, stride)

    people = (row["labels"] > 0).float()[None]
    share = mean(people)
    small = {name: mean(row[name]) for name in ("foreground", "alpha")}
    small |= {name: mean(row[name] * people) / share.clamp(min=1e-6) for name in ("normals", "points", "albedo")}
    small["normals"] = F.normalize(small["normals"], dim=0)
    return row | small | {"mask": share > 0.5}


def flipped(row: dict[str, Tensor]) -> dict[str, Tensor]:
    """The row of the mirrored scene: left parts and keypoints are right ones, x of normals and points turns round."""
    width = row["image"].shape[-1]
    maps = ("image", "foreground", "albedo", "alpha", "mask", "labels", "normals", "points")
    mirrored = {name: row[name].flip(-1) for name in maps if name in row}
    mirrored["labels"] = FLIP_LABELS[mirrored["labels"].long()]
    turn = torch.tensor([-1.0, 1.0, 1.0])[:, None, None]
    mirrored["normals"], mirrored["points"] = mirrored["normals"] * turn, mirrored["points"] * turn
    keypoints = row["keypoints"][list(FLIP_INDICES)]
    mirrored["keypoints"] = torch.cat([width - 1 - keypoints[:, :1], keypoints[:, 1:]], dim=1)
    x, y, box_width, box_height = row["box"]
    mirrored["box"] = torch.stack([width - 1 - x - box_width, y, box_width, box_height])
    return row | mirrored


def photographed(row: dict[str, Tensor], random: np.random.Generator) -> dict[str, Tensor]:
    """The row as another camera takes it: exposure, cast, contrast, blur and noise.

    The foreground changes with the picture but for blur and noise; everything else stays true.
    """
    contrast = float(np.exp(random.normal(0, 0.1)))
    gain = np.exp(random.normal(0, 0.04, 3) + random.normal(0, 0.1)) * contrast
    gain, bias = torch.tensor(gain, dtype=torch.float32)[:, None, None], 0.5 * (1 - contrast)
    # A linear change of the picture is the same change of the foreground where it covers the pixel.
    image, foreground = row["image"] * gain + bias, row["foreground"] * gain + bias * row["alpha"]
    if random.random() < 0.3:
        image = _blurred(image, float(random.uniform(0.3, 1.0)))
    noise = torch.from_numpy(random.standard_normal(image.shape, dtype=np.float32))
    image = image + noise * float(abs(random.normal(0, 0.015)))
    return row | {
        "image": image.clamp(0, 1),
        "foreground": torch.minimum(foreground.clamp(min=0), row["alpha"]),
    }


def _blurred(image: Tensor, sigma: float) -> Tensor:
    """(3, H, W) smoothed by a Gaussian of 5 pixels."""
    kernel = torch.exp(-(torch.arange(-2.0, 3.0) ** 2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).expand(3, 1, 5)
    padded = F.pad(image[None], (2, 2, 2, 2), mode="replicate")
    return F.conv2d(F.conv2d(padded, kernel[:, :, None], groups=3), kernel[..., None], groups=3)[0]


class TrainingRows(Dataset[dict[str, Tensor]]):
    """What training sees, by position: the pool shuffled anew in every epoch, augmented, with a crop of one person.

    A position's row depends on ``seed`` and the position alone, so training goes on at any.

    Each row is one of :class:`~sapiens2_core.demo.MannequinDataset` and ``crop`` (3, H, W), as the processor crops by
    ``box``, which is a little off as a detector's would be. Where no person shows, the box is the frame.
    """

    def __init__(self, pool: np.ndarray, seed: int, stride: int) -> None:
        self.pool, self.seed, self.stride = pool, seed, stride

    def index(self, position: int) -> int:
        """Which row of the pool is seen at a position."""
        epoch, place = divmod(position, len(self.pool))
        return int(np.random.default_rng([self.seed, epoch, 0]).permutation(len(self.pool))[place])

    def __getitem__(self, position: int) -> dict[str, Tensor]:
        random = np.random.default_rng([self.seed, position, 1])
        row = shrunk(unpack(self.pool[self.index(position)]), self.stride)
        if random.random() < 0.5:
            row = flipped(row)
        row = photographed(row, random)
        row["box"] = _jittered(row["box"], row["image"].shape[-2:], random)
        row["crop"] = crop_and_resize(row["image"], row["box"][None], tuple(row["image"].shape[-2:]))[0]
        return row


def _jittered(box: Tensor, size: Size, random: np.random.Generator) -> Tensor:
    if (box[2:] < 2).any():
        return torch.tensor([0.0, 0.0, size[1] - 1, size[0] - 1])
    center, extent = box[:2] + box[2:] / 2, box[2:]
    shift, growth = random.normal(0, 0.03, 2), np.exp(random.normal(0, 0.06, 2))
    center = center + extent * torch.tensor(shift, dtype=torch.float32)
    extent = extent * torch.tensor(growth, dtype=torch.float32)
    return torch.cat([center - extent / 2, extent])


def batches(rows: TrainingRows, first_step: int, batch_size: int, workers: int) -> Iterator[dict[str, Tensor]]:
    """Batches without end, from a step onwards."""
    ahead = 1_000_000 * batch_size
    positions = range(first_step * batch_size, first_step * batch_size + ahead)
    return iter(DataLoader(rows, batch_size, sampler=positions, num_workers=workers, drop_last=True))
