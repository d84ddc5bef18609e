"""Trains small networks on mannequins, all six tasks at once, and writes a checkpoint for each.

    python -m tools.train_demo --output build/demo --minutes 120
    python -m tools.train_demo --output build/demo --minutes 120 --resume
    python -m tools.train_demo --output build/demo --minutes 120 --start sapiens2_core/demo/weights

The networks have every part of the real ones, but one backbone serves all tasks while they learn; each checkpoint
gets its own copy. They know mannequins alone: nothing here replaces Sapiens2's weights.

The first start draws the pictures, which takes minutes (:mod:`tools.demo_pool`). An interrupted run goes on from its
last saved state as if nothing had happened, since the pictures of a step follow from its number. With ``--start``,
networks begin as those in a folder, which makes better ones of the package's own; another ``--seed`` then shows them
pictures that they don't know.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from sapiens2_core.body_parts import BODY_PARTS
from sapiens2_core.checkpoint import load
from sapiens2_core.config import Sapiens2Config, Sapiens2HeadConfig
from sapiens2_core.demo.checkpoints import checkpoint_name, demo_tasks
from sapiens2_core.estimators import build
from sapiens2_core.files import replacing
from sapiens2_core.heatmap_targets import keypoints_to_heatmaps
from sapiens2_core.image_processor import IMAGE_MEAN, IMAGE_STD
from sapiens2_core.keypoints import FLIP_PAIRS, KEYPOINT_NAMES
from sapiens2_core.losses import albedo_loss, heatmap_loss, matting_loss, normal_loss, pointmap_loss
from sapiens2_core.precision import cpu_computes_bf16
from sapiens2_core.tasks import TASKS
from tools.demo_pool import TrainingRows, batches, open_pool

TASK_NAMES = demo_tasks()

#: What each task's loss counts, so that none of them drowns the others: about one over its value after minutes.
LOSS_WEIGHTS = {"pose": 600.0, "seg": 1.0, "normal": 1.5, "pointmap": 3.0, "matting": 3.0, "albedo": 4.0}

#: Sigma of the target Gaussians in pixels of a heatmap as wide as 1/4 of the input: the authors' 6 of 192, in
#: proportion.
SIGMA = 1.5

#: Weights of keypoints: the 21 of the body and feet, neck and wrists; fingers; the many of the face.
_BODY, _HAND, _FACE = 4.0, 1.0, 0.5
#: And of those that don't show, whose heatmaps are to stay empty.
_HIDDEN = 0.1

#: What heads give on average, which they begin with: points metres before a canonical camera, a grey albedo,
#: a quarter of the picture covered (before the sigmoid).
_USUAL = {"pointmap": (0.0, 0.0, 1.3), "albedo": 0.45, "matting": -1.0}


@dataclass(frozen=True)
class Shape:
    """Of the networks; the defaults make 4 MB of each task's checkpoint."""

    size: tuple[int, int] = (192, 144)
    patch_size: int = 8
    hidden_size: int = 128
    intermediate_size: int = 256
    layers: int = 8
    full_layers: int = 3  # at each end; between them grouped-query attention
    attention_heads: int = 4
    head_width: int = 64  # channels after the first upsampling of the heads
    stride: int = 2  # pixels of the picture to one of the maps; heatmaps have 4 anyway


def network_config(task: str, shape: Shape) -> Sapiens2Config:
    """The configuration of a task's network: heads narrow with each doubling of their resolution, as the authors'."""
    doublings = int(math.log2(shape.patch_size / shape.stride))
    widths = [max(16, shape.head_width >> step) for step in range(doublings)]
    if task == "pose":
        head = {"upsample_out_channels": [96] * int(math.log2(shape.patch_size / 4)), "conv_out_channels": [96]}
    elif task == "seg":
        widths = [max(24, width) for width in widths]
        head = {"upsample_out_channels": widths, "conv_out_channels": [widths[-1]]}
    else:
        head = {
            "upsample_out_channels": widths,
            "upsample_kernel_sizes": [3] * doublings,
            "use_pixel_shuffle": True,
            "conv_out_channels": [widths[-1]],
            "conv_kernel_sizes": [3],
            "use_rms_norm": task == "albedo",
        }
    if task == "pointmap":
        head |= {"scale_conv_out_channels": [64, 16], "scale_final_hidden_sizes": [64, 32]}
    return Sapiens2Config(
        image_size=list(shape.size),
        patch_size=shape.patch_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.attention_heads,
        num_key_value_attention_heads=shape.attention_heads // 2,
        num_first_full_attention_layers=shape.full_layers,
        num_last_full_attention_layers=shape.full_layers,
        pos_embed_rescale=None,  # inputs of one size only: no use in learning others
        head_config=Sapiens2HeadConfig(**head),
        num_labels=TASKS[task].num_labels,
        flip_pairs=FLIP_PAIRS if task == "pose" else None,
        architectures=[TASKS[task].estimator],
    )


