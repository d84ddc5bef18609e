"""Fixtures for all tests."""

import importlib.util
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def synthetic_person():
    """Function that makes a person with all 308 keypoints; see synthetic_person.py."""
    path = Path(__file__).with_name("synthetic_person.py")
    spec = importlib.util.spec_from_file_location("synthetic_person", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.synthetic_person


@pytest.fixture(scope="session")
def sdpose_source():
    """Text of ComfyUI's nodes_sdpose.py: tests take functions out of it, as the file itself needs a running host."""
    folder = Path(os.environ.get("COMFYUI_PATH", Path.home() / "comfy" / "ComfyUI"))
    file = folder / "comfy_extras" / "nodes_sdpose.py"
    if not file.is_file():
        pytest.skip("needs COMFYUI_PATH to point to a ComfyUI that has comfy_extras/nodes_sdpose.py")
    return file.read_text(encoding="utf-8")
