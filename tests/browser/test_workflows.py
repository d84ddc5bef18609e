"""The graphs that ship with the pack, opened in the real page."""

from __future__ import annotations

import json
from pathlib import Path

WORKFLOWS = sorted((Path(__file__).absolute().parents[2] / "workflows").glob("*.json"))


def test_no_workflow_has_a_node_that_the_page_misses(drive):
    graphs = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in WORKFLOWS}
    result = drive("workflows.js", graphs=graphs)
    assert set(result["missing"]) == set(graphs)
    assert not any(result["missing"].values()), result["missing"]
    assert result["errors"] == []
