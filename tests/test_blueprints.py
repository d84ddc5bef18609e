"""Subgraph blueprints are made from the graphs; that ComfyUI takes and runs them is tried in its own page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import blueprints

FOLDER = Path(__file__).parent.parent / "subgraphs"


def test_the_files_are_those_that_the_tool_makes():
    assert {path.stem for path in FOLDER.iterdir()} == set(blueprints.ALL)
    for name in blueprints.ALL:
        assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == blueprints.text_of(name), (
            f"{name} has fallen behind its graph: run python -m tools.blueprints"
        )


@pytest.mark.parametrize("name", blueprints.ALL)
def test_links_agree_with_the_slots_at_both_ends(name):
    (outer,) = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["nodes"]
    (inner,) = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["definitions"]["subgraphs"]
    assert outer["type"] == inner["id"]
    nodes = {node["id"]: node for node in inner["nodes"]}
    links = {link["id"]: link for link in inner["links"]}
    assert len(links) == len(inner["links"])
    assert len({(link["target_id"], link["target_slot"]) for link in links.values()}) == len(links)
    for number, link in links.items():
        if link["origin_id"] == -10:
            start = inner["inputs"][link["origin_slot"]]
            assert number in start["linkIds"]
        else:
            start = nodes[link["origin_id"]]["outputs"][link["origin_slot"]]
            assert number in start["links"]
        if link["target_id"] == -20:
            end = inner["outputs"][link["target_slot"]]
            assert end["linkIds"] == [number]
        else:
            end = nodes[link["target_id"]]["inputs"][link["target_slot"]]
            assert end["link"] == number
        assert start["type"] == link["type"]
        assert link["type"] == end["type"] or link["type"] in end["type"].split(",")
    carried = {number for node in nodes.values() for slot in node["inputs"] if (number := slot["link"]) is not None}
    carried |= {number for slot in inner["outputs"] for number in slot["linkIds"]}
    assert carried == set(links)
    for side in ("inputs", "outputs"):
        assert [slot["name"] for slot in outer[side]] == [slot["name"] for slot in inner[side]]
        assert [slot["type"] for slot in outer[side]] == [slot["type"] for slot in inner[side]]


def test_a_blueprint_stands_for_each_graph_that_ends_before_a_diffusion_model():
    """All but the one that saves depth in another format: a blueprint saves nothing."""
    graphs = {path.stem for path in (FOLDER.parent / "workflows").glob("*.json")}
    before = {name for name in graphs if not name.endswith(("_controlnet", "_inpaint", "_animate", "_exr"))}
    assert {blueprint.graph for blueprint in blueprints.ALL.values()} == before
