"""Official checkpoints that are downloaded when a graph runs, from a stand-in of the hub."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
import torch

from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from tests.hub_server import Repository

MIB = 2**20


def load_graph(checkpoint: str) -> dict:
    return {
        "load": {"class_type": "Sapiens2LoadModel", "inputs": {"checkpoint": checkpoint, "precision": "fp32"}},
        "info": {"class_type": "PreviewAny", "inputs": {"source": ["load", 1]}},
    }


def checkpoint_values(comfy) -> list[str]:
    node = comfy.json("/object_info/Sapiens2LoadModel")["Sapiens2LoadModel"]
    return node["input"]["required"]["checkpoint"][1]["options"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> bytes:
    """A checkpoint for mattes of about 30 MiB: several of the pieces in which huggingface_hub reads."""
    torch.manual_seed(0)
    config = dataclasses.replace(tiny_config("matting"), hidden_size=160, intermediate_size=640)
    path = tmp_path_factory.mktemp("weights") / "matting.safetensors"
    build(config, "matting").save_checkpoint(path)
    assert 25 * MIB < path.stat().st_size < 40 * MIB
    return path.read_bytes()


@pytest.fixture
def offer(comfy, hub, weights):
    """Puts the checkpoint on the hub under an official name; takes it from there, and from the server, afterwards."""
    placed: list[str] = []

    def place(name: str, filename: str, **more) -> Path:
        hub.repositories[name] = Repository({"main": {filename: weights, "README.md": b"#"}}, **more)
        placed.append(filename)
        return comfy.base / "models" / "sapiens2" / filename

    hub.requests.clear()
    hub.ranges.clear()
    yield place
    hub.repositories.clear()
    hub.pauses.clear()
    hub.claimed_sizes.clear()
    hub.is_down = False
    for filename in placed:
        for path in (comfy.base / "models" / "sapiens2").glob(f"*{filename}*"):
            path.unlink()


def leftovers(path: Path) -> list[Path]:
    """What a download left in the folder beside the file itself, locks aside."""
    return [found for found in path.parent.glob(f".{path.name}*") if found.suffix != ".lock"]


def test_nothing_is_asked_of_the_hub_before_a_checkpoint_is_chosen_and_run(comfy, hub):
    before = len(hub.requests)
    assert "facebook/sapiens2-pretrain-1b" in checkpoint_values(comfy)
    comfy.run(load_graph("tiny_matting.safetensors"))
    assert len(hub.requests) == before


def test_official_checkpoint_is_downloaded_once_as_a_plain_file(comfy, hub, offer, weights):
    path = offer("facebook/sapiens2-pretrain-1b", "sapiens2_1b_pretrain.safetensors")
    position = checkpoint_values(comfy).index("facebook/sapiens2-pretrain-1b")
    assert position > checkpoint_values(comfy).index("tiny_pose.safetensors")
    events = comfy.events()

    info = comfy.run(load_graph("facebook/sapiens2-pretrain-1b"))["info"]["text"][0]

    events.close()
    assert "checkpoint: facebook/sapiens2-pretrain-1b" in info
    assert "task: matting" in info
    assert "licence of the weights: https://github.com/facebookresearch/sapiens2" in info
    assert path.read_bytes() == weights
    assert not path.is_symlink()
    assert leftovers(path) == []
    shown = [(data["value"], data["max"]) for data in events.of("progress") if data["node"] == "load"]
    assert len(shown) >= 3
    assert shown == sorted(shown)
    assert shown[-1] == (len(weights), len(weights))
    assert hub.downloads() == [path.name]
    values = checkpoint_values(comfy)
    assert values.count("facebook/sapiens2-pretrain-1b") == 1
    assert values.index("facebook/sapiens2-pretrain-1b") < position
    hub.requests.clear()
    comfy.run(load_graph("facebook/sapiens2-pretrain-1b"))
    assert hub.requests == []


def test_cancelled_download_is_never_listed_and_goes_on_where_it_stopped(comfy, hub, offer, weights):
    name = "facebook/sapiens2-pretrain-0.1b"
    path = offer(name, "sapiens2_0.1b_pretrain.safetensors")
    hub.pauses[path.name] = 0.1
    values = checkpoint_values(comfy)
    events = comfy.events()
    prompt = comfy.queue(load_graph(name))
    while not any(data["value"] > 0 for data in events.of("progress")):
        time.sleep(0.02)
    comfy.request("/interrupt", {})
    with pytest.raises(comfy.GraphError, match="interrupted"):
        comfy.wait(prompt)
    events.close()

    (part,) = leftovers(path)
    have = part.stat().st_size
    assert 0 < have < len(weights)
    assert not path.exists()
    assert checkpoint_values(comfy) == values

    hub.pauses.clear()
    comfy.run(load_graph(name))
    assert hub.ranges == [f"bytes={have}-"]
    assert path.read_bytes() == weights
    assert leftovers(path) == []


def test_part_of_an_older_version_is_not_continued(comfy, hub, offer, weights):
    path = offer("facebook/sapiens2-pretrain-0.4b", "sapiens2_0.4b_pretrain.safetensors")
    path.with_name(f".{path.name}.0123456789abcdef.incomplete").write_bytes(b"old")
    comfy.run(load_graph("facebook/sapiens2-pretrain-0.4b"))
    assert hub.ranges == []
    assert path.read_bytes() == weights
    assert leftovers(path) == []


def test_damaged_part_is_thrown_away(comfy, hub, offer, weights):
    name = "facebook/sapiens2-pretrain-0.8b"
    path = offer(name, "sapiens2_0.8b_pretrain.safetensors")
    hub.pauses[path.name] = 0.1
    events = comfy.events()
    prompt = comfy.queue(load_graph(name))
    while not any(data["value"] > 0 for data in events.of("progress")):
        time.sleep(0.02)
    comfy.request("/interrupt", {})
    with pytest.raises(comfy.GraphError):
        comfy.wait(prompt)
    events.close()
    (part,) = leftovers(path)
    part.write_bytes(b"\xff" * part.stat().st_size)
    hub.pauses.clear()
    with pytest.raises(comfy.GraphError, match=r"damaged.*Try again"):
        comfy.run(load_graph(name))
    assert not path.exists()
    assert leftovers(path) == []


def test_full_disk_is_told_before_the_download_begins(comfy, hub, offer):
    path = offer("facebook/sapiens2-normal-5b", "sapiens2_5b_normal.safetensors")
    hub.claimed_sizes[path.name] = 10**18
    with pytest.raises(comfy.GraphError, match=r"needs 1000000000\.0 GB more .* only [\d.]+ GB are free") as failed:
        comfy.run(load_graph("facebook/sapiens2-normal-5b"))
    assert failed.value.node == "load"
    assert hub.downloads() == []
    assert leftovers(path) == []


def test_offline_says_what_to_put_where(comfy, hub, offer):
    offer("facebook/sapiens2-normal-1b", "sapiens2_1b_normal.safetensors")
    hub.is_down = True
    message = (
        r"facebook/sapiens2-normal-1b can't be downloaded now .*put sapiens2_1b_normal\.safetensors from "
        r"https://huggingface\.co/facebook/sapiens2-normal-1b into .*models.sapiens2 \(licence of the weights"
    )
    with pytest.raises(comfy.GraphError, match=message) as failed:
        comfy.run(load_graph("facebook/sapiens2-normal-1b"))
    assert failed.value.node == "load"
    assert "\n" not in str(failed.value).strip()


def test_closed_repository_says_how_to_log_in(comfy, hub, offer):
    offer("facebook/sapiens2-normal-0.8b", "sapiens2_0.8b_normal.safetensors", token="hf_secret")
    with pytest.raises(comfy.GraphError, match="hf auth login"):
        comfy.run(load_graph("facebook/sapiens2-normal-0.8b"))
