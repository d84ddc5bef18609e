"""The real ComfyUI lists the subgraph blueprints as this pack's, and knows their nodes as they are drawn."""

from __future__ import annotations

import json

import pytest

from tools import blueprints


@pytest.fixture(scope="module")
def listed(comfy):
    entries = comfy.json("/global_subgraphs")
    return {entry["name"]: key for key, entry in entries.items() if "comfyui-sapiens2" in entry["info"]["node_pack"]}


def test_comfyui_lists_every_blueprint(listed):
    assert set(listed) == set(blueprints.ALL)


@pytest.mark.parametrize("name", blueprints.ALL)
def test_comfyui_gives_it_out_whole_and_has_its_nodes(comfy, listed, name):
    entry = comfy.json(f"/global_subgraphs/{listed[name]}")
    assert entry["source"] == "custom_node"
    blueprint = json.loads(entry["data"])
    assert blueprint == blueprints.make(name, blueprints.ALL[name])
    assert {node["type"] for node in blueprint["definitions"]["subgraphs"][0]["nodes"]} <= set(
        comfy.json("/object_info")
    )
