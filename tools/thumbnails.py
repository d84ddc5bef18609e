"""Draws the small pictures of the workflows in ComfyUI's template browser: a mannequin, and what a graph makes of it.

python -m tools.thumbnails

What a network would estimate is the mannequin's known truth, drawn by the same functions that the nodes use.
"""

from __future__ import annotations

import math
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont, ImageOps
from torch import Tensor

from sapiens2_core.body_parts import PART_GROUPS
from sapiens2_core.compositing import composite
from sapiens2_core.demo import Render, random_scene, render
from sapiens2_core.geometry import depth_picture
from sapiens2_core.openpose_in import openpose_people
from sapiens2_core.pose_boxes import boxes_from_pose
from sapiens2_core.pose_parts import Parts
from sapiens2_core.render import colour_depth, normals_to_rgb, to_uint8
from sapiens2_core.render_openpose import draw_openpose
from sapiens2_core.results import FramePose, PersonPose, Pointmap, Pose

ROOT = Path(__file__).resolve().parents[1]

#: One person, whole, and (height, width) of each of a thumbnail's two halves.
SEED, SIZE = 11, (512, 384)
MAX_BYTES = 50_000


def true_pose(scene: Render) -> FramePose:
    """The people's keypoints, those that can be seen."""
    people = tuple(
        PersonPose(points.float(), seen.float(), tuple(box.tolist()))
        for points, seen, box in zip(scene.keypoints, scene.visibility, scene.boxes, strict=True)
    )
    return FramePose(people, *scene.mask.shape)


def draw_pose(scene: Render) -> Tensor:
    """As OpenPose ControlNets want it."""
    return draw_openpose(openpose_people(true_pose(scene), 0.5), parts=Parts(feet=False))


def draw_video(scene: Render) -> Tensor:
    """As Wan Animate wants it: the pose without the face's fine points, and the face by itself, here in a corner."""
    picture = draw_openpose(openpose_people(true_pose(scene), 0.5), parts=Parts(feet=False, face=False))
    ((x, y, side, _),) = boxes_from_pose(Pose((true_pose(scene),)), "face")
    face = scene.image[:, y : y + side, x : x + side]
    inset = picture.shape[2] // 3
    picture[:, -inset:, -inset:] = F.interpolate(face[None], (inset, inset), mode="bicubic")[0].clamp(0, 1)
    return picture


def draw_normals(scene: Render) -> Tensor:
    """As ControlNets for normals want them."""
    return normals_to_rgb(scene.normals, "controlnet_bae")


def as_pointmap(scene: Render) -> Pointmap:
    """What a network that never errs would give."""
    scale, focal_length = torch.ones(1), torch.tensor([scene.focal_length])
    return Pointmap(scene.points[None], scale, focal_length, scene.image[None], scene.mask[None])


def draw_depth(scene: Render) -> Tensor:
    """Of the person, on black."""
    return depth_picture(as_pointmap(scene))[0][0].expand(3, -1, -1)


def draw_metres(scene: Render) -> Tensor:
    """Depth of the whole picture, linear, in the colours in which programs show numbers."""
    everywhere = replace(as_pointmap(scene), mask=None)
    return colour_depth(depth_picture(everywhere, curve="linear")[0][0], "turbo")


def draw_clothes(scene: Render) -> Tensor:
    """Their mask."""
    ids = torch.tensor(next(group.ids for group in PART_GROUPS if group.name == "clothes"))
    return torch.isin(scene.labels.long(), ids).float().expand(3, -1, -1)


def draw_matte(scene: Render) -> Tensor:
    """The person in front of an evening sky."""
    height, width = scene.mask.shape
    down = torch.linspace(0, 1, height).view(1, height, 1)
    high, low = torch.tensor([0.16, 0.18, 0.42]).view(3, 1, 1), torch.tensor([0.98, 0.62, 0.42]).view(3, 1, 1)
    sky = (high + (low - high) * down).expand(3, height, width)
    return composite(scene.foreground, scene.alpha, sky)


def draw_mesh(scene: Render, degrees: float = 40, stride: int = 1) -> Tensor:
    """The person's surface, seen from the side: every stride-th of its points, the nearest drawn last."""
    points, colors = scene.points[:, scene.mask][:, ::stride].double(), scene.image[:, scene.mask][:, ::stride]
    angle = math.radians(degrees)
    turn = torch.tensor(
        [[math.cos(angle), 0, -math.sin(angle)], [0, 1, 0], [math.sin(angle), 0, math.cos(angle)]], dtype=torch.double
    )
    center = points.mean(1, keepdim=True)
    x, y, z = turn @ (points - center) + center
    height, width = scene.mask.shape
    column = (x / z * scene.focal_length + (width - 1) / 2).round().long().clamp(0, width - 2)
    row = (y / z * scene.focal_length + (height - 1) / 2).round().long().clamp(0, height - 2)
    order = z.argsort(descending=True)
    picture = np.full((height, width, 3), 0.13, np.float32)
    for down in (0, 1):
        for right in (0, 1):  # where points meet, NumPy keeps the one that comes last
            picture[row[order] + down, column[order] + right] = colors.T[order]
    return torch.from_numpy(picture).movedim(-1, 0)


#: What the right half shows, by the name of the graph or its first word.
DRAWN = {
    "pose": draw_pose,
    "normals": draw_normals,
    "depth": draw_depth,
    "depth_exr": draw_metres,
    "clothes": draw_clothes,
    "matte": draw_matte,
    "mesh": draw_mesh,
    "video": draw_video,
}


#: What stands at the bottom of a picture: how a graph differs from the one that shares it.
CAPTIONS = {
    "controlnet": "+ ControlNet, diffusion model",
    "inpaint": "+ inpainting model",
    "animate": "+ Wan Animate",
    "exr": "metres, as EXR",
}


def captioned(picture: Image.Image, text: str) -> Image.Image:
    """A picture of the same size with a line below, for which the picture shrinks."""
    width, height = picture.size
    band = 56
    framed = Image.new("RGB", picture.size, (26, 26, 26))
    small = ImageOps.contain(picture, (width, height - band))
    framed.paste(small, ((width - small.width) // 2, 0))
    place = (width // 2, height - band // 2)
    ImageDraw.Draw(framed).text(place, text, fill=(235, 235, 235), font=ImageFont.load_default(size=32), anchor="mm")
    return framed


def as_jpeg(picture: Image.Image, most: int) -> bytes:
    """As good as so many bytes allow."""
    for quality in range(90, 40, -5):
        file = BytesIO()
        picture.save(file, "JPEG", quality=quality, optimize=True)
        if file.tell() <= most:
            break
    return file.getvalue()


def main() -> None:
    """Writes a .jpg beside every graph."""
    torch.set_num_threads(1)
    scene = render(random_scene(SEED, SIZE, persons=1, framing="ground"), 3)
    for path in sorted((ROOT / "workflows").glob("*.json")):
        name = path.stem.removeprefix("sapiens2_")
        draw = DRAWN.get(name) or DRAWN[name.split("_")[0]]
        picture = Image.fromarray(to_uint8(torch.cat([scene.image, draw(scene)], dim=2)))
        text = CAPTIONS.get(name.split("_")[-1])
        if text is not None:
            picture = captioned(picture, text)
        path.with_suffix(".jpg").write_bytes(as_jpeg(picture, MAX_BYTES))


if __name__ == "__main__":
    main()
