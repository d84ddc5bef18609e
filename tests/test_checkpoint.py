"""What a file is, strict loading, saving; broken and foreign files."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from sapiens2_core.backbone import Sapiens2Backbone, Sapiens2Model
from sapiens2_core.checkpoint import inspect, load, match_tensors, original_state
from sapiens2_core.checkpoint_files import CheckpointError, CheckpointFiles
from sapiens2_core.config import SIZES, official_config, tiny_config
from sapiens2_core.estimators import MODEL_CLASSES, Sapiens2ForNormalEstimation, Sapiens2ForPoseEstimation, build
from sapiens2_core.tasks import TASKS
from tests.reference import OUTPUT_FIELDS, REFERENCE_TASKS, reference_config, saved_reference
from tests.sparse_checkpoints import OFFICIAL_SHAPES, write_sparse


def parse(name: str) -> tuple[str, str]:
    """("1b-4k", "pretrain") of "sapiens2_1b_4k_pretrain"."""
    *size, task = name.removeprefix("sapiens2_").split("_")
    return "-".join(size), task


OFFICIAL = [pytest.param(name, *parse(name), id=name) for name in OFFICIAL_SHAPES]
IN_TRANSFORMERS = [
    pytest.param(name, *parse(name), id=name)
    for name in OFFICIAL_SHAPES
    if parse(name)[1] != "albedo" and parse(name)[0] != "1b-4k"
]


def matched(path):
    """What a file is, once each of its tensors has found its parameter and the other way round."""
    with CheckpointFiles(path) as files:
        info = inspect(path)
        match_tensors(files, info, MODEL_CLASSES[TASKS[info.task].estimator])
    return info


def test_all_27_official_shapes_are_there():
    assert len(OFFICIAL) == 27
    assert len(IN_TRANSFORMERS) == 22


@pytest.mark.parametrize(("name", "size", "task"), OFFICIAL)
def test_official_file_is_recognised_and_loads_strictly(name, size, task, tmp_path):
    path = write_sparse(tmp_path / f"{name}.safetensors", OFFICIAL_SHAPES[name])

    info = matched(path)

    assert (info.task, info.size, info.layout) == (task, size, "original")
    assert info.config.image_height_width == ((4096, 3072) if size == "1b-4k" else (1024, 768))
    assert info.dtype is torch.bfloat16
    assert info.config == official_config(size, task)


@pytest.mark.parametrize(("name", "size", "task"), OFFICIAL)
def test_official_network_goes_back_to_the_authors_names(name, size, task):
    with torch.device("meta"):
        model = build(official_config(size, task), task)
    shapes = {key: list(tensor.shape) for key, tensor in original_state(model).items()}
    expected = {key: shape for key, shape in OFFICIAL_SHAPES[name].items() if not key.endswith("rope_embed.periods")}
    assert shapes == expected


@pytest.mark.parametrize(("name", "size", "task"), IN_TRANSFORMERS)
def test_transformers_layout_of_an_official_network_loads_strictly(name, size, task, tmp_path):
    config = reference_config(official_config(size, task))
    with torch.device("meta"):
        reference = getattr(transformers, TASKS[task].estimator)(config)
    write_sparse(tmp_path / "model.safetensors", {key: list(t.shape) for key, t in reference.state_dict().items()})
    config.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps(json.loads((tmp_path / "config.json").read_text()) | {"architectures": [TASKS[task].estimator]})
    )

    info = matched(tmp_path)

    assert (info.task, info.size, info.layout) == (task, size, "transformers")
    assert info.config.image_height_width == (1024, 768)


@pytest.mark.parametrize("task", TASKS)
def test_saved_folder_loads_again_with_equal_weights(task, tmp_path):
    torch.manual_seed(0)
    model = build(tiny_config(task), task)
    model.save_pretrained(tmp_path)

    again = load(tmp_path)

    assert again.config == model.config
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


@pytest.mark.parametrize("task", TASKS)
def test_single_file_carries_its_native_input_size(task, tmp_path):
    build(tiny_config(task, (256, 192)), task).save_checkpoint(tmp_path / "tiny.safetensors")
    assert inspect(tmp_path / "tiny.safetensors").config.image_height_width == (256, 192)
    assert inspect(tmp_path / "tiny.safetensors").task == task


@pytest.mark.parametrize("task", REFERENCE_TASKS)
def test_transformers_opens_a_saved_folder(task, tmp_path):
    torch.manual_seed(0)
    model = build(tiny_config(task), task).eval()
    model.save_pretrained(tmp_path)
    reference = getattr(transformers, TASKS[task].estimator).from_pretrained(tmp_path).eval()
    pixel_values = torch.randn(1, 3, 128, 96, generator=torch.Generator().manual_seed(1))

    with torch.no_grad():
        expected, actual = reference(pixel_values), model(pixel_values)

    for field in OUTPUT_FIELDS[task]:
        torch.testing.assert_close(getattr(actual, field), getattr(expected, field), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["original", "transformers"])
def test_sharded_folder_loads(layout, tmp_path):
    reference, _ = saved_reference(tmp_path / "whole", "seg", layout)
    reference.save_pretrained(tmp_path / "shards", save_original_format=layout == "original", max_shard_size="200KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2

    whole, shards = load(tmp_path / "whole").state_dict(), load(tmp_path / "shards").state_dict()

    assert all(torch.equal(tensor, shards[name]) for name, tensor in whole.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_storage_type_is_kept_or_changed_on_demand(dtype, tmp_path):
    build(tiny_config("normal"), "normal").to(dtype).save_pretrained(tmp_path)
    assert inspect(tmp_path).dtype is dtype
    assert load(tmp_path).dtype is dtype
    assert load(tmp_path, dtype=torch.float32).dtype is torch.float32


def test_bare_networks_read_the_checkpoint_of_any_task(tmp_path):
    model = build(tiny_config("normal"), "normal").eval()
    model.save_checkpoint(tmp_path / "normal.safetensors")
    pixel_values = torch.randn(1, 3, 128, 96, generator=torch.Generator().manual_seed(1))

    with torch.no_grad():
        expected = model.model(pixel_values).last_hidden_state
        bare = Sapiens2Model.from_pretrained(tmp_path / "normal.safetensors")(pixel_values).last_hidden_state
        backbone = Sapiens2Backbone.from_pretrained(tmp_path / "normal.safetensors")(pixel_values).feature_maps[0]

    assert torch.equal(bare, expected)
    assert torch.equal(backbone.flatten(2).transpose(1, 2), expected[:, 9:])


def test_checkpoint_of_another_task_is_refused(tmp_path):
    build(tiny_config("normal"), "normal").save_checkpoint(tmp_path / "mine.safetensors")
    with pytest.raises(
        CheckpointError, match=r"mine\.safetensors estimates normals.*not for Sapiens2ForPoseEstimation"
    ):
        Sapiens2ForPoseEstimation.from_pretrained(tmp_path / "mine.safetensors")
    assert isinstance(
        Sapiens2ForNormalEstimation.from_pretrained(tmp_path / "mine.safetensors"), Sapiens2ForNormalEstimation
    )


def test_transformers_layout_pointmap_without_scale_asks_for_its_config(tmp_path):
    config = tiny_config("pointmap")
    config.head_config.scale_conv_out_channels = None
    model = build(config, "pointmap")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        inspect(tmp_path / "model.safetensors")

    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert inspect(tmp_path).task == "pointmap"


@pytest.fixture
def weights(tmp_path):
    build(tiny_config("seg"), "seg").save_checkpoint(tmp_path / "seg.safetensors")
    return load_file(tmp_path / "seg.safetensors")


@pytest.mark.parametrize("text", ["1024x768", "1024", "null", "[0, 5]", '{"a": 1}'])
def test_metadata_of_another_programs_meaning_is_passed_over(weights, tmp_path, text):
    save_file(weights, tmp_path / "odd.safetensors", metadata={"image_size": text})
    expected = (1024, 1024) if text == "1024" else (1024, 768)
    assert inspect(tmp_path / "odd.safetensors").config.image_height_width == expected


def test_configurations_share_nothing():
    first, second = official_config("0.4b", "pose"), official_config("0.4b", "pose")
    first.head_config.conv_out_channels.append(7)
    first.flip_pairs[0][0] = 99
    assert second == official_config("0.4b", "pose")
    assert first != second
    assert first.replaced().head_config.conv_out_channels is not first.head_config.conv_out_channels


def test_missing_and_unexpected_tensors_are_listed(weights, tmp_path):
    weights["decode_head.extra"] = weights.pop("backbone.blocks.3.ffn.w3.bias")
    save_file(weights, tmp_path / "bad.safetensors")
    with pytest.raises(CheckpointError) as error:
        load(tmp_path / "bad.safetensors")
    assert "missing: backbone.blocks.3.ffn.w3.bias" in str(error.value)
    assert "unexpected: decode_head.extra" in str(error.value)


def test_misshapen_tensor_is_listed(weights, tmp_path):
    weights["backbone.blocks.3.ffn.w3.bias"] = torch.zeros(5)
    save_file(weights, tmp_path / "bad.safetensors")
    with pytest.raises(
        CheckpointError, match=r"of another shape: backbone\.blocks\.3\.ffn\.w3\.bias \(5,\) instead of"
    ):
        load(tmp_path / "bad.safetensors")


def test_rope_periods_are_forgiven(weights, tmp_path):
    save_file(weights | {"backbone.rope_embed.periods": torch.ones(2)}, tmp_path / "periods.safetensors")
    assert load(tmp_path / "periods.safetensors").config.num_labels == 29


def test_mask_token_may_be_there_or_not(tmp_path):
    config = tiny_config()
    config.use_mask_token = True
    build(config, "pretrain").save_checkpoint(tmp_path / "with.safetensors")
    assert "mask_token" in load_file(tmp_path / "with.safetensors")
    assert load(tmp_path / "with.safetensors").embeddings.mask_token is not None
    build(tiny_config(), "pretrain").save_checkpoint(tmp_path / "without.safetensors")
    assert load(tmp_path / "without.safetensors").embeddings.mask_token is None


class Broken:
    """Files that are no checkpoints; each with the words that its message must have."""

    @staticmethod
    def truncated(folder, weights):
        save_file(weights, folder / "whole.safetensors")
        data = (folder / "whole.safetensors").read_bytes()
        (folder / "cut.safetensors").write_bytes(data[: len(data) // 2])
        return folder / "cut.safetensors", "cut off"

    @staticmethod
    def random_bytes(folder, weights):
        noise = torch.randint(0, 256, (4096,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        (folder / "noise.safetensors").write_bytes(noise.numpy().tobytes())
        return folder / "noise.safetensors", "not a readable .safetensors file"

    @staticmethod
    def empty_file(folder, weights):
        (folder / "empty.safetensors").touch()
        return folder / "empty.safetensors", "not a readable .safetensors file"

    @staticmethod
    def another_model(folder, weights):
        save_file({"conv.weight": torch.zeros(2, 2)}, folder / "other.safetensors")
        return folder / "other.safetensors", "of another model"

    @staticmethod
    def a_pickle(folder, weights):
        (folder / "model.pth").write_bytes(pickle.dumps({"a": 1}))
        return folder / "model.pth", "pickle"

    @staticmethod
    def nothing(folder, weights):
        return folder / "absent.safetensors", "There is no checkpoint"

    @staticmethod
    def folder_of_several(folder, weights):
        for name in ("a", "b"):
            save_file(weights, folder / f"{name}.safetensors")
        (folder / "seg.safetensors").unlink()
        return folder, "holds several checkpoints"

    @staticmethod
    def folder_of_pickles(folder, weights):
        (folder / "sub").mkdir()
        (folder / "sub" / "pytorch_model.bin").write_bytes(b"x")
        return folder / "sub", "pickle"

    @staticmethod
    def config_of_another_model(folder, weights):
        (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
        return folder, "not of Sapiens2"

    @staticmethod
    def git_lfs_pointer(folder, weights):
        (folder / "pointer.safetensors").write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
        )
        return folder / "pointer.safetensors", "Git LFS pointer"

    @staticmethod
    def web_page(folder, weights):
        (folder / "page.safetensors").write_text("<!doctype html><title>Sign in</title>" + " " * 100)
        return folder / "page.safetensors", "web page"

    @staticmethod
    def first_sapiens(folder, weights):
        names = (
            "backbone.patch_embed.projection.weight",
            "decode_head.conv_seg.weight",
            "backbone.layers.0.ln1.weight",
        )
        save_file({name: weights.get(name, torch.zeros(32)) for name in names}, folder / "v1.safetensors")
        return folder / "v1.safetensors", "the first Sapiens"

    @staticmethod
    def config_that_is_no_json(folder, weights):
        (folder / "config.json").write_text("{")
        return folder, "not valid JSON"


@pytest.mark.parametrize("make", [value for name, value in vars(Broken).items() if isinstance(value, staticmethod)])
def test_what_is_no_checkpoint_is_one_clear_sentence(make, tmp_path, weights):
    path, words = make(tmp_path, weights)
    with pytest.raises(CheckpointError, match=words) as error:
        load(path)
    assert "\n" not in str(error.value)


def test_a_failed_save_leaves_nothing_behind(tmp_path, monkeypatch):
    import sapiens2_core.checkpoint as checkpoint

    def fail(state, path, metadata):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint, "save_safetensors", fail)
    with pytest.raises(OSError, match="disk full"):
        build(tiny_config(), "pretrain").save_checkpoint(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="RssAnon is read from Linux's /proc")
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_loading_takes_no_more_memory_than_the_network(stored, tmp_path):
    config = official_config("0.1b")
    with torch.device("cpu"):
        build(config, "pretrain").to(stored).save_checkpoint(tmp_path / "model.safetensors")
    script = f"""
import threading, time, torch
from sapiens2_core.checkpoint import inspect, load
inspect({str(tmp_path / "model.safetensors")!r})

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

peak, stop = 0, False
def watch():
    global peak
    while not stop:
        peak = max(peak, anonymous())
        time.sleep(0.001)

before = anonymous()
thread = threading.Thread(target=watch)
thread.start()
model = load({str(tmp_path / "model.safetensors")!r}, dtype=torch.float32)
stop = True
thread.join()
print((peak - before) / sum(p.numel() * p.element_size() for p in model.parameters()))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 0.9 < float(ran.stdout) <= 1.15


def test_official_sizes_have_the_papers_parameter_counts():
    """Billions of parameters of the bare networks."""
    counts = {"0.1b": 0.114, "0.4b": 0.396, "0.8b": 0.814, "1b": 1.456, "1b-4k": 1.607, "5b": 5.067}
    for size in SIZES:
        with torch.device("meta"):
            model = build(official_config(size), "pretrain")
        assert sum(p.numel() for p in model.parameters()) / 1e9 == pytest.approx(counts[size], abs=6e-4)
