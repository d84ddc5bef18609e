"""What from_pretrained takes beside a path: type, device, overrides of the configuration; Auto classes; processors."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from sapiens2_core import (
    AutoBackbone,
    AutoImageProcessor,
    AutoModel,
    AutoModelForPoseEstimation,
    Sapiens2Backbone,
    Sapiens2Config,
    Sapiens2ImageProcessor,
    Sapiens2Model,
)
from sapiens2_core.checkpoint_files import CheckpointError
from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.tasks import TASKS

PIXELS = torch.randn(1, 3, 128, 96, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder with a small checkpoint for each task."""
    root = tmp_path_factory.mktemp("checkpoints")
    for task in TASKS:
        torch.manual_seed(0)
        build(tiny_config(task), task).save_pretrained(root / task)
    return root


@pytest.fixture(scope="module")
def pretrained(folders):
    return folders / "pretrain"


@pytest.mark.parametrize("task", TASKS)
def test_auto_model_is_of_the_checkpoints_task(task, folders):
    assert type(AutoModel.from_pretrained(folders / task)).__name__ == TASKS[task].estimator
    assert type(AutoModel.from_config(tiny_config(task))).__name__ == TASKS[task].estimator


def test_auto_model_of_one_task_refuses_another(folders):
    with pytest.raises(CheckpointError, match="estimates normals"):
        AutoModelForPoseEstimation.from_pretrained(folders / "normal")


@torch.no_grad()
def test_backbone_and_bare_model_come_out_of_a_tasks_checkpoint(folders):
    backbone, bare = (cls.from_pretrained(folders / "normal") for cls in (AutoBackbone, Sapiens2Model))
    assert isinstance(backbone, Sapiens2Backbone)
    assert torch.equal(backbone(PIXELS, return_class_token=True).cls_tokens[0], bare(PIXELS).pooler_output)


@pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", torch.bfloat16), (torch.float16, torch.float16),
                                                 ("auto", torch.float32), (None, torch.float32)])  # fmt: skip
def test_dtype_by_name(dtype, expected, pretrained):
    assert AutoModel.from_pretrained(pretrained, dtype=dtype).dtype == expected


@pytest.mark.parametrize("dtype", ["relu", "int32", torch.int64])
def test_unknown_dtype_is_an_error(dtype, pretrained):
    with pytest.raises(ValueError, match="dtype is"):
        AutoModel.from_pretrained(pretrained, dtype=dtype)


@pytest.mark.parametrize("device_map", ["cpu", torch.device("cpu"), "meta"])
def test_device_map_may_be_a_device(device_map, pretrained):
    assert AutoModel.from_pretrained(pretrained, device_map=device_map).device == torch.device(device_map)


def test_device_map_auto_takes_the_best_device(pretrained, monkeypatch):
    monkeypatch.setattr("sapiens2_core.precision.default_device", lambda: torch.device("meta"))
    assert AutoModel.from_pretrained(pretrained, device_map="auto").device.type == "meta"


@pytest.mark.parametrize("device_map", ["balanced", {"": "cpu"}, "nothing:0"])
def test_device_map_that_is_no_device_is_an_error(device_map, pretrained):
    with pytest.raises(ValueError, match="device_map is"):
        AutoModel.from_pretrained(pretrained, device_map=device_map)


def test_device_and_device_map_together_are_an_error(pretrained):
    with pytest.raises(ValueError, match="give one of them"):
        AutoModel.from_pretrained(pretrained, device="cpu", device_map="cpu")


@torch.no_grad()
@pytest.mark.parametrize(
    "overrides",
    [
        {"out_indices": [3, 18]},
        {"out_indices": [-2]},
        {"out_features": ["stem", "stage5"]},
        {"out_indices": [0, 18], "normalize_backbone_outputs": False},
        {"out_indices": [7], "reshape_hidden_states": False},
    ],
    ids=str,
)
def test_backbone_overrides_are_transformers(overrides, pretrained):
    ours = AutoBackbone.from_pretrained(pretrained, **overrides)
    theirs = transformers.Sapiens2Backbone.from_pretrained(pretrained, dtype=torch.float32, **overrides)
    expected, actual = theirs(PIXELS).feature_maps, ours(PIXELS).feature_maps
    assert len(actual) == len(expected) == len(overrides.get("out_indices") or overrides["out_features"])
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_out_indices_may_be_set_on_the_configuration_afterwards(pretrained):
    model = AutoBackbone.from_pretrained(pretrained, out_indices=[3])
    model.config.out_indices = [0, 18]
    assert len(model(PIXELS).feature_maps) == 2


@torch.no_grad()
def test_configuration_says_what_is_given_by_default(folders):
    asked = {"output_hidden_states": True, "output_attentions": True}
    for task in ("pretrain", "seg"):
        outputs = AutoModel.from_pretrained(folders / task, **asked)(PIXELS)
        assert (len(outputs.hidden_states), len(outputs.attentions)) == (19, 18)
    model = AutoBackbone.from_pretrained(folders / "seg", **asked, return_class_token=True)
    outputs = model(PIXELS)
    assert (len(outputs.hidden_states), len(outputs.attentions), len(outputs.cls_tokens)) == (19, 18, 1)
    outputs = model(PIXELS, output_hidden_states=False, output_attentions=False, return_class_token=False)
    assert outputs.hidden_states is outputs.attentions is outputs.cls_tokens is None


