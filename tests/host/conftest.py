"""A real ComfyUI with this pack and tiny random checkpoints, driven over its HTTP API.

It is found through the environment variable COMFYUI_PATH (a ComfyUI folder), or when the pack sits in its
custom_nodes, or in comfy-cli's default workspace. Its Python is COMFYUI_PYTHON, else a virtual environment inside
the folder, else the one that runs the tests. Where there is none, these tests are skipped.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build
from sapiens2_core.tasks import TASKS
from tests.hub_server import Hub
from tests.sparse_checkpoints import OFFICIAL_SHAPES, write_sparse

PACK = Path(__file__).absolute().parents[2]
PHOTO = PACK / "assets" / "astronaut.jpg"
#: Official checkpoints that the graphs in workflows/ name.
OFFICIAL_SIZES = {"pose": "0.4b", "seg": "0.4b", "normal": "0.4b", "pointmap": "0.4b", "matting": "1b"}
START_SECONDS = 180
RUN_SECONDS = 120


def find_comfyui() -> tuple[Path, Path] | str:
    """ComfyUI's folder and its Python, or the reason why there is none."""
    if "COMFYUI_PATH" in os.environ:
        folders = [Path(os.environ["COMFYUI_PATH"])]
    else:
        folders = [PACK.parents[1]] if PACK.parent.name == "custom_nodes" else []
        folders.append(Path.home() / "comfy" / "ComfyUI")
    folder = next((path for path in folders if (path / "main.py").is_file() and (path / "comfy").is_dir()), None)
    if folder is None:
        return f"no ComfyUI in {' or '.join(map(str, folders))}: set COMFYUI_PATH to a ComfyUI folder"
    if "COMFYUI_PYTHON" in os.environ:
        return folder, Path(os.environ["COMFYUI_PYTHON"])
    inside = [folder / venv / part for venv in (".venv", "venv") for part in ("bin/python", "Scripts/python.exe")]
    python = next((path for path in inside if path.is_file()), Path(sys.executable))
    needed = "import aiohttp, einops, torch, torchaudio, torchsde, comfyui_frontend_package"
    if subprocess.run([python, "-c", needed], capture_output=True, check=False).returncode:
        return f"{python} lacks ComfyUI's requirements: set COMFYUI_PYTHON to the Python that runs {folder}"
    return folder, python


class GraphError(Exception):
    """A graph that ComfyUI refused or that stopped: ``node`` is the id of the node at fault."""

    def __init__(self, node: str | None, message: str) -> None:
        super().__init__(message)
        self.node = node


