"""What the package asks of a user's machine, and what its parts may know of each other."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def requirements() -> list[str]:
    return (ROOT / "requirements.txt").read_text().split()


def test_requirements_are_those_of_the_package():
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[(.*?)\]", project, re.DOTALL | re.MULTILINE).group(1)
    assert re.findall(r'"([^"]+)"', listed) == requirements()


def test_requirements_leave_the_hosts_torch_alone():
    names = {re.split(r"[<>=~\[]", line)[0].lower() for line in requirements()}
    assert names.isdisjoint({"torch", "torchvision", "torchaudio", "transformers"})


def imports(file: Path) -> set[str]:
    """Top-level names of the modules that a file imports; relative imports as "."."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else node.module.split(".")[0])
    return found


CORE = sorted((ROOT / "sapiens2_core").rglob("*.py"))
NODES = sorted((ROOT / "nodes").rglob("*.py"))
HOST = {"comfy", "comfy_api", "comfy_execution", "folder_paths", "nodes", "server"}


@pytest.mark.parametrize("file", CORE, ids=lambda file: file.name)
def test_core_knows_no_host_and_imports_itself_relatively(file):
    assert imports(file).isdisjoint(HOST | {"sapiens2_core", "torchvision", "transformers"})


@pytest.mark.parametrize("file", CORE + NODES, ids=lambda file: file.name)
def test_only_declared_packages_are_imported(file):
    declared = {"numpy", "PIL", "cv2", "safetensors", "huggingface_hub", "kornia", "scipy", "tqdm", "torch", "."}
    optional = {"av"} if file.name == "files.py" else set()  # ComfyUI brings it; the error without it says so
    allowed = declared | optional | (HOST if file in NODES else set()) | set(sys.stdlib_module_names)
    assert imports(file) <= allowed


HOST_FILES = {"host.py", "host_detector.py"}


@pytest.mark.parametrize("file", [file for file in NODES if file.name not in HOST_FILES], ids=lambda file: file.name)
def test_only_the_host_files_touch_the_hosts_insides(file):
    assert imports(file).isdisjoint({"comfy", "comfy_execution", "folder_paths", "server"})


@pytest.mark.parametrize("file", CORE + NODES, ids=lambda file: file.name)
def test_files_hold_one_idea(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400
