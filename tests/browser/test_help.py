"""The help that the page shows for each node."""

from __future__ import annotations

from tests.test_help_pages import PAGES, WITHOUT_PICTURE


def test_help_is_shown_with_its_picture(drive):
    titles = {page.stem: page.read_text(encoding="utf-8").split("\n")[0].removeprefix("# ") for page in PAGES}
    result = drive("help.js", types=list(titles), titles=titles)
    assert set(result["pages"]) == set(titles)
    for node, widths in result["pages"].items():
        assert len(widths) == (node not in WITHOUT_PICTURE), node
        assert all(width >= 400 for width in widths), node
    assert result["errors"] == []
