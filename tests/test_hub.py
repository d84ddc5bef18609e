"""Checkpoints by the names of their repositories, from a stand-in of the hub; nothing here reaches the real one."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sapiens2_core import AutoImageProcessor, AutoModel, Sapiens2ForNormalEstimation, Sapiens2ImageProcessor
from sapiens2_core.checkpoint import load
from sapiens2_core.checkpoint_files import CheckpointError
from sapiens2_core.config import Sapiens2Config, tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.hub import CATALOGUE, WEIGHTS_LICENSE_URL, find_json, repo_id_of, resolve
from tests.hub_server import Hub, Repository

OFFICIAL = "facebook/sapiens2-normal-0.4b"
AUTHORS_FILE = "sapiens2_0.4b_normal.safetensors"
OTHERS = "somebody/fine-tuned"
#: Nothing listens here, and connections are refused at once.
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A small network for normals, and the files it is saved as."""
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(0)
    model = build(tiny_config("normal"), "normal")
    model.save_pretrained(folder)
    Sapiens2ImageProcessor(size=(128, 96), do_pad=True, image_mean=(0.4, 0.5, 0.6)).save_pretrained(folder)
    return model, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def hub(monkeypatch):
    # A user's own settings must not decide what these tests see.
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    hub = Hub()
    server = hub.start()
    yield hub
    server.shutdown()
    server.server_close()


@pytest.fixture
def at(hub, tmp_path):
    """Options that lead to the stand-in and a cache of the test's own."""
    return {"endpoint": hub.endpoint, "cache_dir": tmp_path / "cache"}


def authors_layout(files):
    return {AUTHORS_FILE: files["model.safetensors"], "README.md": b"# Sapiens2", "LICENSE.md": b"..."}


def sharded(files, folder: Path):
    """The same checkpoint in two shards with an index, as transformers writes large ones."""
    (folder / "whole.safetensors").write_bytes(files["model.safetensors"])
    tensors = load_file(folder / "whole.safetensors")
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    shards = {}
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, folder / file)
        shards[file] = (folder / file).read_bytes()
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    return {"config.json": files["config.json"], "model.safetensors.index.json": json.dumps(index).encode(), **shards}


def equal(a, b):
    return all(torch.equal(tensor, b.state_dict()[name]) for name, tensor in a.state_dict().items())


def test_repository_in_the_authors_layout_loads(hub, at, checkpoint):
    model, files = checkpoint
    hub.repositories[OFFICIAL] = Repository({"main": authors_layout(files)})

    loaded = Sapiens2ForNormalEstimation.from_pretrained(OFFICIAL, **at)

    assert equal(model, loaded)
    assert hub.downloads() == [AUTHORS_FILE]


def test_repository_in_transformers_layout_loads_with_its_json_files_only(hub, at, checkpoint):
    model, files = checkpoint
    hub.repositories[OTHERS] = Repository(
        {"main": files | {"pytorch_model.bin": b"pickle", "run.py": b"evil", "tokenizer.json": b"{}"}}
    )

    loaded = Sapiens2ForNormalEstimation.from_pretrained(OTHERS, **at)

    assert equal(model, loaded)
    assert sorted(hub.downloads()) == ["config.json", "model.safetensors", "preprocessor_config.json"]


def test_repository_of_both_layouts_downloads_one(hub, at, checkpoint):
    _, files = checkpoint
    hub.repositories[OFFICIAL] = Repository({"main": files | authors_layout(files)})
    Sapiens2ForNormalEstimation.from_pretrained(OFFICIAL, **at)
    assert AUTHORS_FILE not in hub.downloads()
    assert "model.safetensors" in hub.downloads()


def test_repository_of_shards_loads(hub, at, checkpoint, tmp_path):
    model, files = checkpoint
    hub.repositories[OTHERS] = Repository({"main": sharded(files, tmp_path)})
    assert equal(model, AutoModel.from_pretrained(OTHERS, **at))
    assert sum(name.startswith("model-0000") for name in hub.downloads()) == 2


def test_second_load_downloads_nothing_and_needs_no_network(hub, at, checkpoint):
    model, files = checkpoint
    hub.repositories[OFFICIAL] = Repository({"main": files})
    AutoModel.from_pretrained(OFFICIAL, **at)
    hub.requests.clear()

    AutoModel.from_pretrained(OFFICIAL, **at)
    assert hub.downloads() == []

    hub.requests.clear()
    assert equal(model, AutoModel.from_pretrained(OFFICIAL, local_files_only=True, **at))
    assert hub.requests == []
    assert equal(model, AutoModel.from_pretrained(OFFICIAL, **(at | {"endpoint": NOWHERE})))