class Networks(nn.Module):
    """An estimator for each task; they share one backbone."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.by_task = nn.ModuleDict({task: build(network_config(task, shape), task) for task in TASK_NAMES})
        for task, estimator in self.by_task.items():
            estimator.model = self.by_task["pose"].model
            # The usual first weights of so few outputs are large: steps would go into making them small.
            nn.init.trunc_normal_(estimator.decode_head.predictor.weight, std=0.02)
            bias = estimator.decode_head.predictor.bias
            nn.init.constant_(bias, 0.0)
            with torch.no_grad():
                bias += torch.tensor(_USUAL.get(task, 0.0))
        scale = self.by_task["pointmap"].scale_head.predictor.proj
        nn.init.trunc_normal_(scale.weight, std=0.02)
        nn.init.constant_(scale.bias, 0.8)

    def forward(self, images: Tensor, crops: Tensor) -> dict[str, Tensor]:
        """What each head gives: pose of ``crops``, the others of ``images``, both (B, 3, H, W) normalised."""
        backbone = self.by_task["pose"].model
        pixel_values = torch.cat([images, crops])
        features = backbone.feature_map(backbone(pixel_values).last_hidden_state, pixel_values.shape[2])
        whole, people = features[: len(images)], features[len(images) :]
        outputs = {
            task: estimator.decode_head(people if task == "pose" else whole) for task, estimator in self.by_task.items()
        }
        outputs["scale"] = self.by_task["pointmap"].scale_head(whole)
        return {name: output.float() for name, output in outputs.items()}


def keypoint_weights() -> Tensor:
    """(308,) what each keypoint's heatmap counts."""
    fingers = ("thumb", "forefinger", "middle_finger", "ring_finger", "pinky_finger")
    weights = torch.full((len(KEYPOINT_NAMES),), _FACE)
    for index, name in enumerate(KEYPOINT_NAMES):
        if any(finger in name for finger in fingers):
            weights[index] = _HAND
        if index <= 20 or name in ("neck", "left_wrist", "right_wrist"):
            weights[index] = _BODY
    return weights


def class_weights(pool: np.ndarray) -> Tensor:
    """(29,) what a pixel of each body part counts: one over the root of how often it occurs, mean over pixels 1."""
    every = max(1, len(pool) // 200)
    counts = np.bincount(pool["labels"][::every].ravel(), minlength=len(BODY_PARTS)) + 1.0
    weights = (counts.sum() / counts) ** 0.5
    weights = np.minimum(weights, 60 * weights[0])
    return torch.tensor(weights * counts.sum() / (weights * counts).sum(), dtype=torch.float32)


def shares(labels: Tensor, stride: int) -> Tensor:
    """(B, 29, H, W) how much of each pixel each body part has, where ``labels`` has ``stride`` pixels for one."""
    height, width = labels.shape[-2] // stride, labels.shape[-1] // stride
    found = torch.zeros(len(labels), len(BODY_PARTS), height, width)
    each = torch.full((len(labels), 1, height, width), 1 / stride**2)
    for y, x in itertools.product(range(stride), repeat=2):
        found.scatter_add_(1, labels[:, None, y::stride, x::stride], each)
    return found


def losses(outputs: dict[str, Tensor], rows: dict[str, Tensor], part_weights: Tensor) -> dict[str, Tensor]:
    """Each task's loss of a batch."""
    mask = rows["mask"]
    size = tuple(rows["image"].shape[-2:])
    factor = size[0] // outputs["pose"].shape[-2]
    heatmaps, visible = keypoints_to_heatmaps(rows["keypoints"], rows["box"], size, factor, SIGMA * 4 / factor)
    heatmap_weights = keypoint_weights() * torch.where(visible > 0, 1.0, _HIDDEN)
    stride = size[0] // outputs["seg"].shape[-2]
    canonical = size[1] / rows["focal_length"]
    matte = outputs["matting"].sigmoid()
    return {
        "pose": heatmap_loss(outputs["pose"], heatmaps, heatmap_weights),
        "seg": F.cross_entropy(outputs["seg"], shares(rows["labels"].long(), stride), part_weights),
        "normal": normal_loss(outputs["normal"], rows["normals"], mask),
        "pointmap": pointmap_loss(
            outputs["pointmap"], rows["points"] * canonical[:, None, None, None], outputs["scale"], canonical, mask
        ),
        "matting": matting_loss(matte[:, 3:], matte[:, :3], torch.cat([rows["foreground"], rows["alpha"]], dim=1)),
        "albedo": albedo_loss(outputs["albedo"], rows["albedo"], mask),
    }


def normalised(images: Tensor) -> Tensor:
    """(B, 3, H, W) 0..1 as networks take them; renders have the native size, so nothing is resized or padded."""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (IMAGE_MEAN, IMAGE_STD))
    return (images - mean) / std


