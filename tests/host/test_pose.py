"""Several people in a real ComfyUI: boxes, masks and detectors in, people chosen, boxes and crops out."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core.inference import Estimator
from sapiens2_core.openpose import to_openpose
from sapiens2_core.pose_boxes import boxes_from_pose
from sapiens2_core.pose_files import save_coco
from sapiens2_core.results import FramePose, Pose

FRAMES = ["frame0.png", "frame1.png", "frame2.png"]
POSE = {"flip_test": False, "score_threshold": 0.0, "confidence": "real", "batch_size": 3}
LEFT, RIGHT, WHOLE = (20.0, 10.0, 90.0, 220.0), (140.0, 30.0, 100.0, 200.0), (0.0, 0.0, 255.0, 255.0)
PERSON, BUS = 0, 5  # COCO's classes in the order of ComfyUI's detector
CLIP = "crossing.json"


class Graph(dict):
    """An API prompt in the making; nodes are numbered as they come."""

    def add(self, class_type: str, **inputs) -> str:
        node = str(len(self) + 1)
        self[node] = {"class_type": class_type, "inputs": inputs}
        return node

    def clip(self, files: list[str] = FRAMES) -> list:
        clip = [self.add("LoadImage", image=files[0]), 0]
        for file in files[1:]:
            clip = [self.add("ImageBatch", image1=clip, image2=[self.add("LoadImage", image=file), 0]), 0]
        return clip

    def pose(self, clip: list, **inputs) -> str:
        loader = self.add("Sapiens2LoadModel", checkpoint="tiny_pose.safetensors", precision="fp32")
        return self.add("Sapiens2EstimatePose", estimator=[loader, 0], image=clip, **POSE | inputs)

    def text(self, source: list) -> str:
        return self.add("PreviewAny", source=source)


def body(frames: list[dict]) -> list[list[list[float]]]:
    """Per frame, per person the flat body keypoints."""
    return [[person["pose_keypoints_2d"] for person in frame["people"]] for frame in frames]


def read(output: dict):
    return json.loads(output["text"][0])


def assert_people_are_those_in(
    comfy, output: dict, boxes: list[list[tuple]] | None, files: list[str] = FRAMES, **options
) -> None:
    """An output of keypoints is what the core finds in these boxes; None: in whole frames."""
    estimator = Estimator.from_checkpoint(comfy.base / "models/sapiens2/tiny_pose.safetensors", "fp32", "cpu")
    frames = []
    for file in files:
        with Image.open(comfy.base / "input" / file) as image:
            frames.append(torch.from_numpy(np.array(image.convert("RGB"))).movedim(-1, 0).float() / 255)
    expected = [frame for batch in estimator.predict(frames, boxes, **options) for frame in batch]
    wanted = body(to_openpose(Pose(tuple(expected)), 0.0, real_confidence=True))
    found = body(read(output))
    assert [len(frame) for frame in found] == [len(frame) for frame in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert np.abs(np.subtract(mine, theirs)).max(initial=0) < 0.05


def detections(*frames: list[tuple]) -> str:
    """COCO boxes with score and class as what :mod:`detectors` reads."""
    return json.dumps([[[x, y, x + w, y + h, score, kind] for (x, y, w, h), score, kind in frame] for frame in frames])


#: Three frames: two people, one of them found twice, and a bus; a bus and somebody unsure; one person.
FOUND = detections(
    [(RIGHT, 0.8, PERSON), (LEFT, 0.9, PERSON), ((24.0, 12.0, 90.0, 220.0), 0.95, PERSON), (WHOLE, 0.99, BUS)],
    [(LEFT, 0.9, BUS), (RIGHT, 0.45, PERSON)],
    [(RIGHT, 0.6, PERSON)],
)


def test_a_detector_s_people_are_posed_and_the_rest_is_not(comfy):
    graph = Graph()
    detector = [graph.add("KnownDetector", found=FOUND), 0]
    shown = graph.text([graph.pose(graph.clip(), detector=detector), 1])
    expected = [[(24.0, 12.0, 90.0, 220.0), RIGHT], [], [RIGHT]]
    assert_people_are_those_in(comfy, comfy.run(graph)[shown], expected)


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({"nms_iou": 1.0, "order": "as given"}, [(24.0, 12.0, 90.0, 220.0), LEFT, RIGHT], []),
        ({"max_people": 1}, [RIGHT], []),
        ({"when_none": "whole frame", "order": "area"}, [RIGHT, (24.0, 12.0, 90.0, 220.0)], [WHOLE]),
    ],
)
def test_duplicates_numbers_order_and_empty_frames_are_the_users_choice(comfy, options, first, second):
    graph = Graph()
    detector = [graph.add("KnownDetector", found=FOUND), 0]
    shown = graph.text([graph.pose(graph.clip(), detector=detector, **options), 1])
    assert_people_are_those_in(comfy, comfy.run(graph)[shown], [first, second, [RIGHT]])


def test_core_s_own_network_finds_the_same_people_inside_the_node_as_in_core_s_node(comfy):
    saved = Graph()
    saved.text([saved.add("SaveRandomDetector", name="rt_detr.safetensors"), 0])
    comfy.run(saved)

    graph = Graph()
    clip = graph.clip(FRAMES[:1])
    model = [graph.add("UNETLoader", unet_name="rt_detr.safetensors", weight_dtype="default"), 0]
    found = graph.add("RTDETR_detect", model=model, image=clip, threshold=0.5, class_name="person", max_detections=300)
    some = {"max_people": 2, "order": "as given"}
    inside, outside = graph.pose(clip, detector=model, **some), graph.pose(clip, boxes=[found, 0], **some)
    boxes, first, second = graph.text([found, 0]), graph.text([inside, 1]), graph.text([outside, 1])
    outputs = comfy.run(graph)
    assert len(read(outputs[boxes])[0]) > 2
    first, second = (np.array(body(read(outputs[node]))) for node in (first, second))
    assert first.shape == (1, 2, 54)
    assert np.abs(first - second).max() < 0.01


def test_core_s_boxes_of_everything_are_taken_for_people_only(comfy):
    """The list that core's node makes: dicts per frame with labels and scores."""
    graph = Graph()
    clip = graph.clip()
    model = [graph.add("KnownDetector", found=FOUND), 0]
    found = graph.add("RTDETR_detect", model=model, image=clip, threshold=0.5, class_name="all", max_detections=100)
    shown = graph.text([graph.pose(clip, boxes=[found, 0]), 1])
    expected = [[(24.0, 12.0, 90.0, 220.0), RIGHT], [], [RIGHT]]
    assert_people_are_those_in(comfy, comfy.run(graph)[shown], expected)


