"""The README's Python runs as printed, with a tiny checkpoint in the place of a real one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from sapiens2_core.config import tiny_config
from sapiens2_core.estimators import build

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_examples_run_as_printed(tmp_path, monkeypatch):
    examples = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(examples) == 2
    monkeypatch.chdir(tmp_path)
    build(tiny_config("normal"), "normal").save_checkpoint("sapiens2_0.4b_normal.safetensors")
    shutil.copy(ROOT / "assets" / "astronaut.jpg", "photo.jpg")
    Path("photos").mkdir()
    for name in ("a.jpg", "b.jpg"):
        shutil.copy("photo.jpg", Path("photos", name))

    found: dict[str, object] = {}
    exec(examples[0], found)
    assert found["normals"].shape == (3, 512, 512)
    exec(examples[1], {})

    pictures = sorted(tmp_path.glob("normal_*.png"))
    assert [picture.name for picture in pictures] == ["normal_0000.png", "normal_0001.png"]
    with Image.open(pictures[0]) as picture:
        assert picture.size == (512, 512)


@pytest.mark.parametrize("link", re.findall(r"\]\(((?!https?:)[^)#]+)\)", TEXT))
def test_links_into_the_repository_lead_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:tools|benchmarks|sapiens2_core|assets|workflows)/[\w./]+)", TEXT)))
)
def test_files_that_are_named_exist(path):
    assert (ROOT / path).exists()
