"""The picker of Select Body Parts, in both of the page's node renderers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sapiens2_core.body_parts import BODY_PARTS, PART_GROUPS
from sapiens2_core.part_selection import parse_parts

WORKFLOW = Path(__file__).absolute().parents[2] / "workflows" / "sapiens2_clothes.json"
TYPED = ["左手, Upper-Clothes", "left arm; lips", "r hand, 髪の毛", "Glasses", "skin"]
PARTS = "person"


def graph_with_tiny_checkpoint() -> dict:
    graph = json.loads(WORKFLOW.read_text(encoding="utf-8"))
    for node in graph["nodes"]:
        if node["type"] == "Sapiens2LoadModel":
            node["widgets_values"][0] = "tiny_seg.safetensors"
    return graph


def names(text: str) -> set[str]:
    return {BODY_PARTS[index].name for index in parse_parts(text)}


def assert_shows(state: dict, text: str) -> None:
    """The text is the widget's value, and the list and the figure show the parts that the core finds in it."""
    assert state["text"] == state["widget"] == text
    assert set(state["checked"]) == set(state["drawn"]) == names(text)
    full = {group.name for group in PART_GROUPS if {BODY_PARTS[i].name for i in group.ids} <= names(text)}
    assert set(state["pressed"]) == full
    assert state["unknown"] == ""


@pytest.fixture(scope="module", params=[False, True], ids=["classic", "vue"])
def steps(request, drive):
    graph = graph_with_tiny_checkpoint()
    for node in graph["nodes"]:
        if node["type"] == "Sapiens2SelectBodyParts":  # or the second run would find its result in the cache
            node["widgets_values"][2] = 3 + request.param
    return drive("picker.js", graph=graph, vue=request.param, typed=[*TYPED, "hiar, Torso"], parts=PARTS)


def test_picking_writes_a_plain_text(steps):
    assert_shows(steps["opened"], "clothes")
    assert_shows(steps["group"], "clothes, hair")
    assert_shows(steps["figure"], "clothes, hair, Left_Hand")


def test_a_part_is_found_and_taken_off_with_the_keyboard_alone(steps):
    assert steps["searched"] == ["Upper_Clothing"]
    assert steps["searchedInVain"] == "No part is called that."
    state = steps["keyboard"]
    assert set(state["checked"]) == names("clothes, hair, Left_Hand") - {"Upper_Clothing"}
    assert_shows(state, state["text"])


def test_the_page_understands_texts_as_the_core_does(steps):
    *understood, unknown = steps["typed"]
    for text, state in zip(TYPED, understood, strict=True):
        assert_shows(state, text)
    assert unknown["unknown"].endswith("hiar")
    assert unknown["checked"] == ["Torso"]


def test_after_a_run_the_found_parts_are_shown_with_their_share(steps, comfy):
    entry = max(comfy.json("/history").values(), key=lambda entry: entry["prompt"][0])
    (found,) = [output["body_parts"] for output in entry["outputs"].values() if "body_parts" in output]
    shown = {part: "<0.1 %" if share < 0.001 else f"{share * 100:.1f} %" for part, share in found}
    assert len(shown) > 3
    assert dict(steps["shares"]) == shown


def test_after_a_run_the_saved_pictures_are_seen(steps):
    assert steps["previews"] == [256, 256]


def test_the_page_has_no_errors(steps):
    assert steps["errors"] == []