def test_the_flip_test_is_the_core_s_and_changes_something(comfy):
    graph = Graph()
    plain, flipped = (graph.text([graph.pose(graph.clip(), flip_test=flip), 1]) for flip in (False, True))
    outputs = comfy.run(graph)
    assert_people_are_those_in(comfy, outputs[flipped], None, flip_test=True)
    first, second = (np.array(body(read(outputs[node]))) for node in (plain, flipped))
    assert np.abs(first - second).max() > 1


def test_a_model_that_is_no_detector_is_refused(comfy):
    graph = Graph()
    node = graph.pose(graph.clip(), detector=[graph.add("KnownDetector", found=""), 0])
    graph.text([node, 1])
    with pytest.raises(comfy.GraphError, match=r"takes an RT-DETR model.* is a Identity") as failed:
        comfy.run(graph)
    assert failed.value.node == node


def test_two_ways_to_say_where_people_are_are_refused(comfy):
    graph = Graph()
    box = [graph.add("PrimitiveBoundingBox", x=40, y=30, width=100, height=150), 0]
    mask = [graph.add("LoadImageMask", image="mask.png", channel="red"), 0]
    node = graph.pose(graph.clip(), boxes=box, mask=mask)
    graph.text([node, 1])
    with pytest.raises(comfy.GraphError, match="boxes and mask are connected") as failed:
        comfy.run(graph)
    assert failed.value.node == node


def test_areas_of_a_mask_become_people(comfy):
    with Image.new("L", (256, 256), 0) as mask:
        for x, y, w, h in ((150, 20, 80, 200), (20, 40, 60, 180), (110, 5, 4, 4)):
            mask.paste(255, (x, y, x + w, y + h))
        mask.save(comfy.base / "input" / "people.png")
    graph = Graph()
    mask = [graph.add("LoadImageMask", image="people.png", channel="red"), 0]
    boxes = graph.add("Sapiens2BoxesFromMask", mask=mask, min_area=0.1, merge=0)
    everything = graph.add("Sapiens2BoxesFromMask", mask=mask, min_area=0.0, merge=50)
    clip = graph.clip()
    direct, detour = graph.pose(clip, mask=mask), graph.pose(clip, boxes=[boxes, 0])
    shown, merged = graph.text([boxes, 0]), graph.text([everything, 0])
    first, second = graph.text([direct, 1]), graph.text([detour, 1])
    outputs = comfy.run(graph)
    expected = [(20.0, 40.0, 60.0, 180.0), (150.0, 20.0, 80.0, 200.0)]
    found = read(outputs[shown])
    assert [[(box["x"], box["y"], box["width"], box["height"]) for box in frame] for frame in found] == [expected]
    assert read(outputs[merged]) == [
        [{"x": 20.0, "y": 5.0, "width": 210.0, "height": 215.0, "label": "person", "score": 1.0}]
    ]
    assert_people_are_those_in(comfy, outputs[first], [expected] * 3)
    assert_people_are_those_in(comfy, outputs[second], [expected] * 3)