class Training:
    """Networks, their running average, which is what is exported, and how far they are.

    Attributes:
        step: steps done.
        seconds: of training done, over all runs.
    """

    def __init__(self, shape: Shape, learning_rate: float, seed: int) -> None:
        torch.manual_seed(seed)
        self.networks = Networks(shape)
        self.average = copy.deepcopy(self.networks).requires_grad_(False)
        matrices = [parameter for parameter in self.networks.parameters() if parameter.ndim > 1]
        vectors = [parameter for parameter in self.networks.parameters() if parameter.ndim <= 1]
        self.optimiser = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.02}, {"params": vectors, "weight_decay": 0.0}],
            lr=learning_rate,
            betas=(0.9, 0.99),
            fused=True,
        )
        self.learning_rate, self.seed = learning_rate, seed
        self.step, self.seconds = 0, 0.0

    def advance(self, rows: dict[str, Tensor], part_weights: Tensor, progress: float) -> dict[str, float]:
        """One step.

        Args:
            rows: a batch of :class:`~tools.demo_pool.TrainingRows`.
            part_weights: of :func:`class_weights`.
            progress: 0..1, how much of the schedule is over.

        Returns:
            Each task's loss, unweighted.
        """
        warmth = min(1.0, (self.step + 1) / 100)
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate * warmth * (0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * progress)))
        with torch.autocast("cpu", torch.bfloat16, enabled=cpu_computes_bf16()):
            outputs = self.networks(normalised(rows["image"]), normalised(rows["crop"]))
        found = losses(outputs, rows, part_weights)
        self.optimiser.zero_grad()
        sum(LOSS_WEIGHTS[task] * loss for task, loss in found.items()).backward()
        nn.utils.clip_grad_norm_(self.networks.parameters(), 3.0)
        self.optimiser.step()
        # Young networks change fast: their average begins short and grows to a thousand steps.
        weight = max(0.001, 9 / (10 + self.step))
        with torch.no_grad():
            for mean, current in zip(self.average.parameters(), self.networks.parameters(), strict=True):
                mean.lerp_(current, weight)
        self.step += 1
        return {task: loss.item() for task, loss in found.items()}

    def save(self, path: Path) -> None:
        """Writes everything that :meth:`restore` needs; an older state is replaced at once."""
        state = {name: getattr(self, name).state_dict() for name in ("networks", "average", "optimiser")}
        with replacing(path) as temporary:
            torch.save(state | {"step": self.step, "seconds": self.seconds}, temporary)

    def restore(self, path: Path) -> None:
        """Goes on from a saved state."""
        state = torch.load(path, weights_only=True)
        for name in ("networks", "average", "optimiser"):
            getattr(self, name).load_state_dict(state[name])
        self.step, self.seconds = state["step"], state["seconds"]

    def start_from(self, folder: Path) -> None:
        """Takes the weights of exported checkpoints of the same shape."""
        for networks in (self.networks, self.average):
            for task, estimator in networks.by_task.items():
                estimator.load_state_dict(load(folder / checkpoint_name(task), dtype=torch.float32).state_dict())

    def export(self, folder: Path) -> list[Path]:
        """Writes the averaged networks, one fp16 checkpoint a task, in the authors' layout."""
        paths = []
        for task, estimator in self.average.by_task.items():
            paths.append(folder / checkpoint_name(task))
            copy.deepcopy(estimator).half().save_checkpoint(paths[-1])
        return paths


