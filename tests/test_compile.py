"""Every network is one graph to torch.compile, in inference and in training."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from sapiens2_core.compilation import compile_parts
from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import MODEL_CLASSES, build
from sapiens2_core.pretrained import Sapiens2PreTrainedModel
from sapiens2_core.tasks import TASKS

PIXELS = torch.randn(2, 3, 128, 96, generator=torch.Generator().manual_seed(1))
LABELS = {
    "pose": {"labels": torch.ones(2, 308, 32, 24), "label_weights": torch.ones(2, 308)},
    "seg": {"labels": torch.ones(2, 128, 96, dtype=torch.int64)},
    "normal": {"labels": torch.ones(2, 3, 128, 96), "valid_mask": torch.ones(2, 128, 96)},
    "pointmap": {"labels": torch.ones(2, 3, 128, 96), "scale_labels": torch.ones(2)},
    "matting": {"labels": torch.ones(2, 4, 128, 96), "valid_mask": torch.ones(2, 1, 128, 96)},
    "albedo": {"labels": torch.ones(2, 3, 128, 96)},
}
NETWORKS = [task.estimator for task in TASKS.values()] + ["Sapiens2Backbone"]


def network(class_name: str) -> Sapiens2PreTrainedModel:
    """Two layers, the second of grouped queries: a graph grows with every layer, and so does the time."""
    task = next((task.name for task in TASKS.values() if task.estimator == class_name), "pretrain")
    config = dataclasses.replace(
        tiny_config(task),
        num_hidden_layers=2,
        num_key_value_heads_per_layer=[4, 2],
        out_features=None,
        out_indices=[1, 2],
    )
    torch.manual_seed(0)
    return MODEL_CLASSES[class_name](config)


#: Without compiling, inference on a CPU may take other kernels (sapiens2_core/onednn.py).
NEAR = {"rtol": 1e-4, "atol": 2e-5}


def tensors(outputs) -> list[Tensor]:
    """All tensors of an output, those in tuples too."""
    values = [getattr(outputs, field.name) for field in dataclasses.fields(outputs)]
    flat = [part for value in values for part in (value if isinstance(value, tuple) else [value])]
    return [part for part in flat if part is not None]


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch._dynamo.reset()


@pytest.mark.parametrize("class_name", NETWORKS)
def test_inference_is_one_graph(class_name):
    model = network(class_name).eval()
    with torch.inference_mode():
        expected = model(PIXELS)
        actual = torch.compile(model, fullgraph=True, backend="eager")(PIXELS)
    assert type(actual) is type(expected)
    for ours, theirs in zip(tensors(actual), tensors(expected), strict=True):
        torch.testing.assert_close(ours, theirs, **NEAR)


@pytest.mark.parametrize("task", LABELS)
def test_training_is_one_graph(task):
    """With a loss, recomputation and random positions; for two, ahead-of-time autograd traces the way back too."""
    model = network(TASKS[task].estimator).train()
    model.gradient_checkpointing_enable()
    backend = "aot_eager" if task in ("seg", "pointmap") else "eager"
    losses = []
    for run in (model, torch.compile(model, fullgraph=True, backend=backend)):
        model.zero_grad()
        torch.manual_seed(3)
        loss = run(PIXELS, **LABELS[task]).loss
        loss.backward()
        losses.append((loss.detach(), model.model.norm.weight.grad.clone()))
    assert losses[0][1].norm() > 0
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-6)


def test_what_can_be_asked_of_a_backbone_is_one_graph():
    model = network("Sapiens2Backbone").eval()
    requests = {"return_class_token": True, "output_hidden_states": True, "output_attentions": True}
    with torch.inference_mode():
        expected = model(PIXELS, **requests)
        actual = torch.compile(model, fullgraph=True, backend="eager")(PIXELS, **requests)
    assert isinstance(actual, type(expected))
    assert [len(part) for part in (actual.cls_tokens, actual.hidden_states, actual.attentions)] == [2, 3, 2]
    for ours, theirs in zip(tensors(actual), tensors(expected), strict=True):
        torch.testing.assert_close(ours, theirs, **NEAR)


def test_mirrored_and_masked_inputs_are_one_graph():
    pose, bare = network("Sapiens2ForPoseEstimation").eval(), network("Sapiens2Model")
    pairs = torch.tensor(pose.config.flip_pairs)
    masked = MODEL_CLASSES["Sapiens2Model"](dataclasses.replace(bare.config, use_mask_token=True)).eval()
    mask = torch.arange(48).expand(2, -1) % 2 == 0
    with torch.inference_mode():
        flipped = torch.compile(pose, fullgraph=True, backend="eager")(PIXELS, flip_pairs=pairs)
        hidden = torch.compile(masked, fullgraph=True, backend="eager")(PIXELS, bool_masked_pos=mask)
        torch.testing.assert_close(flipped.heatmaps, pose(PIXELS, flip_pairs=pairs).heatmaps, **NEAR)
        expected = masked(PIXELS, bool_masked_pos=mask).last_hidden_state
        torch.testing.assert_close(hidden.last_hidden_state, expected, **NEAR)


@pytest.mark.parametrize("task", ["normal", "seg", "pointmap"])
def test_a_network_compiled_in_parts_has_one_graph_for_each_kind_of_part(task):
    torch.manual_seed(0)
    model = build(tiny_config(task), task).eval()
    graphs = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[Tensor]):
        graphs.append(graph)
        return graph.forward

    with torch.no_grad():
        expected = model(PIXELS)
        names = list(model.state_dict())
        compile_parts(model, backend)
        actual = model(PIXELS)
    assert len(graphs) == (4 if task == "pointmap" else 3)  # 18 layers, some of grouped queries; one head or two
    assert list(model.state_dict()) == names
    for ours, theirs in zip(tensors(actual), tensors(expected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4 * theirs.std().item())