@pytest.fixture(scope="module")
def crossing(comfy) -> Pose:
    """Eight frames of 320 × 256 pixels; two people cross, the first isn't seen in frames 3 and 7. As a file too."""
    path = Path(__file__).parents[1] / "synthetic_person.py"
    spec = importlib.util.spec_from_file_location("synthetic_person", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    frames = []
    for t in range(8):
        people = [module.synthetic_person((80.0 + 20 * t, 40.0), 0.12), module.synthetic_person((240.0, 50.0), 0.11)]
        frames.append(FramePose(tuple(people[t in (3, 7) :]), 256, 320))
    pose = Pose(tuple(frames))
    save_coco(pose, comfy.base / "input" / CLIP)
    with Image.open(comfy.base / "input" / "frame0.png") as image:
        image.resize((320, 256)).save(comfy.base / "input" / "wide.png")
    return pose


@pytest.mark.parametrize("steady", ["off", "smooth", "constant size"])
def test_a_face_clip_has_as_many_frames_as_its_video(comfy, crossing, steady):
    graph = Graph()
    pose = graph.add("Sapiens2LoadPose", file=CLIP, width=0, height=0)
    node = graph.add(
        "Sapiens2BoxesFromPose", pose=[pose, 0], part="face", person=0, square=True, padding=0.2, steady=steady,
        score_threshold=0.3,
    )  # fmt: skip
    video = graph.add("RepeatImageBatch", image=[graph.add("LoadImage", image="wide.png"), 0], amount=8)
    crops = graph.add(
        "CropByBBoxes", image=[video, 0], bboxes=[node, 0], output_width=64, output_height=64, padding=0,
        keep_aspect="stretch",
    )  # fmt: skip
    shown, boxes, points = graph.add("PreviewImage", images=[crops, 0]), graph.text([node, 0]), graph.text([node, 1])
    outputs = comfy.run(graph)

    expected = boxes_from_pose(crossing, "face", 0, steady=steady)
    found = read(outputs[boxes])
    assert found == [[dict(zip(("x", "y", "width", "height"), box, strict=True))] for box in expected]
    pictures = comfy.pictures(outputs[shown])
    assert [picture.shape for picture in pictures] == [(64, 64, 3)] * 8
    with Image.open(comfy.base / "input" / "wide.png") as image:
        frame = torch.from_numpy(np.array(image.convert("RGB"))).movedim(-1, 0).float()
    for picture, (x, y, width, height) in zip(pictures, expected, strict=True):
        cut = frame[None, :, y : y + height, x : x + width]
        scaled = torch.nn.functional.interpolate(cut, (64, 64), mode="area")[0].movedim(0, -1)
        assert np.abs(picture - scaled.numpy()).max() <= 1.01
    x, y, width, height = expected[0]
    for point in read(outputs[points]):
        assert x <= point["x"] < x + width
        assert y <= point["y"] < y + height
        assert type(point["x"]) is int


@pytest.mark.parametrize("prompt", ["points", "boxes"])
def test_core_s_sam_3_node_takes_the_points_and_the_boxes(comfy, crossing, prompt):
    """With a stand-in for its network, which marks what is around the points, or in the box."""
    graph = Graph()
    pose = graph.add("Sapiens2LoadPose", file=CLIP, width=0, height=0)
    node = graph.add(
        "Sapiens2BoxesFromPose", pose=[pose, 0], part="upper body", person=1, square=False, padding=0.0, steady="off",
        score_threshold=0.3,
    )  # fmt: skip
    video = graph.add("RepeatImageBatch", image=[graph.add("LoadImage", image="wide.png"), 0], amount=8)
    prompts = {"positive_coords": [node, 1]} if prompt == "points" else {"bboxes": [node, 0]}
    found = graph.add(
        "SAM3_Detect", model=[graph.add("KnownSegmenter"), 0], image=[video, 0], threshold=0.5, refine_iterations=2,
        individual_masks=False, **prompts,
    )  # fmt: skip
    shown = graph.add("PreviewImage", images=[graph.add("MaskToImage", mask=[found, 0]), 0])
    masks = [picture[..., 0] > 127 for picture in comfy.pictures(comfy.run(graph)[shown])]
    assert [mask.shape for mask in masks] == [(256, 320)] * 8
    person = crossing.frames[0].people[1]
    y, x = np.mgrid[:256, :320]
    boxes = boxes_from_pose(crossing, "upper body", 1, square=False, padding=0, steady="off")
    for mask, box in zip(masks, boxes, strict=True):
        if prompt == "boxes":
            assert np.abs(np.subtract((*box[:2], box[0] + box[2] - 1, box[1] + box[3] - 1), extent(mask))).max() <= 1
        else:  # nose, neck, shoulders, elbows, hips; 20 of the network's 1008 pixels are 6 across and 5 down
            joints = person.keypoints[[0, 69, 5, 6, 7, 8, 9, 10]].numpy()
            distance = np.min([np.hypot(x - u, y - v) for u, v in joints], axis=0)
            assert mask[distance < 4].all()
            assert not mask[distance > 8].any()


def extent(mask: np.ndarray) -> tuple[int, ...]:
    """x1, y1, x2, y2 of the first and last pixels of a mask."""
    rows, columns = np.nonzero(mask)
    return columns.min(), rows.min(), columns.max(), rows.max()


def test_selected_people_keep_their_number_through_a_crossing_and_core_boxes_their_faces(comfy, crossing):
    graph = Graph()
    pose = graph.add("Sapiens2LoadPose", file=CLIP, width=0, height=0)
    chosen = graph.add(
        "Sapiens2SelectPeople", pose=[pose, 0], which="by number", people="0", order="as given", score_threshold=0.3,
        confidence="0 or 1",
    )  # fmt: skip
    ours = graph.add(
        "Sapiens2BoxesFromPose", pose=[chosen, 0], part="face", person=0, square=False, padding=0.0, steady="off",
        score_threshold=0.3,
    )  # fmt: skip
    core = graph.add("SDPoseFaceBBoxes", keypoints=[chosen, 1], scale=1.0, force_square=False)
    keypoints, mine, theirs = graph.text([chosen, 1]), graph.text([ours, 0]), graph.text([core, 0])
    outputs = comfy.run(graph)
    noses = [[person[0] for person in frame] for frame in body(read(outputs[keypoints]))]
    assert noses == [[] if t in (3, 7) else [pytest.approx(80 + 20 * t, abs=0.01)] for t in range(8)]
    for t, (my_boxes, their_boxes) in enumerate(zip(read(outputs[mine]), read(outputs[theirs]), strict=True)):
        assert len(my_boxes) == 1
        assert len(their_boxes) == (t not in (3, 7))
        for one, other in zip(my_boxes, their_boxes, strict=False):
            assert all(abs(one[side] - other[side]) <= 3 for side in ("x", "y", "width", "height"))


def test_numbers_that_are_none_are_refused_on_the_node(comfy, crossing):
    for people, message in (("2", "no person 2 in pose: choose 0 to 1"), ("left", "write the numbers of the people")):
        graph = Graph()
        pose = graph.add("Sapiens2LoadPose", file=CLIP, width=0, height=0)
        node = graph.add(
            "Sapiens2SelectPeople", pose=[pose, 0], which="by number", people=people, order="as given",
            score_threshold=0.3, confidence="real",
        )  # fmt: skip
        graph.text([node, 1])
        with pytest.raises(comfy.GraphError, match=message) as failed:
            comfy.run(graph)
        assert failed.value.node == node


def read_like_controlnet_aux(flat: list[float]) -> list[tuple[float, float] | None]:
    """Its rule: a keypoint whose confidence is below 1.0 is None."""
    return [None if c < 1.0 else (x, y) for x, y, c in zip(flat[::3], flat[1::3], flat[2::3], strict=True)]


def test_packs_that_drop_confidences_below_1_see_exactly_the_keypoints_above_the_threshold(comfy, crossing):
    frame = crossing.frames[0]
    weak = [3, 8, 41, 30, 45, 15]
    scores = frame.people[0].scores.clone()
    scores[weak] = 0.25
    person = type(frame.people[0])(frame.people[0].keypoints, scores, frame.people[0].box)
    save_coco(Pose((FramePose((person,), 256, 320),)), comfy.base / "input" / "weak.json")
    graph = Graph()
    pose = graph.add("Sapiens2LoadPose", file="weak.json", width=0, height=0)
    shown = {
        confidence: graph.text(
            [graph.add("Sapiens2SelectPeople", pose=[pose, 0], which="largest", people="", order="as given",
                       score_threshold=0.3, confidence=confidence), 1]
        )
        for confidence in ("0 or 1", "real")
    }  # fmt: skip
    outputs = comfy.run(graph)
    (kept,) = read(outputs[shown["0 or 1"]])[0]["people"]
    missing = {
        part: [index for index, point in enumerate(read_like_controlnet_aux(kept[f"{part}_keypoints_2d"]))
               if point is None]
        for part in ("pose", "foot", "hand_right", "hand_left")
    }  # fmt: skip
    # Left ear, right elbow and wrist; left big toe; right wrist and 2nd joint of the middle finger; left thumb's base.
    assert missing == {"pose": [3, 4, 17], "foot": [0], "hand_right": [0, 11], "hand_left": [1]}
    (real,) = read(outputs[shown["real"]])[0]["people"]
    assert not any(read_like_controlnet_aux(real["pose_keypoints_2d"]))