def test_revision_chooses_a_branch_or_commit(hub, at, checkpoint):
    model, files = checkpoint
    torch.manual_seed(1)
    other = build(tiny_config("normal"), "normal")
    path = Path(at["cache_dir"]).with_name("other.safetensors")
    other.save_checkpoint(path)
    repository = Repository({"main": files, "v2": files | {"model.safetensors": path.read_bytes()}})
    hub.repositories[OTHERS] = repository

    assert equal(other, AutoModel.from_pretrained(OTHERS, revision="v2", **at))
    assert equal(model, AutoModel.from_pretrained(OTHERS, **at))
    assert equal(other, AutoModel.from_pretrained(OTHERS, revision=repository.commit("v2"), **at))
    assert equal(other, AutoModel.from_pretrained(OTHERS, revision="v2", local_files_only=True, **at))
    with pytest.raises(CheckpointError, match=r"has no revision v3\."):
        AutoModel.from_pretrained(OTHERS, revision="v3", **at)


def test_token_is_sent_and_without_it_a_private_repository_is_a_sentence(hub, at, checkpoint):
    _, files = checkpoint
    hub.repositories[OTHERS] = Repository({"main": files}, token="hf_secret")
    with pytest.raises(CheckpointError, match=r"is private.*token") as error:
        AutoModel.from_pretrained(OTHERS, **at)
    assert "\n" not in str(error.value)
    assert all(token is None for _, _, token in hub.requests)
    hub.requests.clear()

    AutoModel.from_pretrained(OTHERS, token="hf_secret", **at)

    assert {token for _, _, token in hub.requests} == {"Bearer hf_secret"}


def test_repository_that_is_not_there_is_a_sentence(hub, at):
    with pytest.raises(CheckpointError, match="no file or folder nobody/nothing on this machine, and no such repo"):
        AutoModel.from_pretrained("nobody/nothing", **at)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"local_files_only": True}, "local_files_only is set"), ({"endpoint": NOWHERE}, "the hub can't be reached")],
)
def test_offline_without_a_copy_says_what_to_download_and_where_to_put_it(at, options, reason):
    with pytest.raises(CheckpointError, match=reason) as error:
        Sapiens2ForNormalEstimation.from_pretrained(OFFICIAL, **(at | options))
    message = str(error.value)
    assert f"Download {AUTHORS_FILE} from https://huggingface.co/{OFFICIAL}" in message
    assert WEIGHTS_LICENSE_URL in message
    assert "give its path" in message
    assert "\n" not in message


def test_repository_without_weights_is_a_sentence(hub, at, checkpoint):
    _, files = checkpoint
    hub.repositories[OTHERS] = Repository({"main": {"config.json": files["config.json"], "pytorch_model.bin": b"x"}})
    with pytest.raises(CheckpointError, match=r"should hold one checkpoint as \.safetensors, but it holds none"):
        AutoModel.from_pretrained(OTHERS, **at)
    assert hub.downloads() == []


def test_repository_of_several_checkpoints_asks_for_one(hub, at, checkpoint):
    _, files = checkpoint
    weights = files["model.safetensors"]
    hub.repositories[OTHERS] = Repository({"main": {"a.safetensors": weights, "b.safetensors": weights}})
    with pytest.raises(CheckpointError, match=r"several \(a\.safetensors, b\.safetensors\)"):
        AutoModel.from_pretrained(OTHERS, **at)


def test_index_that_names_other_files_downloads_none_of_them(hub, at):
    index = json.dumps({"weight_map": {"a": "pytorch_model.bin"}}).encode()
    hub.repositories[OTHERS] = Repository(
        {"main": {"model.safetensors.index.json": index, "pytorch_model.bin": b"pickle"}}
    )
    with pytest.raises(CheckpointError, match="not shards"):
        AutoModel.from_pretrained(OTHERS, **at)
    assert hub.downloads() == ["model.safetensors.index.json"]


