"""The subgraph blueprints that ship with the pack, in the real host and the real page."""

from __future__ import annotations

import pytest

from tools import blueprints

PREVIEWS = {"IMAGE": "PreviewImage", "MASK": "MaskPreview", "MESH": "SaveGLB"}


@pytest.fixture(scope="module")
def added(drive):
    return drive("blueprints.js", names=list(blueprints.ALL), picture="example.png", previews=PREVIEWS)


def test_the_page_has_no_errors(added):
    assert added["errors"] == []


@pytest.mark.parametrize("name", blueprints.ALL)
def test_a_blueprint_shows_its_settings_and_runs(added, comfy, name):
    labels = {
        label
        for label, ((node, slot), *_) in blueprints.ALL[name].inputs.items()
        if [str(node), slot] in blueprints.make(name, blueprints.ALL[name])["nodes"][0]["properties"]["proxyWidgets"]
    }
    shown = dict(added["widgets"][name])
    assert set(shown) == labels
    assert shown[next(label for label in shown if "checkpoint" in label)].startswith("facebook/sapiens2-")
    outputs = comfy.run(added["prompts"][name])
    files = [file for output in outputs.values() for kind in ("images", "3d") for file in output.get(kind, [])]
    assert files
    for file in files:
        if not file["filename"].endswith(".glb"):
            assert comfy.picture(file).std() > 1
