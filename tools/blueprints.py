"""Makes the subgraph blueprints that ComfyUI offers beside its nodes, out of the graphs in workflows/.

python -m tools.blueprints

A blueprint is what lies between the pictures that come in and those that go out, as one node.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS, BLUEPRINTS = ROOT / "workflows", ROOT / "subgraphs"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "comfyui-sapiens2/subgraphs")

#: Ids that ComfyUI's format gives to what comes in and what goes out, and how far from the nodes they are drawn.
INPUTS, OUTPUTS, APART, ROW = -10, -20, 220, 20

#: A node of a graph, and the name of an input or output of it.
Slot = tuple[int, str]


@dataclass(frozen=True)
class Blueprint:
    """What of a graph becomes one node.

    Attributes:
        graph: file in workflows/, without .json.
        description: shown with the node in ComfyUI's search.
        aliases: words it is found by.
        inputs: by name, the inputs that each feeds: sockets and widgets.
        outputs: by name. Nodes that none of them needs are left out.
    """

    graph: str
    description: str
    aliases: tuple[str, ...]
    inputs: dict[str, tuple[Slot, ...]]
    outputs: dict[str, Slot]


ALL = {
    "Image to Pose Map (Sapiens2)": Blueprint(
        "sapiens2_pose",
        "Finds people's keypoints and draws them for OpenPose ControlNets.",
        ("openpose", "dwpose", "skeleton", "controlnet pose"),
        {
            "image": ((4, "image"),),
            "boxes": ((4, "boxes"),),
            "mask": ((4, "mask"),),
            "checkpoint": ((2, "checkpoint"),),
            "style": ((5, "style"),),
            "hands": ((5, "hands"),),
            "face": ((5, "face"),),
        },
        {"pose map": (5, "image"), "keypoints": (4, "keypoints")},
    ),
    "Image to Normal Map (Sapiens2)": Blueprint(
        "sapiens2_normals",
        "Makes a normal map of people.",
        ("normal map", "surface normals", "normalbae", "controlnet normal"),
        {
            "image": ((4, "image"),),
            "mask": ((4, "mask"),),
            "checkpoint": ((2, "checkpoint"),),
            "convention": ((4, "convention"),),
            "background": ((4, "background"),),
        },
        {"normal map": (4, "normals")},
    ),
    "Image to Depth Map (Sapiens2)": Blueprint(
        "sapiens2_depth",
        "Makes a depth picture of people for depth ControlNets, black behind them, and depth in metres.",
        ("depth map", "depth estimation", "controlnet depth"),
        {
            "image": ((5, "image"), (6, "image")),
            "pointmap checkpoint": ((2, "checkpoint"),),
            "seg checkpoint": ((3, "checkpoint"),),
            "background": ((7, "background"),),
            "color": ((7, "color"),),
        },
        {"depth map": (7, "depth"), "metres": (7, "metres"), "person": (5, "person")},
    ),
    "Image to Clothes Mask (Sapiens2)": Blueprint(
        "sapiens2_clothes",
        "Makes a mask of the clothes, or of other body parts: open it to pick them.",
        ("clothes mask", "human parsing", "hair mask", "skin mask", "inpaint mask"),
        {
            "image": ((4, "image"),),
            "checkpoint": ((2, "checkpoint"),),
            "grow": ((5, "grow"),),
            "feather": ((5, "feather"),),
            "invert": ((5, "invert"),),
        },
        {"mask": (5, "mask"), "person": (4, "person"), "colored": (4, "colored")},
    ),
    "Remove Background (Sapiens2)": Blueprint(
        "sapiens2_matte",
        "Cuts people out with their hair, and puts them on another background.",
        ("matte", "matting", "cutout", "transparent background", "replace background"),
        {
            "image": ((5, "image"),),
            "background image": ((5, "background_image"),),
            "checkpoint": ((2, "checkpoint"),),
            "background color": ((5, "background_color"),),
            "color from": ((5, "color_from"),),
        },
        {"cutout": (5, "rgba"), "alpha": (5, "alpha"), "composite": (5, "composite")},
    ),
    "Image to Mesh (Sapiens2)": Blueprint(
        "sapiens2_mesh",
        "Makes a 3D surface of a photo of people, in metres, and the camera that sees it as the photo does.",
        ("3d", "mesh", "glb", "photo to 3d"),
        {
            "image": ((10, "image"), (3, "image")),
            "pointmap checkpoint": ((1, "checkpoint"),),
            "seg checkpoint": ((9, "checkpoint"),),
            "edge tolerance": ((4, "edge_tolerance"),),
            "stride": ((4, "stride"),),
        },
        {"mesh": (4, "mesh"), "glb": (4, "glb"), "camera info": (5, "camera_info")},
    ),
    "Video to Pose and Face (Sapiens2)": Blueprint(
        "sapiens2_video",
        "Draws the steady pose of a person in a clip, and cuts the face out in one steady square, frame for frame.",
        ("wan animate", "vace", "face crop", "video pose", "dwpose"),
        {
            "frames": ((5, "image"), (9, "image")),
            "people's boxes": ((5, "boxes"),),
            "people's mask": ((5, "mask"),),
            "checkpoint": ((2, "checkpoint"),),
            "strength": ((6, "strength"),),
            "face points": ((7, "face"),),
            "person": ((8, "person"),),
            "padding": ((8, "padding"),),
        },
        {"pose video": (7, "image"), "face video": (9, "IMAGE"), "boxes": (8, "boxes")},
    ),
}


def _index(slots: list[dict[str, Any]], name: str) -> int:
    return next(index for index, slot in enumerate(slots) if slot["name"] == name)


def _needed(graph: dict[str, Any], outputs: list[int], replaced: set[tuple[int, int]]) -> set[int]:
    """The nodes that outputs come from; a link into an input that the blueprint feeds itself isn't followed."""
    found, left = set(), outputs
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += [link[1] for link in graph["links"] if link[3] == node and (link[3], link[4]) not in replaced]
    return found