@pytest.mark.parametrize("layout", ["one file", "shards"])
def test_interrupted_download_leaves_no_broken_checkpoint(layout, hub, at, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)  # between its own attempts
    model, files = checkpoint
    hub.repositories[OTHERS] = Repository({"main": files if layout == "one file" else sharded(files, tmp_path)})
    hub.break_off = "model.safetensors" if layout == "one file" else "model-00002-of-00002.safetensors"
    with pytest.raises(CheckpointError, match="broke off"):
        AutoModel.from_pretrained(OTHERS, **at)

    leftovers = [path for path in Path(at["cache_dir"]).rglob("*") if path.is_file() or path.is_symlink()]
    assert not [path for path in leftovers if path.name == hub.break_off]
    assert not [path for path in leftovers if path.stat().st_size == len(hub_file(hub)) // 2]
    with pytest.raises(CheckpointError, match=f"lacks {'its weights' if layout == 'one file' else hub.break_off}"):
        AutoModel.from_pretrained(OTHERS, local_files_only=True, **at)

    hub.break_off = None
    assert equal(model, AutoModel.from_pretrained(OTHERS, **at))


def hub_file(hub: Hub) -> bytes:
    return hub.repositories[OTHERS].revisions["main"][hub.break_off]


def test_licence_of_the_weights_is_said_when_they_are_downloaded(hub, at, checkpoint, caplog):
    _, files = checkpoint
    hub.repositories[OFFICIAL] = Repository({"main": files})
    with caplog.at_level(logging.INFO, "sapiens2"):
        resolve(OFFICIAL, **at)
    assert WEIGHTS_LICENSE_URL in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, "sapiens2"):
        resolve(OFFICIAL, **at)
    assert "Downloading" not in caplog.text


def test_processor_and_configuration_come_without_the_weights(hub, at, checkpoint):
    model, files = checkpoint
    hub.repositories[OTHERS] = Repository({"main": files})
    processor = AutoImageProcessor.from_pretrained(OTHERS, do_rescale=False, **at)
    assert (processor.size, processor.do_pad, processor.do_rescale) == ({"height": 128, "width": 96}, True, False)
    assert list(processor.image_mean) == [0.4, 0.5, 0.6]
    assert Sapiens2Config.from_pretrained(OTHERS, **at) == model.config
    assert sorted(hub.downloads()) == ["config.json", "preprocessor_config.json"]


def test_processor_of_a_repository_without_its_file_is_made_for_the_checkpoint(hub, at, checkpoint):
    _, files = checkpoint
    hub.repositories[OFFICIAL] = Repository({"main": authors_layout(files)})
    hub.repositories[OTHERS] = Repository({"main": {"mine.safetensors": files["model.safetensors"]}})
    official, other = (AutoImageProcessor.from_pretrained(name, **at) for name in (OFFICIAL, OTHERS))
    assert (official.size, official.do_pad) == ({"height": 1024, "width": 768}, True)
    assert (other.size, other.do_pad) == ({"height": 128, "width": 96}, True)
    assert find_json(OFFICIAL, "config.json", **at) is None


@pytest.mark.parametrize("name", [*CATALOGUE, "a/b", "Some-1/x_y.z", Path("facebook") / "sapiens2-pose-1b"])
def test_names_of_repositories(name):
    assert repo_id_of(name) == str(name).replace("\\", "/")


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a/b/c",
        "/a/b",
        "./a",
        "../a",
        "~/a",
        "C:\\a\\b",
        "models/tiny.safetensors",
        "models/tiny.pth",
        "a/b..c",
        "a/b-",
        "a/é",
        "",
    ],
)
def test_paths_are_no_names_of_repositories(name):
    assert repo_id_of(name) is None


def test_folder_of_the_same_name_comes_first(hub, checkpoint, tmp_path, monkeypatch):
    model, files = checkpoint
    folder = tmp_path / "facebook" / "sapiens2-normal-0.4b"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    assert equal(model, load(OFFICIAL))


def test_settings_of_the_environment_hold(hub, checkpoint, tmp_path):
    """HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE, in a program that names nothing but the repository."""
    _, files = checkpoint
    hub.repositories[OFFICIAL] = Repository({"main": files})
    script = (
        "import os; from sapiens2_core.checkpoint import load\n"
        f"print(type(load({OFFICIAL!r})).__name__)\n"
        "import huggingface_hub.constants as c; c.HF_HUB_OFFLINE = True\n"
        f"print(type(load({OFFICIAL!r})).__name__)\n"
        "try: load('facebook/sapiens2-seg-1b')\n"
        "except ValueError as error: print(error)\n"
    )
    environment = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    online, offline, absent = ran.stdout.splitlines()
    assert online == offline == "Sapiens2ForNormalEstimation"
    assert "HF_HUB_OFFLINE" in absent
    assert "sapiens2_1b_seg.safetensors" in absent
    assert (tmp_path / "hub" / "models--facebook--sapiens2-normal-0.4b").is_dir()
