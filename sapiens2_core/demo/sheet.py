"""All that was found in a picture, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from ..compositing import composite
from ..geometry import depth_picture
from ..mesh import grid_mesh
from ..render import colour_body_parts, draw_pose, normals_to_rgb, overlay, to_uint8
from ..results import FramePointmap, Pointmap

#: Background of what is cut out, RGB, and height of the captions, pixels.
_BACKDROP, _CAPTION = (0.18, 0.55, 0.47), 26
#: From where the mesh is looked at: degrees to its side, and above.
_SIDE, _ABOVE = 38.0, 12.0


def mesh_view(image: Tensor, frame: FramePointmap, inside: Tensor) -> Tensor:
    """The mesh of a pointmap with its photo on it, seen from the side.

    Args:
        image: (3, H, W) 0..1.
        frame: the pointmap.
        inside: (H, W) bool: what becomes surface.

    Returns:
        (3, H, W). Triangles are painted from far to near.
    """
    import cv2  # half a second at import

    height, width = inside.shape
    mesh = grid_mesh(frame.points, inside)
    picture = np.full((height, width, 3), 24, np.uint8)
    if not len(mesh.faces):
        return torch.from_numpy(picture).movedim(-1, 0).float() / 255
    vertices, faces = mesh.vertices.double().numpy(), mesh.faces.numpy()
    side, above = np.radians(_SIDE), np.radians(_ABOVE)
    turn = np.array([[np.cos(side), 0, np.sin(side)], [0, 1, 0], [-np.sin(side), 0, np.cos(side)]])
    tilt = np.array([[1, 0, 0], [0, np.cos(above), -np.sin(above)], [0, np.sin(above), np.cos(above)]])
    moved = (vertices - np.median(vertices, axis=0)) @ (tilt @ turn).T
    low, high = moved[:, :2].min(axis=0), moved[:, :2].max(axis=0)
    scale = 0.92 * min(width / (high[0] - low[0]), height / (high[1] - low[1]))
    middle = (low + high) / 2
    places = np.array([width / 2, height / 2]) + (moved[:, :2] - middle) * scale * np.array([1, -1])
    corners = np.round(places[faces] * 16).astype(np.int32)  # of which OpenCV takes 4 bits as fractions

    centres = mesh.uvs[mesh.faces].mean(dim=1) * torch.tensor([width, height])
    columns, rows = centres.long().clamp(min=0).unbind(1)
    colours = image[:, rows.clamp(max=height - 1), columns.clamp(max=width - 1)].T.numpy()
    edges = moved[faces]
    normals = np.cross(edges[:, 1] - edges[:, 0], edges[:, 2] - edges[:, 0])
    facing = np.abs(normals[:, 2]) / np.maximum(np.linalg.norm(normals, axis=1), 1e-12)
    colours = (colours * (0.45 + 0.55 * facing[:, None]) * 255).astype(np.uint8)
    for index in np.argsort(edges[..., 2].mean(axis=1)):
        cv2.fillConvexPoly(picture, corners[index], colours[index].tolist(), cv2.LINE_8, shift=4)
    return torch.from_numpy(picture).movedim(-1, 0).float() / 255


def panels(image: Tensor, found: dict[str, Any]) -> dict[str, Tensor]:
    """A picture (3, H, W) of each result, by its caption.

    Args:
        image: (3, H, W) 0..1, what was looked at.
        found: what :meth:`~sapiens2_core.inference.Estimator.predict` gave for it, by task.
    """
    labels, matte, frame = found["seg"], found["matting"], found["pointmap"]
    inside = labels > 0
    pointmap = Pointmap(
        points=frame.points[None],
        scales=torch.tensor([frame.scale]),
        focal_lengths=torch.tensor([frame.focal_length]),
        images=image[None],
    )
    backdrop = torch.tensor(_BACKDROP)[:, None, None]
    return {
        "input": image,
        "pose": draw_pose(found["pose"], image),
        "body parts": overlay(image, colour_body_parts(labels), inside.float() * 0.75),
        "normals": normals_to_rgb(found["normal"]),
        "depth": depth_picture(pointmap, mask=inside[None].float())[0][0].expand(3, -1, -1),
        "mesh, from the side": mesh_view(image, frame, inside),
        "matte": composite(matte.foreground, matte.alpha, backdrop),
        "albedo": found["albedo"].clamp(0, 1),
    }


def contact_sheet(image: Tensor, found: dict[str, Any], columns: int = 4) -> np.ndarray:
    """The panels with their captions, (H', W', 3) uint8; arguments as in :func:`panels`."""
    pictures = panels(image, found)
    height, width = image.shape[-2:]
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (columns * width, rows * (height + _CAPTION)), (24, 24, 24))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=16)
    for index, (caption, picture) in enumerate(pictures.items()):
        x, y = index % columns * width, index // columns * (height + _CAPTION)
        pen.text((x + 8, y + 3), caption, fill=(235, 235, 235), font=font)
        sheet.paste(Image.fromarray(to_uint8(picture)), (x, y + _CAPTION))
    return np.asarray(sheet)
