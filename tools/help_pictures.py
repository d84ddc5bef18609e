"""Draws the pictures of the help pages: mannequins, and what the nodes make of them.

python -m tools.help_pictures

What a network would estimate is the mannequins' known truth, drawn by the same functions that the nodes use.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor

from sapiens2_core.compositing import composite
from sapiens2_core.demo import Render, random_scene, render
from sapiens2_core.openpose_in import openpose_people
from sapiens2_core.part_masks import MaskFinish, part_masks
from sapiens2_core.part_selection import parse_parts
from sapiens2_core.people import Box, boxes_from_mask
from sapiens2_core.pose_boxes import boxes_from_pose
from sapiens2_core.pose_parts import Parts
from sapiens2_core.pose_selection import select_people
from sapiens2_core.render import colour_body_parts, draw_pose, normals_to_rgb, overlay, to_uint8
from sapiens2_core.render_openpose import draw_openpose
from sapiens2_core.results import FramePose, Pose, Segmentation
from sapiens2_core.smoothing import smooth
from sapiens2_core.surface_normals import normals_from_points
from tools.thumbnails import SEED, as_jpeg, draw_depth, draw_matte, draw_mesh, draw_metres, true_pose

PICTURES = Path(__file__).resolve().parents[1] / "web" / "docs" / "pictures"
MAX_BYTES = 40_000
SIZE, GAP, GREY = (384, 288), 8, 0.35
NO_FEET = Parts(feet=False)


@cache
def person() -> Render:
    """One, whole."""
    return render(random_scene(SEED, SIZE, persons=1, framing="ground"), 3)


@cache
def portrait() -> Render:
    """One, from the hips up."""
    return render(random_scene(SEED, SIZE, persons=1, framing="hip"), 3)


@cache
def group() -> Render:
    """Three."""
    return render(random_scene(49, (288, 384), persons=3, framing="ground"), 3)


def beside(*pictures: Tensor) -> Tensor:
    """Pictures of one height in a row."""
    gap = torch.full((3, pictures[0].shape[1], GAP), GREY)
    return torch.cat([piece for picture in pictures for piece in (gap, picture)][1:], dim=2)


def grey(mask: Tensor) -> Tensor:
    """A mask as a picture."""
    return mask.float().expand(3, -1, -1)


def openpose(frame: FramePose, thick: bool = False) -> Tensor:
    """As OpenPose ControlNets want it."""
    return draw_openpose(openpose_people(frame, 0.5), parts=NO_FEET, thick=thick)


def chequered(scene: Render) -> Tensor:
    """The cut-out, where light and dark squares show that it is transparent."""
    height, width = scene.mask.shape
    rows, columns = torch.arange(height) // 12, torch.arange(width) // 12
    squares = 0.55 + 0.2 * ((rows[:, None] + columns) % 2).float()
    return composite(scene.foreground, scene.alpha, squares.expand(3, -1, -1))


def from_pillow(image: Image.Image) -> Tensor:
    """(3, H, W), 0..1."""
    return torch.from_numpy(np.array(image)).movedim(-1, 0) / 255


def with_boxes(picture: Tensor, boxes: list[Box]) -> Tensor:
    """Boxes drawn on a picture."""
    image = Image.fromarray(to_uint8(picture))
    draw = ImageDraw.Draw(image)
    for (x, y, width, height), color in zip(boxes, ("#ffd23f", "#3bceac", "#ee4266", "#8ab6ff"), strict=False):
        draw.rectangle((x, y, x + width - 1, y + height - 1), outline=color, width=3)
    return from_pillow(image)


def draw_tasks() -> Tensor:
    """What the checkpoint of each task gives."""
    scene = person()
    pictures = [
        draw_pose(true_pose(scene), scene.image, 0.5),
        colour_body_parts(scene.labels),
        normals_to_rgb(scene.normals),
        draw_depth(scene),
        chequered(scene),
        scene.albedo,
    ]
    small = [F.interpolate(picture[None], scale_factor=0.6, mode="area")[0] for picture in pictures]
    return beside(*small)


def draw_pose_found() -> Tensor:
    """A photo and the keypoints in it."""
    scene = person()
    frame = true_pose(scene)
    return beside(scene.image, draw_pose(frame, scene.image, 0.5), openpose(frame))


def draw_styles() -> Tensor:
    """The three styles of Render Pose."""
    frame = true_pose(person())
    return beside(openpose(frame), openpose(frame, thick=True), draw_pose(frame, threshold=0.5))


def draw_smoothed() -> Tensor:
    """Twelve frames of somebody who stands still, laid over each other: as found, and smoothed."""
    frame = true_pose(portrait())
    generator = torch.Generator().manual_seed(0)
    frames = []
    for _ in range(12):
        people = tuple(
            dataclasses.replace(one, keypoints=one.keypoints + 3 * torch.randn(308, 2, generator=generator))
            for one in frame.people
        )
        frames.append(dataclasses.replace(frame, people=people))
    found = Pose(tuple(frames))
    return beside(*(torch.stack([openpose(each) for each in pose.frames]).amax(0) for pose in (found, smooth(found))))


def draw_selected() -> Tensor:
    """All people, and one of them."""
    pose = Pose((true_pose(group()),))
    (one,) = select_people(pose, "by number", [1]).frames
    return beside(*(draw_openpose(openpose_people(frame, 0.5), group().image) for frame in (*pose.frames, one)))


def draw_part_boxes() -> Tensor:
    """Boxes around parts of a person."""
    pose = Pose((true_pose(portrait()),))
    parts = ("face", "left hand", "right hand", "upper body")
    found = [boxes_from_pose(pose, part, square=part != "upper body", threshold=0.5)[0] for part in parts]
    x, y, side, _ = found[0]
    face = portrait().image[:, y : y + side, x : x + side]
    height = SIZE[0]
    crop = F.interpolate(face[None], (height, height), mode="bicubic")[0].clamp(0, 1)
    return beside(with_boxes(portrait().image, found), crop)


def draw_mask_boxes() -> Tensor:
    """A mask and the boxes of the people in it."""
    return beside(grey(group().mask), with_boxes(group().image, boxes_from_mask(group().mask)))


def draw_parts() -> Tensor:
    """A photo, its parts, the people."""
    scene = portrait()
    return beside(scene.image, colour_body_parts(scene.labels), grey(scene.mask))


def draw_part_masks() -> Tensor:
    """Clothes, skin and hair, each in white."""
    scene = portrait()
    segmentation = Segmentation(scene.labels[None])
    masks = [
        next(part_masks(segmentation, parse_parts(text), finish=MaskFinish(feather=feather)))
        for text, feather in (("clothes", 0), ("skin", 0), ("hair", 8))
    ]
    return beside(*(overlay(scene.image * 0.35, torch.ones(3, 1, 1), mask) for mask in masks))


def draw_conventions() -> Tensor:
    """OpenGL, DirectX, and as ControlNets have it."""
    return beside(*(normals_to_rgb(portrait().normals, name) for name in ("opengl", "directx", "controlnet_bae")))


def draw_pointmap() -> Tensor:
    """A photo, how far everything is, and the person's points from two other sides."""
    scene = person()
    return beside(scene.image, draw_metres(scene), draw_mesh(scene, 40), draw_mesh(scene, -40))