def report(means: dict[str, list[float]], training: Training, images_per_second: float) -> str:
    """A line of mean losses, and empties ``means``."""
    line = "  ".join(f"{task} {np.mean(values):.4f}" for task, values in means.items())
    means.clear()
    minutes = training.seconds / 60
    return f"step {training.step}, {minutes:.1f} minutes, {images_per_second:.1f} images/s: {line}"


def train(training: Training, pool: np.ndarray, options: argparse.Namespace) -> None:
    """Runs until the minutes or steps are over, saving the state and printing losses now and then."""
    state = options.output / "state.pt"
    part_weights = class_weights(pool)
    rows: Iterator[dict[str, Tensor]] = batches(
        TrainingRows(pool, options.seed, options.stride), training.step, options.batch_size, options.workers
    )

    def progress() -> float:
        done = training.step / options.steps if options.steps else training.seconds / 60 / options.minutes
        return min(done, 1.0)

    means: dict[str, list[float]] = defaultdict(list)
    bar = tqdm(total=100, unit="%", bar_format="{l_bar}{bar}| [{elapsed}<{remaining}{postfix}]")
    since = time.perf_counter(), training.step
    while progress() < 1:
        start = time.perf_counter()
        for task, loss in training.advance(next(rows), part_weights, progress()).items():
            means[task].append(loss)
        training.seconds += time.perf_counter() - start
        bar.update(100 * progress() - bar.n)
        if training.step % options.report_every == 0 or progress() == 1:
            elapsed = time.perf_counter() - since[0]
            speed = (training.step - since[1]) * options.batch_size / elapsed
            bar.write(report(means, training, speed))
            since = time.perf_counter(), training.step
        if training.step % options.save_every == 0:
            training.save(state)
    bar.close()
    training.save(state)


def main(arguments: Sequence[str] | None = None) -> Training:
    """Draws the pool, trains, exports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the state and the checkpoints")
    parser.add_argument("--pool", type=Path, help="folder of the drawn pictures; in --output by default")
    parser.add_argument("--rows", type=int, default=6000, help="pictures to draw, 0.45 MB each")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=120.0, help="of training in all, resumed runs included")
    length.add_argument("--steps", type=int, help="of training in all, instead of minutes")
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--resume", action="store_true", help="go on from the state in --output")
    start.add_argument("--start", type=Path, metavar="FOLDER", help="begin with the checkpoints in a folder")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=2.5e-3)
    parser.add_argument("--workers", type=int, default=0, help="processes that prepare batches beside the training")
    parser.add_argument("--save-every", type=int, default=500, help="steps")
    parser.add_argument("--report-every", type=int, default=100, help="steps")
    parser.add_argument("--seed", type=int, default=0)
    defaults = Shape()
    sides = ("patch_size", "hidden_size", "intermediate_size", "layers", "full_layers", "head_width", "stride")
    for name in sides:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(defaults, name))
    parser.add_argument("--size", type=int, nargs=2, metavar=("HEIGHT", "WIDTH"), default=defaults.size)
    options = parser.parse_args(arguments)

    shape = Shape(size=tuple(options.size), **{name: getattr(options, name) for name in sides})
    options.output.mkdir(parents=True, exist_ok=True)
    pool = open_pool(options.pool or options.output, options.rows, shape.size, options.seed, max(options.workers, 2))
    training = Training(shape, options.learning_rate, options.seed)
    if options.resume:
        training.restore(options.output / "state.pt")
    elif options.start:
        training.start_from(options.start)
    train(training, pool, options)
    for path in training.export(options.output):
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")
    return training


if __name__ == "__main__":
    main()