def _side(node_id: int, x: float, y: float, count: int) -> dict[str, Any]:
    return {"id": node_id, "bounding": [x, y, 140, ROW * (count + 2)]}


def _describe(name: str, side: str, slots: list[dict[str, Any]], x: float, y: float) -> list[dict[str, Any]]:
    """Inputs or outputs with ids that stay the same whenever this tool is run."""
    return [
        {"id": str(uuid.uuid5(NAMESPACE, f"{name}/{side}/{slot['name']}")), **slot, "pos": [x, y + ROW * (index + 1)]}
        for index, slot in enumerate(slots)
    ]


def make(name: str, blueprint: Blueprint) -> dict[str, Any]:
    """A blueprint as ComfyUI's page would save it.

    Args:
        name: shown on the node, and the file's.
        blueprint: what is in it.
    """
    graph = json.loads((WORKFLOWS / f"{blueprint.graph}.json").read_text(encoding="utf-8"))
    by_id = {node["id"]: node for node in graph["nodes"]}
    fed = {
        (node, _index(by_id[node]["inputs"], slot)): index
        for index, slots in enumerate(blueprint.inputs.values())
        for node, slot in slots
    }
    kept = _needed(graph, [node for node, _ in blueprint.outputs.values()], set(fed))
    nodes = [node for node in graph["nodes"] if node["id"] in kept]

    keys = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
    links = [
        dict(zip(keys, link, strict=True))
        for link in graph["links"]
        if link[1] in kept and link[3] in kept and (link[3], link[4]) not in fed
    ]
    ends = [(INPUTS, index, node, slot, by_id[node]["inputs"][slot]["type"]) for (node, slot), index in fed.items()]
    for index, (node, output) in enumerate(blueprint.outputs.values()):
        slot = _index(by_id[node]["outputs"], output)
        ends.append((node, slot, OUTPUTS, index, by_id[node]["outputs"][slot]["type"]))
    first = graph["last_link_id"] + 1
    links += [dict(zip(keys, (number, *end), strict=True)) for number, end in enumerate(ends, first)]

    for order, node in enumerate(nodes):
        node["order"] = order
        for index, slot in enumerate(node["inputs"]):
            arriving = [link["id"] for link in links if (link["target_id"], link["target_slot"]) == (node["id"], index)]
            slot["link"] = arriving[0] if arriving else None
        for index, slot in enumerate(node["outputs"]):
            leaving = [link["id"] for link in links if (link["origin_id"], link["origin_slot"]) == (node["id"], index)]
            slot["links"] = leaving or None

    inputs, outside, promoted = [], [], []
    for index, (label, slots) in enumerate(blueprint.inputs.items()):
        node, slot_name = slots[0]
        slot = by_id[node]["inputs"][_index(by_id[node]["inputs"], slot_name)]
        ids = [link["id"] for link in links if (link["origin_id"], link["origin_slot"]) == (INPUTS, index)]
        inputs.append({"name": label, "type": slot["type"], "linkIds": ids})
        outside.append({"name": label, "type": slot["type"], "link": None})
        if "widget" in slot:
            outside[-1]["widget"] = {"name": label}
            promoted.append([str(node), slot_name])
    outputs = []
    for index, label in enumerate(blueprint.outputs):
        (link,) = [link for link in links if (link["target_id"], link["target_slot"]) == (OUTPUTS, index)]
        outputs.append({"name": label, "type": link["type"], "linkIds": [link["id"]]})

    left, right = min(node["pos"][0] for node in nodes), max(node["pos"][0] + node["size"][0] for node in nodes)
    top = min(node["pos"][1] for node in nodes)
    inner_id = str(uuid.uuid5(NAMESPACE, name))
    inner = {
        "id": inner_id,
        "version": 1,
        "revision": 0,
        "state": {
            "lastGroupId": 0,
            "lastNodeId": graph["last_node_id"],
            "lastLinkId": first + len(ends) - 1,
            "lastRerouteId": 0,
        },
        "config": {},
        "name": name,
        "description": blueprint.description,
        "category": "Sapiens2",
        "inputNode": _side(INPUTS, left - APART, top, len(inputs)),
        "outputNode": _side(OUTPUTS, right + APART - 140, top, len(outputs)),
        "inputs": _describe(name, "in", inputs, left - APART + 120, top),
        "outputs": _describe(name, "out", outputs, right + APART - 120, top),
        "widgets": [],
        "nodes": nodes,
        "groups": [],
        "links": links,
        "extra": {},
    }
    outer = {
        "id": 1,
        "type": inner_id,
        "pos": [0, 0],
        "size": [360, 60 + 24 * len(outside)],
        "flags": {},
        "order": 0,
        "mode": 0,
        "inputs": outside,
        "outputs": [{"name": slot["name"], "type": slot["type"], "links": None} for slot in outputs],
        "title": name,
        "properties": {"cnr_id": "comfyui-sapiens2", "ver": "0.1.0", "proxyWidgets": promoted},
        "widgets_values": [],
    }
    return {
        "revision": 0,
        "last_node_id": 1,
        "last_link_id": 0,
        "nodes": [outer],
        "links": [],
        "version": 0.4,
        "definitions": {"subgraphs": [inner]},
        "extra": {"BlueprintDescription": blueprint.description, "BlueprintSearchAliases": list(blueprint.aliases)},
    }


def text_of(name: str) -> str:
    """The file's text."""
    return json.dumps(make(name, ALL[name]), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Writes every blueprint."""
    BLUEPRINTS.mkdir(exist_ok=True)
    for name in ALL:
        (BLUEPRINTS / f"{name}.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
