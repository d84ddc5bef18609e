"""The fine-tuning tool: a short run learns, and its checkpoint opens like any other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from sapiens2_core import Estimator, Sapiens2ImageProcessor

TOOL = Path(__file__).parent.parent / "tools" / "finetune_pose.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("finetune_pose", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_drawn_keypoints_lie_on_their_dots(tool):
    picture, box, keypoints = tool.draw_figure(np.random.default_rng(0))
    colours = np.array(tool.dot_colours())
    x, y = keypoints[:, :2].T.round().astype(int)
    # Later dots cover earlier ones; the last are seen, but for the edges of each other, whose colours are near.
    seen = np.abs(picture[y[-100:], x[-100:]].astype(int) - colours[-100:]).max(axis=1) <= 12
    assert seen.mean() > 0.9
    assert keypoints[:, :2].min(axis=0).tolist() == pytest.approx(box[:2])
    assert keypoints[:, :2].max(axis=0).tolist() == pytest.approx([box[0] + box[2], box[1] + box[3]])


def test_a_short_run_learns_and_its_checkpoint_loads(tool, tmp_path, capsys):
    path = tmp_path / "pose.safetensors"
    losses, _ = tool.main(["--output", str(path), "--steps", "50", "--batch-size", "2"])
    assert np.mean(losses[-5:]) < losses[0] / 10
    assert "The loss fell from" in capsys.readouterr().out

    estimator = Estimator.from_checkpoint(path, precision="fp32", device="cpu")
    assert estimator.task.name == "pose"
    picture, box, _ = tool.draw_figure(np.random.default_rng(1))
    frame = torch.from_numpy(picture).movedim(-1, 0)
    (found,) = next(iter(estimator.predict([frame], [[tuple(box)]])))
    assert found.people[0].keypoints.shape == (308, 2)

    # A run goes on from its own checkpoint where it stood, not from the start.
    more, _ = tool.main(["--output", str(path), "--checkpoint", str(path), "--steps", "2", "--batch-size", "2"])
    assert more[0] < losses[0] / 8


def test_one_seed_draws_one_run(tool, tmp_path):
    runs = [
        tool.main(["--output", str(tmp_path / "a.safetensors"), "--steps", "2", "--batch-size", "1"])[0]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_the_processors_labels_go_into_the_network_as_they_are(tool):
    processor = Sapiens2ImageProcessor(size=tool.INPUT_SIZE)
    inputs = tool.draw_batch(processor, np.random.default_rng(0), 2)
    model = tool.tiny_network()
    outputs = model(**inputs)
    assert outputs.heatmaps.shape == inputs["labels"].shape
    weights = inputs["label_weights"][..., None, None].expand_as(inputs["labels"])
    expected = ((outputs.heatmaps - inputs["labels"]) ** 2 * weights).sum() / weights.sum()
    torch.testing.assert_close(outputs.loss, expected)
