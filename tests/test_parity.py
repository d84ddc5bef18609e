"""Every task against transformers in fp32, from either layout, over the sizes that people feed."""

from __future__ import annotations

import pytest
import torch

from sapiens2_core.backbone import Sapiens2Backbone
from sapiens2_core.checkpoint import inspect, load
from tests.reference import OUTPUT_FIELDS, REFERENCE_TASKS, saved_reference

SIZES = [(1024, 768), (768, 1024), (512, 384), (208, 144), (112, 240)]


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """The largest difference is at most 1e-4 of the reference's standard deviation."""
    scale = expected.std().item() if expected.numel() > 1 else expected.abs().item()
    assert scale > 0
    assert (actual - expected).abs().max().item() <= 1e-4 * scale


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("task", REFERENCE_TASKS)
def test_outputs_equal_transformers(task, size, tmp_path):
    reference, folder = saved_reference(tmp_path, task, "original", size)
    model = load(folder)
    pixel_values = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))

    with torch.no_grad():
        for batch in (pixel_values[:1], pixel_values):
            expected, actual = reference(batch), model(batch)
            for field in OUTPUT_FIELDS[task]:
                assert_same(getattr(actual, field), getattr(expected, field))


@pytest.mark.parametrize("task", REFERENCE_TASKS)
def test_both_layouts_hold_the_same_network(task, tmp_path):
    _, original = saved_reference(tmp_path / "original", task, "original")
    _, renamed = saved_reference(tmp_path / "transformers", task, "transformers")
    state, other = load(original).state_dict(), load(renamed).state_dict()

    assert inspect(original).layout == "original"
    assert inspect(renamed).layout == "transformers"
    assert state.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in state.items())


def test_networks_have_grouped_query_layers(tmp_path):
    reference, folder = saved_reference(tmp_path, "pretrain", "original")
    heads = load(folder).config.num_key_value_heads_per_layer
    assert heads == reference.config.num_key_value_heads_per_layer
    assert set(heads) == {2, 4}


def test_parameter_names_are_transformers(tmp_path):
    for task in REFERENCE_TASKS:
        reference, folder = saved_reference(tmp_path / task, task, "original")
        state = {name: tensor.shape for name, tensor in load(folder).state_dict().items()}
        assert state == {name: tensor.shape for name, tensor in reference.state_dict().items()}


@pytest.mark.parametrize("normalize", [True, False])
def test_backbone_stages_equal_transformers(normalize, tmp_path):
    import transformers

    reference, folder = saved_reference(tmp_path, "pretrain", "original")
    reference = transformers.Sapiens2Backbone.from_pretrained(
        folder, out_indices=[0, 9, 18], normalize_backbone_outputs=normalize
    ).eval()
    model = Sapiens2Backbone.from_pretrained(folder)
    model.config.out_indices = [0, 9, 18]
    model.config.normalize_backbone_outputs = normalize
    pixel_values = torch.randn(2, 3, 128, 96, generator=torch.Generator().manual_seed(1))

    with torch.no_grad():
        expected = reference(pixel_values)
        actual = model(pixel_values, return_class_token=True)

    assert len(actual.feature_maps) == len(expected.feature_maps) == 3
    for ours, theirs in zip(actual.feature_maps, expected.feature_maps, strict=True):
        assert ours.shape == (2, 32, 8, 6)
        assert_same(ours, theirs)
    # transformers gives no CLS tokens on request, so they are compared with the bare network's.
    with torch.no_grad():
        pooled = transformers.Sapiens2Model.from_pretrained(folder)(pixel_values).pooler_output
    if normalize:
        assert_same(actual.cls_tokens[-1], pooled)
    assert [token.shape for token in actual.cls_tokens] == [(2, 32)] * 3


def test_hidden_states_and_attentions_equal_transformers(tmp_path):
    reference, folder = saved_reference(tmp_path, "normal", "original")
    reference.set_attn_implementation("eager")
    pixel_values = torch.randn(1, 3, 128, 96, generator=torch.Generator().manual_seed(1))
    requests = {"output_hidden_states": True, "output_attentions": True}

    with torch.no_grad():
        expected, actual = reference(pixel_values, **requests), load(folder)(pixel_values, **requests)

    assert len(actual.hidden_states) == len(expected.hidden_states) == 19
    assert len(actual.attentions) == len(expected.attentions) == 18
    for ours, theirs in zip(
        actual.hidden_states + actual.attentions, expected.hidden_states + expected.attentions, strict=True
    ):
        assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("task", "size", "words"),
    [
        ("normal", (120, 96), "multiples of 16"),
        ("pointmap", (256, 192), "96 × 128 and 128 × 96"),
    ],
)
def test_a_size_that_does_not_fit_is_refused_before_running(task, size, words, tmp_path):
    _, folder = saved_reference(tmp_path, task, "original")
    with pytest.raises(ValueError, match=words):
        load(folder)(torch.zeros(1, 3, *size))
