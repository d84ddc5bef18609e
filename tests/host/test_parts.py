"""Body parts in a real ComfyUI: masks beside the core's, errors where they belong, and what the page is told."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sapiens2_core.body_parts import BODY_PARTS, PALETTE, PART_GROUPS
from sapiens2_core.part_masks import MaskFinish, found_parts, part_masks
from sapiens2_core.part_selection import parse_parts
from sapiens2_core.results import Segmentation

FINISH = {"grow": 0, "feather": 0.0, "fill_holes": 0, "min_area": 0, "steady": 0, "invert": False}
PARTS = "Hair, left arm, clothes"


def graph(parts=PARTS, soft=False, segment_soft=False, frames=1, **finish) -> dict:
    """Picture → parts → mask → picture; the coloured parts are shown, too."""
    return {
        "load": {
            "class_type": "Sapiens2LoadModel",
            "inputs": {"checkpoint": "tiny_seg.safetensors", "precision": "fp32"},
        },
        "image": {"class_type": "LoadImage", "inputs": {"image": "odd.png"}},
        "clip": {"class_type": "RepeatImageBatch", "inputs": {"image": ["image", 0], "amount": frames}},
        "segment": {
            "class_type": "Sapiens2SegmentBodyParts",
            "inputs": {"estimator": ["load", 0], "image": ["clip", 0], "batch_size": 1, "soft": segment_soft},
        },
        "select": {
            "class_type": "Sapiens2SelectBodyParts",
            "inputs": {"segmentation": ["segment", 0], "parts": parts, "soft": soft, **FINISH, **finish},
        },
        "picture": {"class_type": "MaskToImage", "inputs": {"mask": ["select", 0]}},
        "mask": {"class_type": "PreviewImage", "inputs": {"images": ["picture", 0]}},
        "colored": {"class_type": "PreviewImage", "inputs": {"images": ["segment", 2]}},
    }


def labels_of(comfy, outputs) -> torch.Tensor:
    """Label maps, read back from their colours."""
    pictures = torch.from_numpy(np.stack(comfy.pictures(outputs["colored"])).astype(np.int64))
    return (pictures[..., None, :] == PALETTE.long()).all(dim=-1).int().argmax(dim=-1).to(torch.uint8)


@pytest.mark.parametrize(
    ("frames", "finish"),
    [
        (1, {}),
        (1, {"invert": True}),
        (1, {"grow": 3, "feather": 4.0, "fill_holes": 50, "min_area": 20}),
        (3, {"steady": 1, "grow": -1}),
    ],
    ids=["plain", "inverted", "finished", "clip"],
)
def test_masks_are_the_cores(comfy, frames, finish):
    outputs = comfy.run(graph(frames=frames, **finish))
    labels = labels_of(comfy, outputs)
    expected = list(part_masks(Segmentation(labels), parse_parts(PARTS), finish=MaskFinish(**finish)))
    shown = comfy.pictures(outputs["mask"])
    assert len(shown) == len(expected) == frames
    for picture, mask in zip(shown, expected, strict=True):
        assert 0 < mask.mean() < 1
        assert np.abs(picture[..., 0] - mask.numpy() * 255).max() <= 1


def test_the_page_is_told_which_parts_there_are_and_their_share(comfy):
    outputs = comfy.run(graph())
    found = found_parts(labels_of(comfy, outputs))
    assert dict(outputs["select"]["body_parts"]) == pytest.approx({BODY_PARTS[i].name: s for i, s in found.items()})


def test_the_page_gets_its_names_colours_and_groups_from_the_table(comfy):
    kind, options = comfy.json("/object_info/Sapiens2SelectBodyParts")["Sapiens2SelectBodyParts"]["input"]["required"][
        "parts"
    ]
    assert kind == "STRING"
    table = options["bodyParts"]
    assert [(p["id"], p["name"], tuple(p["color"])) for p in table["parts"]] == [
        (part.id, part.name, part.color) for part in BODY_PARTS
    ]
    assert [(g["name"], tuple(g["ids"])) for g in table["groups"]] == [(g.name, g.ids) for g in PART_GROUPS]
    assert options["widgetType"] in comfy.request("/extensions/comfyui-sapiens2/js/body_parts.js").decode()


def test_an_unknown_part_is_refused_before_anything_runs(comfy):
    without_colours = graph("Face_Neck, hiar")
    del without_colours["colored"]  # ComfyUI runs those branches that are fine
    with pytest.raises(comfy.GraphError, match=r'There is no body part "hiar"\. Did you mean hair') as refused:
        comfy.queue(without_colours)
    assert refused.value.node == "select"


def test_parts_may_come_from_another_node(comfy):
    linked = graph()
    linked["text"] = {"class_type": "PrimitiveString", "inputs": {"value": PARTS}}
    linked["select"]["inputs"]["parts"] = ["text", 0]
    typed, fed = comfy.run(graph()), comfy.run(linked)
    assert all(map(np.array_equal, comfy.pictures(typed["mask"]), comfy.pictures(fed["mask"])))
    linked["text"]["inputs"]["value"] = "nonsense"
    with pytest.raises(comfy.GraphError, match='There is no body part "nonsense"'):
        comfy.run(linked)


def test_soft_masks_have_soft_edges_and_agree_with_hard_ones(comfy):
    hard = comfy.pictures(comfy.run(graph("person", segment_soft=True))["mask"])[0][..., 0]
    soft = comfy.pictures(comfy.run(graph("person", segment_soft=True, soft=True))["mask"])[0][..., 0]
    assert len(np.unique(hard)) == 2
    assert len(np.unique(soft)) > 20
    # The parts of a person compete with each other, too: together they may win where each alone does not.
    assert (soft[hard == 255] > 60).all()


def test_soft_masks_need_probabilities(comfy):
    with pytest.raises(comfy.GraphError, match="Turn on soft in Segment Body Parts") as stopped:
        comfy.run(graph(soft=True))
    assert stopped.value.node == "select"