def test_requests_are_kept_in_config_json(pretrained, tmp_path):
    AutoModel.from_pretrained(pretrained, output_hidden_states=True).save_pretrained(tmp_path)
    assert Sapiens2Config.from_pretrained(tmp_path).output_hidden_states
    assert transformers.Sapiens2Config.from_pretrained(tmp_path).output_hidden_states
    assert "output_hidden_states" not in json.loads((pretrained / "config.json").read_text())


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"torch_dtype": torch.float16, "colour": 1}, "has no torch_dtype, colour"),
        ({"model_type": "bert"}, "has no model_type"),
        ({"use_mask_token": True}, r"use_mask_token=True asks for other weights than pretrain holds"),
        ({"hidden_size": 64}, "hidden_size=64 asks for other weights"),
        ({"num_hidden_layers": 6}, "num_hidden_layers=6 asks for other weights"),
        ({"out_indices": [19]}, r"out_indices are \[19\], but the stages are 0 \(stem\) to 18"),
        ({"out_features": ["stage19"]}, r"out_features has \['stage19'\]"),
        ({"out_indices": [2], "out_features": ["stage3"]}, "name different stages"),
    ],
    ids=str,
)
def test_overrides_that_cannot_be_are_named(overrides, words, pretrained):
    with pytest.raises(ValueError, match=words):
        AutoBackbone.from_pretrained(pretrained, **overrides)


def test_mask_token_may_be_named_where_it_is(tmp_path):
    config = tiny_config()
    config.use_mask_token = True
    build(config, "pretrain").save_pretrained(tmp_path)
    assert AutoModel.from_pretrained(tmp_path, use_mask_token=True).embeddings.mask_token is not None


def test_override_of_what_training_needs_reaches_the_layers(folders):
    model = AutoModel.from_pretrained(folders / "seg", semantic_loss_ignore_index=0, pos_embed_shift=0.5)
    assert model.config.semantic_loss_ignore_index == model.model.config.semantic_loss_ignore_index == 0
    assert model.model.config.pos_embed_shift == 0.5


@torch.no_grad()
def test_float32_pixels_go_into_a_half_precision_network(folders):
    """As in transformers, so that a processor's output can be given to any checkpoint."""
    model = AutoModel.from_pretrained(folders / "normal", dtype=torch.bfloat16)
    assert torch.equal(model(PIXELS).normals, model(PIXELS.bfloat16()).normals)


# Processors.


@pytest.mark.parametrize("task", TASKS)
def test_processor_of_a_folder_without_its_file_is_made_for_the_task(task, folders):
    processor = AutoImageProcessor.from_pretrained(folders / task)
    assert processor.size == {"height": 128, "width": 96}
    assert processor.do_pad == TASKS[task].letterbox


def options_of(processor):
    return json.loads(json.dumps(vars(processor)))  # JSON knows no tuples


def test_saved_processor_comes_back(tmp_path):
    processor = Sapiens2ImageProcessor(
        size=(256, 192), do_pad=True, resample=3, image_mean=0.5, keypoint_heatmap_sigma=2.0, do_reduce_labels=True
    )
    processor.save_pretrained(tmp_path / "new" / "folder")
    for cls in (Sapiens2ImageProcessor, AutoImageProcessor):
        again = cls.from_pretrained(tmp_path / "new" / "folder")
        assert options_of(again) == options_of(processor)
    assert not cls.from_pretrained(tmp_path / "new" / "folder", do_pad=False).do_pad
    file = tmp_path / "new" / "folder" / "preprocessor_config.json"
    assert options_of(Sapiens2ImageProcessor.from_pretrained(file)) == options_of(processor)


IMAGE = torch.randint(0, 256, (3, 70, 90), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "options", [{"do_pad": True}, {"do_normalize": False}, {"image_std": [0.2, 0.3, 0.4]}], ids=str
)
def test_processors_read_each_others_files(options, tmp_path):
    options = {"size": {"height": 64, "width": 48}, **options}
    theirs = transformers.Sapiens2ImageProcessor(**options)
    theirs.save_pretrained(tmp_path / "theirs")
    Sapiens2ImageProcessor(**options).save_pretrained(tmp_path / "ours")

    ours_of_theirs = Sapiens2ImageProcessor.from_pretrained(tmp_path / "theirs")
    theirs_of_ours = transformers.AutoImageProcessor.from_pretrained(tmp_path / "ours")

    assert isinstance(theirs_of_ours, transformers.Sapiens2ImageProcessor)
    expected = theirs(IMAGE, return_tensors="pt")["pixel_values"]
    for processor in (ours_of_theirs, theirs_of_ours):
        torch.testing.assert_close(
            processor(IMAGE, return_tensors="pt")["pixel_values"], expected, rtol=1e-5, atol=2e-2
        )


def test_processor_of_another_model_is_refused(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "ViTImageProcessor"}))
    with pytest.raises(ValueError, match="of a ViTImageProcessor"):
        AutoImageProcessor.from_pretrained(tmp_path)


def test_processor_says_what_is_not_there(folders, tmp_path):
    with pytest.raises(ValueError, match=r"no preprocessor_config\.json in .*AutoImageProcessor"):
        Sapiens2ImageProcessor.from_pretrained(folders / "pose")
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        AutoImageProcessor.from_pretrained(tmp_path / "nothing")
    with pytest.raises(TypeError, match="colour"):
        AutoImageProcessor.from_pretrained(folders / "pose", colour=1)
