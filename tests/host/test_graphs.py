"""What the pack shows of itself: schemas, help pages, and the graphs that ship with it."""

from __future__ import annotations

import json
import re
import urllib.error
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from sapiens2_core.hub import CATALOGUE
from tests.host.conftest import read_exr, read_video

PACK = Path(__file__).absolute().parents[2]
WORKFLOWS = sorted((PACK / "workflows").glob("*.json"))
#: Graphs that go on with a diffusion model, which isn't there when tests run.
CONTINUED = [path for path in WORKFLOWS if path.stem.endswith(("_controlnet", "_inpaint", "_animate"))]
VIDEO = PACK / "workflows" / "sapiens2_video.json"

#: Nodes that load a model, and the folder it lies in.
LOADERS = {
    "Sapiens2LoadModel": "sapiens2",
    "CheckpointLoaderSimple": "checkpoints",
    "ControlNetLoader": "controlnet",
    "UNETLoader": "diffusion_models",
    "LoraLoaderModelOnly": "loras",
    "CLIPLoader": "text_encoders",
    "CLIPVisionLoader": "clip_vision",
    "VAELoader": "vae",
}

NODES = {
    "Sapiens2LoadModel": ("Load Sapiens2", "Sapiens2"),
    "Sapiens2EstimatePose": ("Estimate Pose (Sapiens2)", "Sapiens2/Pose"),
    "Sapiens2SelectPeople": ("Select People", "Sapiens2/Pose"),
    "Sapiens2BoxesFromPose": ("Boxes from Pose", "Sapiens2/Pose"),
    "Sapiens2BoxesFromMask": ("Boxes from Mask", "Sapiens2/Pose"),
    "Sapiens2SmoothPose": ("Smooth Pose", "Sapiens2/Pose"),
    "Sapiens2RenderPose": ("Render Pose (Sapiens2)", "Sapiens2/Pose"),
    "Sapiens2LoadPose": ("Load Pose (Sapiens2)", "Sapiens2/Pose"),
    "Sapiens2SavePose": ("Save Pose (Sapiens2)", "Sapiens2/Pose"),
    "Sapiens2SegmentBodyParts": ("Segment Body Parts (Sapiens2)", "Sapiens2"),
    "Sapiens2SelectBodyParts": ("Select Body Parts", "Sapiens2"),
    "Sapiens2EstimateNormals": ("Estimate Normals (Sapiens2)", "Sapiens2/3D"),
    "Sapiens2EstimatePointmap": ("Estimate Pointmap (Sapiens2)", "Sapiens2/3D"),
    "Sapiens2PointmapToDepth": ("Pointmap to Depth", "Sapiens2/3D"),
    "Sapiens2PointmapNormals": ("Normals from Pointmap", "Sapiens2/3D"),
    "Sapiens2PointmapToMesh": ("Pointmap to Mesh", "Sapiens2/3D"),
    "Sapiens2PointmapToPointCloud": ("Pointmap to Point Cloud", "Sapiens2/3D"),
    "Sapiens2PointmapCamera": ("Camera from Pointmap", "Sapiens2/3D"),
    "Sapiens2SavePointmap": ("Save Pointmap", "Sapiens2/3D"),
    "Sapiens2Matting": ("Matting (Sapiens2)", "Sapiens2"),
    "Sapiens2EstimateAlbedo": ("Estimate Albedo (Sapiens2)", "Sapiens2"),
    "Sapiens2ExtractFeatures": ("Extract Features (Sapiens2)", "Sapiens2"),
}

#: Names that another pack, kijai/ComfyUI-Sapiens2, has: both must live side by side.
TAKEN = {
    "Sapiens2Loader", "Sapiens2Normal", "Sapiens2Seg", "Sapiens2SegExtract", "Sapiens2Pointmap", "Sapiens2Pose",
    "Sapiens2DrawPose", "SAPIENS2_MODEL",
}  # fmt: skip

#: A choice that brings inputs of its own.
DYNAMIC_COMBO = "COMFY_DYNAMICCOMBO_V3"
#: Types whose inputs have a widget, so that graphs store their values by position.
WIDGET_TYPES = {"INT", "FLOAT", "STRING", "BOOLEAN", "COMBO", "COLOR", DYNAMIC_COMBO}


@pytest.fixture(scope="module")
def all_nodes(comfy):
    return comfy.json("/object_info")


@pytest.fixture(scope="module")
def ours(all_nodes):
    return {name: node for name, node in all_nodes.items() if "comfyui-sapiens2" in (node["python_module"] or "")}


