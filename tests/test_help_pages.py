"""Help pages and their pictures; that they name every input is tried with the running host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

DOCS = Path(__file__).parent.parent / "web" / "docs"
PAGES = sorted(DOCS.glob("*.md"))
#: What a network sees can't be drawn without one.
WITHOUT_PICTURE = {"Sapiens2ExtractFeatures"}


def pictures_of(page: Path) -> list[str]:
    return re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in WITHOUT_PICTURE], ids=lambda page: page.stem
)
def test_a_page_has_a_picture(page):
    (name,) = pictures_of(page)
    with Image.open(DOCS / name) as picture:
        assert min(picture.size) >= 200
        assert picture.format == "JPEG"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_goes_in_and_what_to_connect(page):
    headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings.count("Inputs") == 1
    assert headings.count("What to connect") == 1


def test_pictures_are_small_and_each_is_shown():
    files = set((DOCS / "pictures").iterdir())
    assert files == {DOCS / name for page in PAGES for name in pictures_of(page)}
    assert all(file.stat().st_size <= 40_000 for file in files)