class ComfyUI:
    """A running server."""

    GraphError = GraphError

    def __init__(self, port: int, base: Path) -> None:
        self.address = f"127.0.0.1:{port}"
        self.base = base
        self.client_id = uuid.uuid4().hex

    def request(self, path: str, body: dict | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read()

    def json(self, path: str, body: dict | None = None):
        return json.loads(self.request(path, body) or "null")

    def queue(self, graph: dict) -> str:
        """Hands in a graph and returns its id; GraphError when ComfyUI's checks refuse it, or a part of it."""
        try:
            answer = self.json("/prompt", {"prompt": graph, "client_id": self.client_id})
        except urllib.error.HTTPError as error:
            answer = json.loads(error.read())
        for node, found in (answer.get("node_errors") or {}).items():
            raise GraphError(node, "; ".join(f"{e['message']}: {e['details']}" for e in found["errors"]))
        if "error" in answer:
            raise GraphError(None, str(answer["error"]))
        return answer["prompt_id"]

    def wait(self, prompt_id: str) -> dict:
        """The history entry of a finished graph; GraphError when a node of it raised."""
        end = time.monotonic() + RUN_SECONDS
        while time.monotonic() < end:
            entry = self.json(f"/history/{prompt_id}").get(prompt_id)
            if entry and entry["status"]["completed"]:
                return entry
            for kind, what in entry["status"]["messages"] if entry else []:
                if kind in ("execution_error", "execution_interrupted"):
                    raise GraphError(what["node_id"], what.get("exception_message", kind))
            time.sleep(0.05)
        raise TimeoutError(f"the graph has not finished in {RUN_SECONDS} s")

    def run(self, graph: dict) -> dict:
        """Runs a graph; what its output nodes showed, by node id."""
        return self.wait(self.queue(graph))["outputs"]

    def picture(self, shown: dict) -> np.ndarray:
        """(H, W, C) uint8 of an image that an output node saved."""
        return np.asarray(Image.open(io.BytesIO(self.request("/view?" + urllib.parse.urlencode(shown)))))

    def saved(self, shown: dict) -> Path:
        """The file of an output node that saves."""
        return self.base / "output" / shown["subfolder"] / shown["filename"]

    def pictures(self, output: dict) -> list[np.ndarray]:
        return [self.picture(shown) for shown in output["images"]]

    def events(self) -> Events:
        return Events(self.address, self.client_id)


def read_exr(path: Path) -> np.ndarray:
    """(H, W, 3) float32 RGB of a file as ComfyUI writes it, or (H, W) of one with a single channel."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    return frame.to_ndarray() if frame.format.name == "grayf32le" else frame.to_ndarray(format="gbrpf32le")


class Video(NamedTuple):
    """A clip: (frames, H, W, 3) uint8, and how many of them make a second."""

    frames: np.ndarray
    fps: float


def read_video(path: Path) -> Video:
    """A file that Save Video wrote."""
    clip = cv2.VideoCapture(str(path))
    fps, frames = clip.get(cv2.CAP_PROP_FPS), []
    while (read := clip.read())[0]:
        frames.append(read[1])
    return Video(np.stack(frames), fps)


class Events:
    """Messages that ComfyUI pushes to a page, read from its websocket in the background."""

    def __init__(self, address: str, client_id: str) -> None:
        host, port = address.split(":")
        self.messages: list[dict] = []
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET /ws?clientId={client_id} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._stream = self._socket.makefile("rb")
        while self._stream.readline() not in (b"\r\n", b""):
            pass
        self._socket.settimeout(None)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while header := self._stream.read(2):
                length = header[1] & 0x7F
                if length >= 126:
                    extended = self._stream.read(2 if length == 126 else 8)
                    length = struct.unpack(">H" if length == 126 else ">Q", extended)[0]
                payload = self._stream.read(length)
                if header[0] & 0x0F == 1:  # a text frame
                    self.messages.append(json.loads(payload))
        except (OSError, ValueError):
            return  # closed

    def of(self, kind: str) -> list[dict]:
        return [message["data"] for message in self.messages if message["type"] == kind]

    def wait_for(self, kind: str, node: str) -> None:
        end = time.monotonic() + RUN_SECONDS
        while not any(data.get("node") == node for data in self.of(kind)):
            if time.monotonic() > end:
                raise TimeoutError(f"no {kind} of node {node} in {RUN_SECONDS} s")
            time.sleep(0.02)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def place_in_front_of_the_camera(model: torch.nn.Module) -> None:
    """Makes a random network's pointmaps possible: about 3 m away, at a scale of about 1."""
    with torch.no_grad():
        model.decode_head.predictor.weight.mul_(0.1)
        model.decode_head.predictor.bias.copy_(torch.tensor([0.0, 0.0, 3.0]))
        model.scale_head.predictor.proj.bias.fill_(1.0)


def make_checkpoints(models: Path) -> None:
    """A tiny random checkpoint of every task, some under official names too, one beside a config.json."""
    torch.manual_seed(0)
    ours, also = models / "sapiens2", models / "sapiens"
    for folder in (ours / "official", also / "sub"):
        folder.mkdir(parents=True)
    for task in TASKS:
        model = build(tiny_config(task), task)
        if task == "pointmap":
            place_in_front_of_the_camera(model)
        model.save_checkpoint(ours / f"tiny_{task}.safetensors")
        if task in OFFICIAL_SIZES:
            model.save_checkpoint(ours / "official" / f"sapiens2_{OFFICIAL_SIZES[task]}_{task}.safetensors")
        if task == "seg":
            model.save_pretrained(ours / "folder" / "tiny")
            model.save_checkpoint(also / "sub" / "other_seg.safetensors")
    (ours / "broken.safetensors").write_bytes(b"\x00" * 100)
    (also / "notes.txt").write_text("not a checkpoint")
    make_odd_files(ours / "odd")


def make_odd_files(folder: Path) -> None:
    """An official file under another name, a fine-tune of it for 12 classes, and what can't be read at all."""
    folder.mkdir()
    shapes = OFFICIAL_SHAPES["sapiens2_0.8b_seg"]
    write_sparse(folder / "renamed.safetensors", shapes)
    other = {name: [12, *shape[1:]] if "conv_seg" in name else shape for name, shape in shapes.items()}
    write_sparse(folder / "twelve_classes.safetensors", other)
    scalar = {"decode_head.conv_seg.weight": []}
    write_sparse(folder / "no_labels.safetensors", shapes | scalar)
    (folder / "config_of_nothing").mkdir()
    (folder / "config_of_nothing" / "config.json").write_text("[1, 2")
    write_sparse(folder / "config_of_nothing" / "model.safetensors", shapes)
    (folder / "two_in_one").mkdir()  # no index says that they belong together
    (folder / "two_in_one" / "config.json").write_text("{}")
    for name in ("first", "second"):
        write_sparse(folder / "two_in_one" / f"{name}.safetensors", scalar)
    (folder / "one_and_more").mkdir()  # model.safetensors is the one that is loaded
    (folder / "one_and_more" / "config.json").write_text("{}")
    for name in ("model", "optimizer"):
        write_sparse(folder / "one_and_more" / f"{name}.safetensors", scalar)
    with contextlib.suppress(OSError):  # Windows asks for a privilege
        (folder / "dangling.safetensors").symlink_to(folder / "nowhere.safetensors")


def make_inputs(folder: Path) -> None:
    """The photo as three small frames and a clip of them, in an odd size, and as ComfyUI's own example picture."""
    folder.mkdir(parents=True)
    with Image.open(PHOTO) as photo:
        small = photo.resize((256, 256))
        small.save(folder / "frame0.png")
        ImageOps.mirror(small).save(folder / "frame1.png")
        ImageOps.invert(small).save(folder / "frame2.png")
        small.save(folder / "example.png")
        photo.crop((100, 0, 401, 203)).save(folder / "odd.png")
        Image.new("L", (256, 256), 0).save(folder / "black.png")
        person = Image.new("L", (256, 256), 0)
        person.paste(255, (64, 0, 192, 256))
        person.save(folder / "mask.png")
    clip = cv2.VideoWriter(str(folder / "example.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 24, (256, 256))
    for number in range(3):
        clip.write(cv2.imread(str(folder / f"frame{number}.png")))
    clip.release()


def place_pack(custom_nodes: Path) -> None:
    custom_nodes.mkdir(parents=True)
    target = custom_nodes / "comfyui-sapiens2"
    try:
        target.symlink_to(PACK, target_is_directory=True)
    except OSError:  # Windows asks for a privilege
        shutil.copytree(PACK, target, ignore=shutil.ignore_patterns(".git", "tests", "__pycache__"))


@pytest.fixture(scope="session")
def hub():
    """The only hub that the server knows: a stand-in, empty unless a test puts something into it."""
    hub = Hub()
    server = hub.start()
    yield hub
    server.shutdown()
    server.server_close()


def make_elsewhere(base: Path) -> Path:
    """A models folder that only extra_model_paths.yaml names: a folder as transformers saves it, and a file."""
    folder = base / "elsewhere" / "people"
    folder.mkdir(parents=True)
    build(tiny_config("albedo"), "albedo").save_pretrained(folder / "saved" / "albedo")
    build(tiny_config("normal"), "normal").save_checkpoint(folder / "elsewhere_normal.safetensors")
    config = base / "extra_model_paths.yaml"
    config.write_text(f"test:\n  base_path: {folder.parent}\n  sapiens2: people\n", encoding="utf-8")
    return config


@pytest.fixture(scope="session")
def installation():
    """ComfyUI's folder and its Python."""
    found = find_comfyui()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def comfy(tmp_path_factory, hub, installation):
    """The server, one for all tests."""
    folder, python = installation
    base = tmp_path_factory.mktemp("comfyui")
    place_pack(base / "custom_nodes")
    for node in ("analytic_pointmap.py", "detectors.py", "memory_asked.py"):
        shutil.copy(Path(__file__).with_name(node), base / "custom_nodes")
    make_checkpoints(base / "models")
    make_inputs(base / "input")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = base / "log.txt"
    command = [python, folder / "main.py", "--cpu", "--disable-api-nodes", "--base-directory", base, "--port", port]
    command += ["--extra-model-paths-config", make_elsewhere(base)]
    environment = os.environ | {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_HUB_OFFLINE": "0",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)), cwd=base, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    server = ComfyUI(port, base)
    try:
        wait_until_up(server, process, log)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def wait_until_up(server: ComfyUI, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            server.json("/system_stats")
            return
        except OSError:
            time.sleep(0.2)
        stopped = process.poll() is not None
        if stopped or time.monotonic() > end:
            tail = " | ".join(log.read_text(errors="replace").splitlines()[-5:])
            pytest.skip(f"ComfyUI {'stopped' if stopped else f'was not up in {START_SECONDS} s'}: {tail}")