def draw_depths() -> Tensor:
    """A photo; the person, grey; everything, in colour."""
    return beside(person().image, draw_depth(person()), draw_metres(person()))


def draw_surface_normals() -> Tensor:
    """A photo and the normals of its points."""
    normals = normals_from_points(portrait().points, portrait().mask)
    return beside(portrait().image, normals_to_rgb(normals) * portrait().mask)


def draw_surface() -> Tensor:
    """The person's surface from three sides."""
    return beside(*(draw_mesh(person(), degrees) for degrees in (-50, 0, 50)))


def draw_points() -> Tensor:
    """The person's points, few of them, from three sides."""
    return beside(*(draw_mesh(person(), degrees, stride=7) for degrees in (-50, 0, 50)))


def draw_camera() -> Tensor:
    """The photo; and from above, the camera, what it sees, and the person."""
    scene = person()
    height, width = scene.mask.shape
    side = height
    image = Image.new("RGB", (side, side), "#202020")
    draw = ImageDraw.Draw(image)
    points = scene.points[:, scene.mask].double()
    farthest = 1.25 * float(points[2].max())
    scale = (side - 60) / farthest
    half = math.atan(width / 2 / scene.focal_length)
    apex = (side / 2, side - 30)
    reach = farthest / math.cos(half) * scale
    edges = [(apex[0] + sign * reach * math.sin(half), apex[1] - reach * math.cos(half)) for sign in (-1, 1)]
    draw.polygon([apex, *edges], fill="#2f4858", outline="#8ab6ff")
    for (x, _, z), color in zip(points.T.tolist(), (scene.image[:, scene.mask].T * 255).int().tolist(), strict=True):
        column, row = apex[0] + x * scale, apex[1] - z * scale
        draw.rectangle((column, row, column + 1, row + 1), fill=tuple(color))
    draw.arc((apex[0] - 60, apex[1] - 60, apex[0] + 60, apex[1] + 60), -90 - math.degrees(half),
             -90 + math.degrees(half), fill="#ffd23f", width=3)  # fmt: skip
    draw.text((apex[0], apex[1] - 78), f"{math.degrees(2 * half):.0f}°", fill="#ffd23f", anchor="mm", font_size=20)
    draw.rectangle((apex[0] - 9, apex[1], apex[0] + 9, apex[1] + 14), fill="#dddddd")
    return beside(scene.image, from_pillow(image))


def draw_mattes() -> Tensor:
    """The photo, alpha, the cut-out and another background."""
    scene = portrait()
    return beside(scene.image, grey(scene.alpha), chequered(scene), draw_matte(scene))


def draw_albedo() -> Tensor:
    """A photo and its colour without light."""
    return beside(portrait().image, portrait().albedo)


#: By the name of the file.
DRAWN: dict[str, Callable[[], Tensor]] = {
    "tasks": draw_tasks,
    "pose": draw_pose_found,
    "pose_styles": draw_styles,
    "pose_smoothed": draw_smoothed,
    "people": draw_selected,
    "part_boxes": draw_part_boxes,
    "mask_boxes": draw_mask_boxes,
    "body_parts": draw_parts,
    "part_masks": draw_part_masks,
    "normals": draw_conventions,
    "pointmap": draw_pointmap,
    "depth": draw_depths,
    "pointmap_normals": draw_surface_normals,
    "mesh": draw_surface,
    "point_cloud": draw_points,
    "camera": draw_camera,
    "matte": draw_mattes,
    "albedo": draw_albedo,
}


def main() -> None:
    """Writes every picture."""
    torch.set_num_threads(1)
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        (PICTURES / f"{name}.jpg").write_bytes(as_jpeg(Image.fromarray(to_uint8(draw())), MAX_BYTES))


if __name__ == "__main__":
    main()