def inputs_of(node: dict) -> dict[str, list]:
    """Inputs in the order in which the page shows them."""
    return {**node["input"].get("required", {}), **node["input"].get("optional", {})}


def has_widget(kind, options: dict | None = None) -> bool:
    return (isinstance(kind, list) or kind in WIDGET_TYPES) and not (options or {}).get("forceInput")


def inputs_as_saved(info: dict, values: list) -> dict[str, list]:
    """Inputs of a node in a graph, which has chosen by its widgets' values what its dynamic combos bring."""
    found = {}
    for name, spec in inputs_of(info).items():
        found[name] = spec
        if spec[0] == DYNAMIC_COMBO:
            chosen = values[sum(has_widget(*other) for other in found.values()) - 1]
            (option,) = (option for option in spec[1]["options"] if option["key"] == chosen)
            found |= {f"{name}.{more}": spec for more, spec in inputs_of({"input": option["inputs"]}).items()}
    return found


def test_the_nodes_are_there_under_their_names(ours):
    assert {name: (node["display_name"], node["category"]) for name, node in ours.items()} == NODES


def test_every_input_and_output_says_what_it_does(ours):
    for name, node in ours.items():
        assert node["description"].endswith("."), name
        for input_name, (_, options) in inputs_of(node).items():
            assert len(options.get("tooltip", "")) > 20, f"{name}.{input_name}"
        assert all(node["output_tooltips"]), name
        assert node["search_aliases"], name


def test_no_name_of_the_other_pack_is_used(ours):
    used = set(ours)
    for node in ours.values():
        used |= set(node["output"]) | {kind for kind, _ in inputs_of(node).values() if isinstance(kind, str)}
    assert not used & TAKEN


def test_boxes_is_a_socket_for_both_kinds_of_boxes(ours):
    kind, options = inputs_of(ours["Sapiens2EstimatePose"])["boxes"]
    assert kind == "BOUNDING_BOX,BBOX"
    assert options["forceInput"]
    assert "default" not in options


def test_every_node_has_a_help_page_that_names_each_input_and_output(comfy, ours):
    for name, node in ours.items():
        page = comfy.request(f"/extensions/comfyui-sapiens2/docs/{name}.md").decode()
        assert page.startswith(f"# {node['display_name']}\n"), name
        if name == "Sapiens2LoadModel":
            names = {*inputs_of(node), *node["output_name"]}
        else:  # the estimator is named by its task: "Takes a pose checkpoint."
            names = {*inputs_of(node), *node["output_name"]} - {"estimator"}
        missing = {word for word in names if f"**{word}**" not in page}
        assert not missing, f"{name}.md does not explain {missing}"


def without_seed_control(values: list) -> list:
    """Widget values as the server takes them: what becomes of a seed after a run is the page's own."""
    return [value for value in values if value not in ("fixed", "randomize", "increment", "decrement")]


def to_prompt(workflow: dict, all_nodes: dict) -> dict:
    """What the page sends to the server when a person opens this graph and presses Run."""
    sources = {link[0]: [str(link[1]), link[2]] for link in workflow["links"]}
    prompt = {}
    for node in workflow["nodes"]:
        if node["type"] == "MarkdownNote":
            continue
        info = all_nodes[node["type"]]
        saved = without_seed_control(node["widgets_values"])
        widgets = [name for name, spec in inputs_as_saved(info, saved).items() if has_widget(*spec)]
        values = dict(zip(widgets, saved, strict=False))
        linked = {slot["name"]: sources[slot["link"]] for slot in node["inputs"] if slot["link"] is not None}
        prompt[str(node["id"])] = {"class_type": node["type"], "inputs": values | linked}
    return prompt


@pytest.mark.parametrize(
    "path", [path for path in WORKFLOWS if path not in (*CONTINUED, VIDEO)], ids=lambda path: path.stem
)
def test_workflow_runs(comfy, all_nodes, path):
    outputs = comfy.run(to_prompt(json.loads(path.read_text(encoding="utf-8")), all_nodes))
    shown = [file for output in outputs.values() for file in output.get("images", [])]
    pictures = [comfy.picture(file) for file in shown if not file["filename"].endswith(".exr")]
    depths = [read_exr(comfy.saved(file)) for file in shown if file["filename"].endswith(".exr")]
    models = [comfy.saved(file) for output in outputs.values() for file in output.get("3d", [])]
    assert pictures or models
    assert all(picture.shape[:2] == (256, 256) and picture.std() > 1 for picture in pictures)
    assert all(depth.shape == (256, 256, 3) and 1 < depth.mean() < 10 for depth in depths)  # metres
    assert all(model.stat().st_size > 100_000 for model in models)


