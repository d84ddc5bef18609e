"""A graph per node in a real ComfyUI, compared with the core run directly on the same checkpoint and frames."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image

from sapiens2_core.features import cosine_similarity, features_to_rgb
from sapiens2_core.geometry import depth_picture
from sapiens2_core.inference import Estimator
from sapiens2_core.openpose import to_openpose
from sapiens2_core.render import colour_body_parts, normals_to_rgb
from sapiens2_core.results import Pointmap, Pose

FRAMES = ["frame0.png", "frame1.png", "frame2.png"]

#: Per dense task: its node, its widgets, and which of its outputs are pictures.
DENSE = {
    "seg": ("Sapiens2SegmentBodyParts", {}, 2),
    "normal": ("Sapiens2EstimateNormals", {"convention": "opengl", "background": "keep"}, 0),
    "albedo": ("Sapiens2EstimateAlbedo", {}, 0),
    "matting": ("Sapiens2Matting", {"background_color": "#ff8000", "color_from": "network"}, 3),
}
DEPTH = {
    "range": "percentile",
    "scope": "clip",
    "curve": "inverse",
    "near_is_white": True,
    "background": "black",
    "color": "grey",
}
POSE = {"flip_test": False, "score_threshold": 0.0, "confidence": "real", "batch_size": 1}


class Graph(dict):
    """An API prompt in the making; nodes are numbered as they come."""

    def add(self, class_type: str, **inputs) -> str:
        node = str(len(self) + 1)
        self[node] = {"class_type": class_type, "inputs": inputs}
        return node

    def load(self, checkpoint: str, precision: str = "fp32") -> list:
        return [self.add("Sapiens2LoadModel", checkpoint=checkpoint, precision=precision), 0]

    def clip(self, files: list[str]) -> list:
        """The files as one IMAGE batch."""
        clip = [self.add("LoadImage", image=files[0]), 0]
        for file in files[1:]:
            clip = [self.add("ImageBatch", image1=clip, image2=[self.add("LoadImage", image=file), 0]), 0]
        return clip

    def mask(self, file: str) -> list:
        return [self.add("LoadImageMask", image=file, channel="red"), 0]

    def show(self, images: list) -> str:
        return self.add("PreviewImage", images=images)

    def show_mask(self, mask: list) -> str:
        return self.show([self.add("MaskToImage", mask=mask), 0])

    def show_text(self, source: list) -> str:
        return self.add("PreviewAny", source=source)


def core_results(comfy, task: str, files: list[str] = FRAMES, **options) -> list:
    """What the core makes of the same files."""
    estimator = Estimator.from_checkpoint(comfy.base / f"models/sapiens2/tiny_{task}.safetensors", "fp32", "cpu")
    return [result for batch in estimator.predict(pixels(comfy, files), **options) for result in batch]


def pixels(comfy, files: list[str]) -> Iterator[torch.Tensor]:
    for file in files:
        with Image.open(comfy.base / "input" / file) as image:
            yield torch.from_numpy(np.array(image.convert("RGB"))).movedim(-1, 0).float() / 255


def assert_pictures_match(shown: list[np.ndarray], expected: list[torch.Tensor], most: float = 1.01) -> None:
    """Each saved picture is within ``most`` of 255 steps of a (C, H, W) one of 0..1 (truncation to 8 bit is one)."""
    assert len(shown) == len(expected)
    for picture, wanted in zip(shown, expected, strict=True):
        wanted = wanted.movedim(0, -1).numpy() * 255
        assert picture.shape == wanted.shape
        assert np.abs(picture - wanted).max() <= most


def test_normals_of_a_clip_are_those_of_the_core_in_every_convention(comfy):
    graph = Graph()
    estimator, clip = graph.load("tiny_normal.safetensors"), graph.clip(FRAMES)
    shown = {}
    for convention in ("opengl", "directx", "controlnet_bae"):
        node = graph.add(
            "Sapiens2EstimateNormals", estimator=estimator, image=clip, convention=convention, background="keep",
            batch_size=2,
        )  # fmt: skip
        shown[convention] = graph.show([node, 0])
    outputs = comfy.run(graph)
    results = core_results(comfy, "normal")
    for convention, node in shown.items():
        expected = [normals_to_rgb(normals, convention) for normals in results]
        assert_pictures_match(comfy.pictures(outputs[node]), expected)
    assert not np.array_equal(*comfy.pictures(outputs[shown["opengl"]])[:2])


def test_normals_background_takes_the_mask(comfy):
    graph = Graph()
    estimator, clip, mask = graph.load("tiny_normal.safetensors"), graph.clip(FRAMES), graph.mask("mask.png")
    shown = {}
    for background in ("keep", "black", "flat"):
        node = graph.add(
            "Sapiens2EstimateNormals", estimator=estimator, image=clip, convention="opengl", background=background,
            batch_size=1, mask=mask,
        )  # fmt: skip
        shown[background] = graph.show([node, 0])
    outputs = comfy.run(graph)
    keep, black, flat = (np.stack(comfy.pictures(outputs[node])) for node in shown.values())
    assert (black[:, :, :64] == 0).all()
    assert (flat[:, :, :64] == (128, 128, 255)).all()
    assert np.abs(black[:, :, 64:192].astype(int) - keep[:, :, 64:192]).max() <= 1
    assert keep[:, :, :64].std() > 1


def test_background_without_a_mask_says_that_it_needs_one(comfy):
    graph = Graph()
    node = graph.add(
        "Sapiens2EstimateNormals", estimator=graph.load("tiny_normal.safetensors"), image=graph.clip(FRAMES[:1]),
        convention="opengl", background="flat", batch_size=1,
    )  # fmt: skip
    graph.show([node, 0])
    with pytest.raises(comfy.GraphError, match="flat needs a mask") as failed:
        comfy.run(graph)
    assert failed.value.node == node


def test_albedo_is_the_core_s_and_black_outside_of_the_mask(comfy):
    graph = Graph()
    inputs = {"estimator": graph.load("tiny_albedo.safetensors"), "image": graph.clip(FRAMES), "batch_size": 3}
    whole = graph.show([graph.add("Sapiens2EstimateAlbedo", **inputs), 0])
    masked = graph.show([graph.add("Sapiens2EstimateAlbedo", **inputs, mask=graph.mask("mask.png")), 0])
    outputs = comfy.run(graph)
    assert_pictures_match(comfy.pictures(outputs[whole]), core_results(comfy, "albedo"))
    for full, cut in zip(comfy.pictures(outputs[whole]), comfy.pictures(outputs[masked]), strict=True):
        assert np.abs(cut[:, 64:192].astype(int) - full[:, 64:192]).max() <= 1
        assert not cut[:, :64].any()


def test_body_parts_person_mask_and_colours_are_the_core_s(comfy):
    graph = Graph()
    node = graph.add(
        "Sapiens2SegmentBodyParts", estimator=graph.load("tiny_seg.safetensors"), image=graph.clip(FRAMES), batch_size=2
    )
    person, colored = graph.show_mask([node, 1]), graph.show([node, 2])
    outputs = comfy.run(graph)
    labels = core_results(comfy, "seg")
    assert len(torch.stack(labels).unique()) > 3
    # Another release of PyTorch may round a tie between two parts differently.
    for pictures, wanted in (
        (comfy.pictures(outputs[colored]), [colour_body_parts(frame) * 255 for frame in labels]),
        (comfy.pictures(outputs[person]), [(frame > 0).expand(3, -1, -1) * 255.0 for frame in labels]),
    ):
        for picture, frame in zip(pictures, wanted, strict=True):
            differs = np.abs(picture - frame.movedim(0, -1).numpy()).max(axis=-1) > 1
            assert differs.mean() < 1e-3


@pytest.mark.parametrize("color_from", ["network", "photo"])
def test_matting_gives_straight_colour_alpha_and_composite(comfy, color_from):
    graph = Graph()
    node = graph.add(
        "Sapiens2Matting", estimator=graph.load("tiny_matting.safetensors"), image=graph.clip(FRAMES),
        background_color="#ff8000", color_from=color_from, batch_size=2,
    )  # fmt: skip
    rgba, alpha = graph.show([node, 0]), graph.show_mask([node, 1])
    foreground, composite = graph.show([node, 2]), graph.show([node, 3])
    outputs = comfy.run(graph)
    mattes = core_results(comfy, "matting")
    background = torch.tensor([255, 128, 0]).view(3, 1, 1) / 255
    if color_from == "photo":
        colors = list(pixels(comfy, FRAMES))
        composites = [color * m.alpha + (1 - m.alpha) * background for color, m in zip(colors, mattes, strict=True)]
    else:
        colors = [(m.foreground / m.alpha).clamp(0, 1) for m in mattes]
        composites = [(m.foreground + (1 - m.alpha) * background).clamp(0, 1) for m in mattes]
    assert_pictures_match(comfy.pictures(outputs[alpha]), [m.alpha.expand(3, -1, -1) for m in mattes])
    assert_pictures_match(comfy.pictures(outputs[foreground]), colors)
    assert_pictures_match(comfy.pictures(outputs[composite]), composites)
    assert_pictures_match(
        comfy.pictures(outputs[rgba]), [torch.cat([c, m.alpha]) for c, m in zip(colors, mattes, strict=True)]
    )
    # What another program makes of the saved cut-out is the composite, where colour isn't brighter than its alpha.
    # Save Image rounds down, colour and alpha alike.
    for saved, wanted, matte in zip(comfy.pictures(outputs[rgba]), composites, mattes, strict=True):
        cutout = torch.from_numpy(saved.copy()).movedim(-1, 0).double() / 255
        seen = cutout[:3] * cutout[3:] + (1 - cutout[3:]) * background
        fits = (matte.foreground <= matte.alpha).all(0) | (color_from == "photo")
        assert fits.float().mean() > 0.1
        assert (seen - wanted).abs()[:, fits].max() <= 2 / 255


def test_matting_puts_people_on_a_background_picture(comfy):
    graph = Graph()
    node = graph.add(
        "Sapiens2Matting", estimator=graph.load("tiny_matting.safetensors"), image=graph.clip(FRAMES),
        background_color="#ff8000", color_from="network", batch_size=1, background_image=graph.clip(["black.png"]),
    )  # fmt: skip
    composite = graph.show([node, 3])
    outputs = comfy.run(graph)
    assert_pictures_match(comfy.pictures(outputs[composite]), [m.foreground for m in core_results(comfy, "matting")])


def test_depth_picture_and_its_range_are_the_core_s(comfy):
    graph = Graph()
    pointmap = graph.add(
        "Sapiens2EstimatePointmap", estimator=graph.load("tiny_pointmap.safetensors"), image=graph.clip(FRAMES),
        batch_size=2, mask=graph.mask("mask.png"),
    )  # fmt: skip
    node = graph.add("Sapiens2PointmapToDepth", pointmap=[pointmap, 0], **DEPTH)
    depth, near, far = graph.show([node, 0]), graph.show_text([node, 2]), graph.show_text([node, 3])
    again = graph.add(
        "Sapiens2PointmapToDepth", pointmap=[pointmap, 0], **DEPTH | {"range": "metres"}, near=[node, 2], far=[node, 3]
    )
    continued = graph.show([again, 0])
    outputs = comfy.run(graph)

    mask = torch.zeros(3, 256, 256, dtype=torch.bool)
    mask[:, :, 64:192] = True
    frames = core_results(comfy, "pointmap", masks=mask)
    expected = Pointmap(
        torch.stack([frame.points for frame in frames]),
        torch.tensor([frame.scale for frame in frames]),
        torch.tensor([frame.focal_length for frame in frames]),
        torch.stack(list(pixels(comfy, FRAMES))),
        mask,
    )
    pictures, nears, fars = depth_picture(expected)
    assert float(outputs[near]["text"][0]) == pytest.approx(float(nears[0]), rel=1e-3)
    assert float(outputs[far]["text"][0]) == pytest.approx(float(fars[0]), rel=1e-3)
    assert_pictures_match(comfy.pictures(outputs[depth]), list(pictures.expand(-1, 3, -1, -1)), most=2)
    first, second = (np.stack(comfy.pictures(outputs[node])) for node in (depth, continued))
    assert first.std() > 10
    assert np.array_equal(first, second)


def test_depth_in_metres_without_bounds_says_what_it_needs(comfy):
    graph = Graph()
    pointmap = graph.add(
        "Sapiens2EstimatePointmap", estimator=graph.load("tiny_pointmap.safetensors"), image=graph.clip(FRAMES[:1]),
        batch_size=1,
    )  # fmt: skip
    node = graph.add("Sapiens2PointmapToDepth", pointmap=[pointmap, 0], **DEPTH | {"range": "metres"})
    graph.show([node, 0])
    with pytest.raises(comfy.GraphError, match="near and far") as failed:
        comfy.run(graph)
    assert failed.value.node == node


def test_keypoints_are_the_core_s_and_core_s_node_draws_them(comfy):
    graph = Graph()
    node = graph.add(
        "Sapiens2EstimatePose", estimator=graph.load("tiny_pose.safetensors"), image=graph.clip(FRAMES), **POSE
    )
    text = graph.show_text([node, 1])
    drawn = graph.show(
        [graph.add("SDPoseDrawKeypoints", keypoints=[node, 1], draw_body=True, draw_hands=True, draw_face=True,
                   draw_feet=True, stick_width=4, face_point_size=3, score_threshold=0.0, draw_head=True), 0]
    )  # fmt: skip
    outputs = comfy.run(graph)
    people = json.loads(outputs[text]["text"][0])
    expected = to_openpose(Pose(tuple(core_results(comfy, "pose"))), 0.0, real_confidence=True)
    assert [(frame["canvas_width"], frame["canvas_height"]) for frame in people] == [(256, 256)] * 3
    for frame, wanted in zip(people, expected, strict=True):
        found = np.array(frame["people"][0]["pose_keypoints_2d"])
        assert np.abs(found - wanted["people"][0]["pose_keypoints_2d"]).max() < 0.05
    pictures = comfy.pictures(outputs[drawn])
    assert [picture.shape for picture in pictures] == [(256, 256, 3)] * 3
    assert all(picture.any() for picture in pictures)


def test_pose_takes_boxes_from_core_nodes(comfy):
    graph = Graph()
    estimator, clip = graph.load("tiny_pose.safetensors"), graph.clip(FRAMES)
    box = graph.add("PrimitiveBoundingBox", x=40, y=30, width=100, height=150)
    posed = graph.add("Sapiens2EstimatePose", estimator=estimator, image=clip, **POSE, boxes=[box, 0])
    faces = graph.add("SDPoseFaceBBoxes", keypoints=[posed, 1], scale=1.5, force_square=True)
    again = graph.add("Sapiens2EstimatePose", estimator=estimator, image=clip, **POSE, boxes=[faces, 0])
    text, second = graph.show_text([posed, 1]), graph.show_text([again, 1])
    outputs = comfy.run(graph)
    expected = core_results(comfy, "pose", boxes=[[(40.0, 30.0, 100.0, 150.0)]] * 3)
    wanted = to_openpose(Pose(tuple(expected)), 0.0, real_confidence=True)
    people = json.loads(outputs[text]["text"][0])
    found = np.array([frame["people"][0]["pose_keypoints_2d"] for frame in people])
    assert np.abs(found - [frame["people"][0]["pose_keypoints_2d"] for frame in wanted]).max() < 0.05
    assert [len(frame["people"]) for frame in json.loads(outputs[second]["text"][0])] == [1, 1, 1]


def test_box_outside_of_the_frame_is_refused_on_the_pose_node(comfy):
    graph = Graph()
    box = graph.add("PrimitiveBoundingBox", x=300, y=30, width=100, height=150)
    node = graph.add(
        "Sapiens2EstimatePose", estimator=graph.load("tiny_pose.safetensors"), image=graph.clip(FRAMES), **POSE,
        boxes=[box, 0],
    )  # fmt: skip
    graph.show_text([node, 1])
    with pytest.raises(comfy.GraphError, match="outside of the 256 × 256 pixel frame") as failed:
        comfy.run(graph)
    assert failed.value.node == node


@pytest.mark.parametrize("task", DENSE)
def test_odd_sizes_come_back_in_their_own_size(comfy, task):
    node_id, widgets, picture = DENSE[task]
    graph = Graph()
    node = graph.add(
        node_id,
        estimator=graph.load(f"tiny_{task}.safetensors"),
        image=graph.clip(["odd.png"]),
        batch_size=1,
        **widgets,
    )
    shown = graph.show([node, picture])
    (result,) = comfy.pictures(comfy.run(graph)[shown])
    assert result.shape == (203, 301, 3)


@pytest.mark.parametrize("task", DENSE)
def test_alpha_of_frames_is_dropped(comfy, task):
    node_id, widgets, picture = DENSE[task]
    graph = Graph()
    estimator, rgb = graph.load(f"tiny_{task}.safetensors"), graph.clip(FRAMES[:1])
    rgba = [graph.add("JoinImageWithAlpha", image=rgb, alpha=graph.mask("mask.png")), 0]
    shown = [
        graph.show([graph.add(node_id, estimator=estimator, image=image, batch_size=1, **widgets), picture])
        for image in (rgb, rgba)
    ]
    outputs = comfy.run(graph)
    first, second = (comfy.pictures(outputs[node])[0] for node in shown)
    assert np.array_equal(first, second)


def test_features_of_any_checkpoint_are_those_of_the_core(comfy):
    graph = Graph()
    estimator, clip = graph.load("tiny_pose.safetensors"), graph.clip(FRAMES)
    node = graph.add("Sapiens2ExtractFeatures", estimator=estimator, image=clip, batch_size=2)
    picture, similarity = graph.show([node, 0]), graph.show_text([node, 1])
    second = [graph.add("LoadImage", image=FRAMES[1]), 0]
    other = graph.add("Sapiens2ExtractFeatures", estimator=estimator, image=clip, batch_size=2, second_image=second)
    compared = graph.show_text([other, 1])

    outputs = comfy.run(graph)

    path = comfy.base / "models/sapiens2/tiny_pose.safetensors"
    backbone = Estimator.from_checkpoint(path, "fp32", "cpu").backbone()
    found = [features for batch in backbone.predict(pixels(comfy, FRAMES)) for features in batch]
    small = features_to_rgb(torch.stack([features.patch_tokens for features in found]))
    shown = comfy.pictures(outputs[picture])
    expected = torch.nn.functional.interpolate(small, shown[0].shape[:2], mode="nearest-exact")
    assert_pictures_match(shown, list(expected), most=4)
    cls_tokens = torch.stack([features.cls_token for features in found])
    for node, reference in ((similarity, cls_tokens[:1]), (compared, cls_tokens[1:2])):
        numbers = [float(text) for text in outputs[node]["text"]]
        assert numbers == pytest.approx(cosine_similarity(cls_tokens, reference).tolist(), abs=1e-4)


def test_features_mask_leaves_the_rest_black(comfy):
    graph = Graph()
    estimator, clip, mask = graph.load("tiny_normal.safetensors"), graph.clip(FRAMES), graph.mask("mask.png")
    node = graph.add("Sapiens2ExtractFeatures", estimator=estimator, image=clip, batch_size=1, mask=mask)
    shown = graph.show([node, 0])
    pictures = np.stack(comfy.pictures(comfy.run(graph)[shown]))
    black = (pictures == 0).all(axis=-1).mean()
    assert 0.05 < black < 0.95
