"""Trains a pose network on figures that it draws itself, then looks at new ones with the checkpoint it wrote.

    python tools/finetune_pose.py --output pose.safetensors

Shows what training takes: the processor turns pictures, boxes and keypoints into inputs and labels, the network gives
the loss, and its checkpoint opens wherever one of the official ones does. Without --checkpoint it starts a tiny
network from random weights, which learns in a minute on one core; with one it goes on from that.

A figure is a cloud of 308 coloured dots, one for each keypoint, always in the same arrangement but turned, stretched
and placed at random in front of noise: nothing can be learned by heart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # so that it runs without installing

from sapiens2_core import Estimator, Sapiens2ForPoseEstimation, Sapiens2ImageProcessor  # noqa: E402
from sapiens2_core.config import Sapiens2Config, Sapiens2HeadConfig, tiny_config  # noqa: E402
from sapiens2_core.keypoints import KEYPOINT_NAMES  # noqa: E402

#: (height, width) of the pictures, and of the tiny network's input.
PICTURE_SIZE = (200, 240)
INPUT_SIZE = (128, 96)


def tiny_network() -> Sapiens2ForPoseEstimation:
    """A few layers and a head wide enough for 308 heatmaps of 32 × 24."""
    config: Sapiens2Config = tiny_config("pose", INPUT_SIZE)
    config.hidden_size, config.intermediate_size = 96, 192
    config.num_hidden_layers, config.num_key_value_heads_per_layer = 4, [4, 2, 2, 4]
    config.head_config = Sapiens2HeadConfig(upsample_out_channels=[96, 96], conv_out_channels=[96, 96])
    return Sapiens2ForPoseEstimation(config)


def arrangement() -> np.ndarray:
    """Where the keypoints are in a figure: (308, 2) spread evenly over the unit disc, as seeds in a sunflower."""
    number = np.arange(len(KEYPOINT_NAMES))
    radius, angle = np.sqrt((number + 0.5) / len(number)), number * np.pi * (3 - np.sqrt(5))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def dot_colours() -> list[tuple[int, int, int]]:
    """A colour for each keypoint: red and green say where it is in the figure."""
    x, y = (arrangement().T * 127 + 128).astype(int).tolist()
    return [(red, green, 60) for red, green in zip(x, y, strict=True)]


def draw_figure(random: np.random.Generator) -> tuple[np.ndarray, list[float], np.ndarray]:
    """A figure in front of noise.

    Returns:
        The picture (H, W, 3) uint8; the figure's box x, y, width, height; its keypoints (308, 3) x, y, visibility.
    """
    height, width = PICTURE_SIZE
    angle, (half_width, half_height) = random.uniform(-1.0, 1.0), random.uniform([30, 50], [45, 70])
    turned = (
        arrangement()
        * [half_width, half_height]
        @ [
            [np.cos(angle), np.sin(angle)],
            [-np.sin(angle), np.cos(angle)],
        ]
    )
    low, high = turned.min(axis=0), turned.max(axis=0)
    points = turned - low + random.uniform(0, np.maximum([width, height] - (high - low), 1))
    picture = random.integers(0, 80, (height, width, 3), dtype=np.uint8)
    for (x, y), colour in zip(points.tolist(), dot_colours(), strict=True):
        cv2.circle(picture, (round(x * 16), round(y * 16)), 3 * 16, colour, cv2.FILLED, cv2.LINE_AA, shift=4)
    box = [*points.min(axis=0).tolist(), *(high - low).tolist()]
    return picture, box, np.concatenate([points, np.full((len(points), 1), 2.0)], axis=1)


def draw_batch(processor: Sapiens2ImageProcessor, random: np.random.Generator, size: int) -> dict[str, torch.Tensor]:
    """Inputs and labels of ``size`` new figures."""
    pictures, boxes, keypoints = zip(*(draw_figure(random) for _ in range(size)), strict=True)
    return processor(
        list(pictures),
        boxes=[[box] for box in boxes],
        keypoints=[[points] for points in keypoints],
        return_tensors="pt",
    )


def train(
    model: Sapiens2ForPoseEstimation,
    processor: Sapiens2ImageProcessor,
    random: np.random.Generator,
    steps: int,
    batch_size: int,
    learning_rate: float,
) -> list[float]:
    """Trains ``model`` in place on new figures at each step; returns the loss of each."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps)
    losses = []
    model.train()
    for _ in (progress := tqdm(range(steps), unit="step")):
        inputs = draw_batch(processor, random, batch_size).to(model.device)
        loss = model(**inputs).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.5f}")
    model.eval()
    return losses


def mean_error(estimator: Estimator, random: np.random.Generator, figures: int = 8) -> float:
    """How far found keypoints of new figures are from the drawn ones, in pixels of the picture."""
    pictures, boxes, keypoints = zip(*(draw_figure(random) for _ in range(figures)), strict=True)
    frames = [torch.from_numpy(picture).movedim(-1, 0) for picture in pictures]
    found = [frame for batch in estimator.predict(frames, [[tuple(box)] for box in boxes]) for frame in batch]
    errors = [
        np.linalg.norm(frame.people[0].keypoints.numpy() - points[:, :2], axis=1)
        for frame, points in zip(found, keypoints, strict=True)
    ]
    return float(np.mean(errors))


def main(arguments: Sequence[str] | None = None) -> tuple[list[float], float]:
    """Trains, writes, reads back and measures; returns the losses and the mean error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="checkpoint to write, a .safetensors file")
    parser.add_argument("--checkpoint", type=Path, help="pose checkpoint to start from")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, help="the highest; 0.02, or 0.0001 with --checkpoint")
    parser.add_argument("--sigma", type=float, default=2.0, help="of the target Gaussians, in pixels of the heatmap")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)

    torch.manual_seed(options.seed)
    random = np.random.default_rng(options.seed)
    if options.checkpoint is None:
        model, learning_rate = tiny_network(), 2e-2
    else:
        model, learning_rate = Sapiens2ForPoseEstimation.from_pretrained(options.checkpoint, dtype=torch.float32), 1e-4
    learning_rate = options.learning_rate or learning_rate
    model.to(options.device)
    processor = Sapiens2ImageProcessor(size=model.config.image_height_width, keypoint_heatmap_sigma=options.sigma)

    losses = train(model, processor, random, options.steps, options.batch_size, learning_rate)
    blank = draw_batch(processor, random, options.batch_size)["labels"].square().mean().item()
    model.save_checkpoint(options.output)
    error = mean_error(Estimator.from_checkpoint(options.output, precision="fp32", device=options.device), random)
    last = float(np.mean(losses[-10:]))
    print(f"The loss fell from {losses[0]:.5f} to {last:.5f}; empty heatmaps would have {blank:.5f}.")
    print(f"{options.output}, read back, finds keypoints of new figures {error:.2f} pixels from where they are.")
    return losses, error


if __name__ == "__main__":
    main()