def test_video_workflow_gives_pose_and_face_frame_for_frame(comfy, all_nodes):
    outputs = comfy.run(to_prompt(json.loads(VIDEO.read_text(encoding="utf-8")), all_nodes))
    files = [file for output in outputs.values() for file in output["images"]]
    clips = {file["filename"].rsplit("_", 2)[0]: read_video(comfy.saved(file)) for file in files}
    pose, face = clips["sapiens2_video_pose"], clips["sapiens2_video_face"]
    assert pose.frames.shape == (3, 256, 256, 3)
    assert face.frames.shape == (3, 512, 512, 3)
    assert pose.fps == face.fps == 24
    assert min(*pose.frames.std((1, 2, 3)), *face.frames.std((1, 2, 3))) > 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_fits_the_nodes_as_they_are(all_nodes, path):
    workflow = json.loads(path.read_text(encoding="utf-8"))
    nodes = {node["id"]: node for node in workflow["nodes"]}
    for node in nodes.values():
        if node["type"] == "MarkdownNote":
            continue
        info = all_nodes[node["type"]]
        known = inputs_as_saved(info, node["widgets_values"])
        slots = [slot for slot in node["inputs"] if slot["name"] != "upload"]
        assert {slot["name"]: slot["type"] for slot in slots} == {
            name: "COMBO" if isinstance(kind, list) else kind for name, (kind, *_) in known.items()
        }
        assert [slot["type"] for slot in node["outputs"]] == info["output"]
        if node["type"].startswith("Sapiens2"):
            assert len(node["widgets_values"]) == sum(has_widget(*spec) for spec in known.values())
            assert [slot["name"] for slot in node["outputs"]] == info["output_name"]
    for link, source, slot, target, target_slot, kind in workflow["links"]:
        assert link in nodes[source]["outputs"][slot]["links"]
        assert nodes[target]["inputs"][target_slot]["link"] == link
        assert kind == nodes[source]["outputs"][slot]["type"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_boxes_do_not_overlap(path):
    nodes = [(n["type"], *n["pos"], *n["size"]) for n in json.loads(path.read_text(encoding="utf-8"))["nodes"]]
    for index, (one, x, y, width, height) in enumerate(nodes):
        for other, x2, y2, width2, height2 in nodes[index + 1 :]:
            apart = x + width <= x2 or x2 + width2 <= x or y + height <= y2 - 30 or y2 + height2 <= y - 30
            assert apart, f"{one} lies over {other}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_says_where_its_models_come_from(path):
    """In the form from which ComfyUI offers a download: https://docs.comfy.org, "models" of a node's properties."""
    nodes = json.loads(path.read_text(encoding="utf-8"))["nodes"]
    for node in nodes:
        if node["type"] not in LOADERS:
            assert "models" not in node["properties"]
            continue
        (model,) = node["properties"]["models"]
        value = node["widgets_values"][0]
        assert model["directory"] == LOADERS[node["type"]]
        assert re.fullmatch(
            rf"https://huggingface.co/[\w.-]+/[\w.-]+/resolve/main/([\w.-]+/)*{re.escape(model['name'])}", model["url"]
        )
        if node["type"] == "Sapiens2LoadModel":
            assert model["name"] == CATALOGUE[value].filename
            assert model["url"] == f"https://huggingface.co/{value}/resolve/main/{model['name']}"
        else:
            assert model["name"] == value


@pytest.mark.parametrize("path", CONTINUED, ids=lambda path: path.stem)
def test_continued_workflow_passes_the_checks_of_comfyui_up_to_its_models(comfy, all_nodes, path):
    prompt = to_prompt(json.loads(path.read_text(encoding="utf-8")), all_nodes)
    with pytest.raises(urllib.error.HTTPError) as refused:
        comfy.json("/prompt", {"prompt": prompt})
    errors = json.loads(refused.value.read())["node_errors"]
    assert {prompt[node]["class_type"] for node in errors} <= set(LOADERS)
    assert {error["type"] for found in errors.values() for error in found["errors"]} == {"value_not_in_list"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_has_a_small_picture_for_the_template_browser(comfy, path):
    data = comfy.request(f"/api/workflow_templates/comfyui-sapiens2/{path.stem}.jpg")
    assert len(data) < 60_000
    with Image.open(BytesIO(data)) as picture:
        assert picture.format == "JPEG"
        assert min(picture.size) >= 256


def test_workflows_name_official_checkpoints():
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert re.search(r'"facebook/sapiens2-[a-z]+-[0-9.]+b"', text), path.name
