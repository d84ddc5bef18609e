"""Poses in a real ComfyUI: smoothed, drawn, saved and loaded again, and those of ComfyUI's own nodes."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sapiens2_core.keypoints import KEYPOINT_NAMES
from sapiens2_core.openpose import to_openpose
from sapiens2_core.openpose_in import openpose_people, read_openpose
from sapiens2_core.pose_files import load_pose, save_coco
from sapiens2_core.pose_parts import Parts
from sapiens2_core.render import draw_pose
from sapiens2_core.render_openpose import draw_openpose
from sapiens2_core.results import FramePose, Pose
from sapiens2_core.smoothing import smooth

PARTS = {"body": True, "head": True, "hands": True, "feet": False, "face": True}
RENDER = {
    "style": "OpenPose", "width": 0, "height": 0, **PARTS, "threshold": 0.3, "size": 1.0, "stick_brightness": 0.6,
}  # fmt: skip
CLIP = "walk.json"


class Graph(dict):
    """An API prompt in the making; nodes are numbered as they come."""

    def add(self, class_type: str, **inputs) -> str:
        node = str(len(self) + 1)
        self[node] = {"class_type": class_type, "inputs": inputs}
        return node

    def load(self, file: str = CLIP) -> str:
        return self.add("Sapiens2LoadPose", file=file, width=0, height=0)

    def show(self, pose: list, **options) -> str:
        node = self.add("Sapiens2RenderPose", pose=pose, **RENDER | options)
        return self.add("PreviewImage", images=[node, 0])


@pytest.fixture(scope="module")
def walk(comfy):
    """Five frames of 320 × 256 pixels with two people, one of them absent from the third; in the input folder."""
    path = Path(__file__).parents[1] / "synthetic_person.py"
    spec = importlib.util.spec_from_file_location("synthetic_person", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    frames = []
    for t in range(5):
        people = [module.synthetic_person((80.0 + 3 * t, 40.0), 0.12), module.synthetic_person((220.0, 30.0), 0.12)]
        frames.append(FramePose(tuple(people[:1] if t == 2 else people), 256, 320))
    pose = Pose(tuple(frames))
    save_coco(pose, comfy.base / "input" / CLIP)
    return pose


def assert_pictures(shown, expected, most=1.01):
    assert len(shown) == len(expected)
    for picture, wanted in zip(shown, expected, strict=True):
        assert picture.any()
        assert np.abs(picture - wanted.movedim(0, -1).numpy() * 255).max() <= most


def test_estimated_poses_are_smoothed_and_drawn(comfy):
    graph = Graph()
    model = graph.add("Sapiens2LoadModel", checkpoint="tiny_pose.safetensors", precision="fp32")
    clip = graph.add("RepeatImageBatch", image=[graph.add("LoadImage", image="frame0.png"), 0], amount=3)
    poses = graph.add(
        "Sapiens2EstimatePose", estimator=[model, 0], image=[clip, 0], flip_test=False, score_threshold=0.0,
        confidence="real", batch_size=1,
    )  # fmt: skip
    steady = graph.add("Sapiens2SmoothPose", pose=[poses, 0], strength=0.5, fill_gaps=5)
    shown = graph.show([steady, 0], threshold=0.0, feet=True)
    pictures = comfy.pictures(comfy.run(graph)[shown])
    assert [picture.shape for picture in pictures] == [(256, 256, 3)] * 3
    assert all(picture.any() for picture in pictures)


def test_smoothing_and_drawing_are_the_core_s(comfy, walk):
    graph = Graph()
    loaded = graph.load()
    steady = graph.add("Sapiens2SmoothPose", pose=[loaded, 0], strength=0.5, fill_gaps=2)
    plain, smoothed = graph.show([loaded, 0]), graph.show([steady, 0])
    full = graph.show([loaded, 0], style="Sapiens 308", feet=True)
    outputs = comfy.run(graph)

    def drawn(pose):
        return [draw_openpose(openpose_people(frame, 0.3), parts=Parts(feet=False)) for frame in pose.frames]

    assert_pictures(comfy.pictures(outputs[plain]), drawn(walk))
    filled = smooth(walk, 0.5, 2)
    assert len(filled.frames[2].people) == 2
    assert_pictures(comfy.pictures(outputs[smoothed]), drawn(filled))
    assert_pictures(comfy.pictures(outputs[full]), [draw_pose(frame) for frame in walk.frames])


def test_poses_are_drawn_at_any_size_and_over_an_image(comfy, walk):
    graph = Graph()
    loaded = graph.load()
    image = [graph.add("LoadImage", image="odd.png"), 0]
    shown = {
        "both": graph.show([loaded, 0], width=640, height=128),
        "width": graph.show([loaded, 0], width=640),
        "height": graph.show([loaded, 0], height=128),
        "image": graph.show([loaded, 0], image=image),
        "308": graph.show([loaded, 0], image=image, style="Sapiens 308", width=100),
        "thick": graph.show([loaded, 0], style="OpenPose thick for SDXL", width=1024),
    }
    outputs = comfy.run(graph)
    pictures = {name: comfy.pictures(outputs[node]) for name, node in shown.items()}
    shapes = {name: found[0].shape[:2] for name, found in pictures.items()}
    assert shapes == {
        "both": (128, 640), "width": (512, 640), "height": (128, 160), "image": (203, 301), "308": (67, 100),
        "thick": (819, 1024),
    }  # fmt: skip
    assert all(len(found) == 5 for found in pictures.values())
    assert pictures["image"][0].std() > 10
    assert not np.array_equal(pictures["image"][0], pictures["image"][4])


@pytest.mark.parametrize("format", ["308 JSON", "OpenPose JSON"])
def test_saved_poses_load_again_and_give_the_same_picture(comfy, walk, format):
    graph = Graph()
    loaded = graph.load()
    saved = graph.add("Sapiens2SavePose", pose=[loaded, 0], format=format, filename_prefix=f"poses/{format[:3]}")
    text = graph.add("PreviewAny", source=[saved, 0])
    before = graph.show([loaded, 0])
    outputs = comfy.run(graph)
    path = Path(outputs[text]["text"][0])
    assert path.is_relative_to(comfy.base / "output" / "poses")
    assert [file for file in path.parent.iterdir() if file.name.startswith(".")] == []

    target = comfy.base / "input" / "back" / path.name
    target.parent.mkdir(exist_ok=True)
    (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)
    again = Graph()
    files = comfy.json("/object_info/Sapiens2LoadPose")["Sapiens2LoadPose"]["input"]["required"]["file"]
    name = f"back/{path.name}"
    assert name in str(files)
    after = again.show([again.load(name), 0])
    first, second = comfy.pictures(outputs[before]), comfy.pictures(comfy.run(again)[after])
    if format == "308 JSON":
        assert all(np.array_equal(*pair) for pair in zip(first, second, strict=True))
        entry = json.loads(path.read_text())["annotations"][0]
        assert len(entry["keypoints"]) == 3 * len(KEYPOINT_NAMES)
    else:  # lash lines and lips are not stored point by point
        assert all(np.abs(one.astype(int) - other).mean() < 0.3 for one, other in zip(first, second, strict=True))


def test_file_in_the_output_folder_is_found_by_its_annotation(comfy, walk):
    save_coco(walk, comfy.base / "output" / "clip.json")
    graph = Graph()
    shown = graph.show([graph.load("clip.json [output]"), 0])
    assert len(comfy.pictures(comfy.run(graph)[shown])) == 5


def test_replaced_file_is_loaded_again(comfy, walk):
    file = comfy.base / "input" / "changing.json"
    graph = Graph()
    shown = graph.show([graph.load(file.name), 0])
    numbers = []
    for length in (5, 3):
        save_coco(Pose(walk.frames[:length]), file)
        numbers.append(len(comfy.pictures(comfy.run(graph)[shown])))
    assert numbers == [5, 3]


def test_two_saves_do_not_overwrite_each_other(comfy, walk):
    graph = Graph()
    loaded = graph.load()
    for strength in (0.2, 0.4):
        steady = graph.add("Sapiens2SmoothPose", pose=[loaded, 0], strength=strength, fill_gaps=0)
        for format in ("308 JSON", "OpenPose JSON"):
            graph.add("Sapiens2SavePose", pose=[steady, 0], format=format, filename_prefix=f"twice/{format[:3]}")
    comfy.run(graph)
    found = sorted(path.name for path in (comfy.base / "output" / "twice").iterdir())
    assert len(found) == 4
    for path in (comfy.base / "output" / "twice").iterdir():
        assert len(load_pose(path)[0].frames) == 5


@pytest.mark.parametrize("prefix", ["../escaped", "/tmp/escaped", "poses/../../escaped"])
@pytest.mark.parametrize("format", ["308 JSON", "OpenPose JSON"])
def test_prefix_cannot_leave_the_output_folder(comfy, walk, prefix, format):
    graph = Graph()
    node = graph.add("Sapiens2SavePose", pose=[graph.load(), 0], format=format, filename_prefix=prefix)
    with pytest.raises(comfy.GraphError, match="outside the output folder") as failed:
        comfy.run(graph)
    assert failed.value.node == node
    assert not list(comfy.base.glob("escaped*"))


@pytest.mark.parametrize("file", ["../secret.json", "/etc/passwd", "nowhere.json"])
def test_file_that_is_not_there_or_outside_is_refused_before_the_graph_runs(comfy, walk, file):
    (comfy.base / "secret.json").write_text("{}")
    graph = Graph()
    graph.show([graph.load(file), 0])
    with pytest.raises(comfy.GraphError, match=r"outside of ComfyUI's input|There is no nowhere"):
        comfy.queue(graph)


def test_keypoints_of_core_s_form_are_drawn_as_core_draws_them(comfy, walk):
    graph = Graph()
    loaded = graph.load()
    core = graph.add(
        "SDPoseDrawKeypoints", keypoints=[loaded, 1], draw_body=True, draw_hands=True, draw_face=True, draw_feet=True,
        stick_width=4, face_point_size=3, score_threshold=0.3, draw_head=True,
    )  # fmt: skip
    theirs = graph.add("PreviewImage", images=[core, 0])
    # Sizes grow with the canvas here: at 512 pixels they are the other node's.
    ours = graph.show([loaded, 1], stick_brightness=1.0, feet=True, size=2.0)
    outputs = comfy.run(graph)
    for one, other in zip(comfy.pictures(outputs[theirs]), comfy.pictures(outputs[ours]), strict=True):
        drawn, redrawn = one.any(axis=-1), other.any(axis=-1)
        assert (drawn & redrawn).sum() / (drawn | redrawn).sum() > 0.95
        assert np.abs(one.astype(int) - other)[drawn | redrawn].mean() < 12
    expected = read_openpose(to_openpose(walk, 0.3))
    assert_pictures(
        comfy.pictures(outputs[ours]), [draw_openpose(frame, stick_brightness=1.0, size=2.0) for frame in expected]
    )


def test_normalised_keypoints_without_hands_and_face_are_drawn(comfy):
    frame = {"people": [{"pose_keypoints_2d": [0.5, 0.25, 1.0, 0.5, 0.75, 1.0] + [0.0] * 48, "face_keypoints_2d": None,
                         "hand_left_keypoints_2d": None, "hand_right_keypoints_2d": None}],
             "canvas_width": 200, "canvas_height": 100}  # fmt: skip
    (comfy.base / "input" / "dwpose.json").write_text(json.dumps([frame]))
    graph = Graph()
    loaded, direct = graph.load("dwpose.json"), graph.add("KnownKeypoints", text=json.dumps([frame]))
    sources = [loaded, 0], [loaded, 1], [direct, 0]
    shown = {style: [graph.show(source, style=style) for source in sources] for style in ("OpenPose", "Sapiens 308")}
    outputs = comfy.run(graph)
    for node in shown["OpenPose"]:
        (picture,) = comfy.pictures(outputs[node])
        assert picture.shape == (100, 200, 3)
        assert picture[25, 100].tolist() == [255, 0, 0]  # the nose
    for node in shown["Sapiens 308"]:
        (picture,) = comfy.pictures(outputs[node])
        assert picture[25, 100].any()


@pytest.mark.parametrize("with_image", [True, False])
def test_keypoints_that_do_not_say_their_size_take_it_from_the_picture_or_the_inputs(comfy, with_image):
    frame = {"people": [{"pose_keypoints_2d": [0.5, 0.25, 1.0, 0.5, 0.75, 1.0] + [0.0] * 48}]}
    graph = Graph()
    source = [graph.add("KnownKeypoints", text=json.dumps([frame])), 0]
    if with_image:
        empty = graph.add("EmptyImage", width=200, height=100, batch_size=1, color=0)
        shown = graph.show(source, image=[empty, 0])
    else:
        shown = graph.show(source, width=200, height=100)
    (picture,) = comfy.pictures(comfy.run(graph)[shown])
    assert picture.shape == (100, 200, 3)
    assert picture[25, 100].tolist() == [255, 0, 0]  # the nose


@pytest.mark.parametrize("slot", [0, 1], ids=["pose", "keypoints"])
@pytest.mark.parametrize("off", ["body", "head", "hands", "feet", "face"])
def test_a_part_that_is_off_is_absent_from_picture_and_keypoints(comfy, walk, slot, off):
    """What one draws of the keypoints is the picture, but for the jaw, which has no confidence in the keypoints."""
    graph = Graph()
    parts = dict.fromkeys(PARTS, True) | {off: False}
    rendered = graph.add("Sapiens2RenderPose", pose=[graph.load(), slot], **RENDER | {"width": 640} | parts)
    pictures = graph.add("PreviewImage", images=[rendered, 0])
    again, text = graph.show([rendered, 1], feet=True), graph.add("PreviewAny", source=[rendered, 1])
    outputs = comfy.run(graph)
    people = [person for frame in json.loads(outputs[text]["text"][0]) for person in frame["people"]]
    assert len(people) == 9
    absent = {
        "body": [("pose", [*range(2, 14)])], "head": [("pose", [0, 14, 15, 16, 17])], "feet": [("foot", range(6))],
        "hands": [("hand_left", range(21)), ("hand_right", range(21))], "face": [("face", range(70))],
    }  # fmt: skip
    for part, count in (("pose", 18), ("foot", 6), ("face", 70), ("hand_left", 21), ("hand_right", 21)):
        gone = [index for name, indices in absent[off] if name == part for index in indices]
        for person in people:
            rows = np.reshape(person[f"{part}_keypoints_2d"], (count, 3))
            assert not rows[gone].any()
            assert np.delete(rows, gone, axis=0).any(axis=1).all()
    for one, other in zip(comfy.pictures(outputs[pictures]), comfy.pictures(outputs[again]), strict=True):
        drawn, redrawn = one.any(axis=-1), other.any(axis=-1)
        assert not (redrawn & ~drawn).any()
        assert (drawn & redrawn).sum() > (0.98 if slot or off == "face" else 0.9) * drawn.sum()
