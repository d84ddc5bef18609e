"""Scenes whose geometry is known exactly, seen by a pinhole camera with a known focal length: rays meet formulas."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sapiens2_core.results import Pointmap


@dataclass(frozen=True)
class View:
    """What a camera sees of one surface.

    Attributes:
        points: (3, H, W) float32 metres, x right, y down, z forward; a wall stands behind the surface.
        normals: (3, H, W) float32, x right, y up, z towards the camera.
        hit: (H, W) bool, where the surface is.
        focal_length: pixels.
    """

    points: torch.Tensor
    normals: torch.Tensor
    hit: torch.Tensor
    focal_length: float

    def pointmap(self, mask: bool = True) -> Pointmap:
        image = (self.normals[None] + 1) / 2
        scale = torch.tensor([768 / self.focal_length])
        return Pointmap(
            self.points[None].clone(),
            scale,
            torch.tensor([self.focal_length]),
            image,
            self.hit[None] if mask else None,
        )


def rays(height: int, width: int, focal_length: float) -> torch.Tensor:
    """(3, H, W) float64 directions with z = 1 through the pixels' centres."""
    y = (torch.arange(height, dtype=torch.float64) - (height - 1) / 2) / focal_length
    x = (torch.arange(width, dtype=torch.float64) - (width - 1) / 2) / focal_length
    y, x = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([x, y, torch.ones_like(x)])


WALL = 8.0


def _view(direction, depth, normals, hit, focal_length) -> View:
    depth = torch.where(hit, depth, WALL)
    facing = torch.tensor([0.0, 0.0, -1.0], dtype=torch.float64)[:, None, None]
    normals = torch.where(hit, normals, facing) * torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)[:, None, None]
    return View((direction * depth).float(), normals.float(), hit, focal_length)


def sphere(height=240, width=200, focal_length=300.0, center=(0.1, -0.05, 3.0), radius=0.8) -> View:
    direction = rays(height, width, focal_length)
    middle = torch.tensor(center, dtype=torch.float64)[:, None, None]
    a, b, c = (direction**2).sum(0), (direction * middle).sum(0), (middle**2).sum() - radius**2
    discriminant = b**2 - a * c
    depth = (b - discriminant.clamp_min(0).sqrt()) / a
    return _view(direction, depth, (direction * depth - middle) / radius, discriminant > 0, focal_length)


def plane(height=240, width=200, focal_length=300.0, normal=(0.4, -0.3, -0.9), distance=2.5) -> View:
    """A plane through (0, 0, distance)."""
    direction = rays(height, width, focal_length)
    facing = torch.nn.functional.normalize(torch.tensor(normal, dtype=torch.float64), dim=0)[:, None, None]
    depth = facing[2] * distance / (direction * facing).sum(0)
    return _view(direction, depth, facing.expand_as(direction), depth > 0, focal_length)


def box(height=240, width=200, focal_length=300.0, center=(0.0, 0.1, 3.0), half=(0.5, 0.6, 0.4), turn=0.6) -> View:
    """A box turned about the vertical axis: rays meet the three slabs."""
    cos, sin = torch.cos(torch.tensor(turn).double()), torch.sin(torch.tensor(turn).double())
    rotation = torch.stack([cos, cos * 0, sin, cos * 0, cos**0, cos * 0, -sin, cos * 0, cos]).view(3, 3)
    direction = rays(height, width, focal_length)
    local = torch.einsum("ij,ihw->jhw", rotation, direction)
    start = (-torch.tensor(center, dtype=torch.float64) @ rotation)[:, None, None]
    extent = torch.tensor(half, dtype=torch.float64)[:, None, None]
    enter = torch.minimum((-extent - start) / local, (extent - start) / local)
    leave = torch.maximum((-extent - start) / local, (extent - start) / local)
    depth, axis = enter.max(0)
    face = torch.nn.functional.one_hot(axis, 3).movedim(-1, 0) * -local.sign()
    normals = torch.einsum("ij,jhw->ihw", rotation, face)
    return _view(direction, depth, normals, depth < leave.amin(0), focal_length)
