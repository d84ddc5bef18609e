"""From bones and sizes to solids: a list of shapes in the spaces of bones, turned into primitives all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .primitives import Floats, Primitives

Vector = Sequence[float] | Floats


@dataclass(frozen=True)
class Paint:
    """What a surface looks like and what it counts as.

    Attributes:
        label: id of the body part.
        color: (3,) RGB 0..1.
        second: (3,) RGB 0..1 of the pattern; None is the same again.
        pattern: a row of :data:`~.surfaces.PATTERNS`.
        gloss: strength of the highlight, 0..1.
    """

    label: int
    color: Floats
    second: Floats | None = None
    pattern: int = 0
    gloss: float = 0.08

    def with_label(self, label: int) -> Paint:
        """The same surface as another part."""
        return Paint(label, self.color, self.second, self.pattern, self.gloss)


def rotation(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Floats:
    """(3, 3) right-handed rotation about z, then y, then x, in degrees."""
    cx, cy, cz = np.cos(np.radians([x, y, z]))
    sx, sy, sz = np.sin(np.radians([x, y, z]))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_x @ about_y @ about_z


_UPRIGHT = np.eye(3)


def _along(axes: Floats) -> Floats:
    """(N, 3, 3) rotations whose second column is the unit axis, and whose first is as near x as that allows."""
    side = np.where(np.abs(axes[:, :1]) < 0.9, _UPRIGHT[0], _UPRIGHT[2])
    side = side - axes * (side * axes).sum(axis=1, keepdims=True)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    return np.stack([side, axes, np.cross(side, axes)], axis=2)


@dataclass
class Builder:
    """Collects solids in the spaces of bones.

    Attributes:
        rotations: bone → (3, 3), from the bone's space to the body's.
        origins: bone → (3,) metres, the bone's joint in the body's space.
    """

    rotations: dict[str, Floats]
    origins: dict[str, Floats]
    _rows: list[tuple] = field(default_factory=list)

    def cone(
        self,
        bone: str,
        start: Vector,
        end: Vector,
        radii: tuple[float, float],
        paint: Paint,
        squash: Vector = (1.0, 1.0, 1.0),
    ) -> None:
        """A rounded cone between two points of a bone's space, in metres.

        Args:
            bone: whose space.
            start: centre of the first end.
            end: centre of the second end.
            radii: of both ends.
            paint: its surface.
            squash: factors on the radii across (as near the bone's x as the axis allows), along the axis, and
                across both.
        """
        self._rows.append((bone, start, end, _UPRIGHT, squash, radii, paint))

    def ellipsoid(self, bone: str, center: Vector, radii: Vector, paint: Paint, turn: Floats | None = None) -> None:
        """An ellipsoid in a bone's space, metres; ``turn`` (3, 3) turns its axes."""
        self._rows.append((bone, center, center, _UPRIGHT if turn is None else turn, radii, (1.0, 1.0), paint))

    def __len__(self) -> int:
        return len(self._rows)

    def build(self, person: int) -> Primitives:
        """Everything collected so far, in the body's space, as belonging to ``person``."""
        bones, starts, ends, bases, squashes, radii, paints = zip(*self._rows, strict=True)
        turns = np.stack([self.rotations[bone] for bone in bones])
        origins = np.stack([self.origins[bone] for bone in bones])
        starts, squashes, radii = np.array(starts, float), np.array(squashes, float), np.array(radii, float)
        axes = np.array(ends, float) - starts
        lengths = np.linalg.norm(axes, axis=1)
        bases = np.stack(bases)
        is_cone = lengths > 0
        bases[is_cone] = _along(axes[is_cone] / lengths[is_cone, None])
        bases = turns @ bases
        count, heights = len(bones), lengths / squashes[:, 1]
        # A long cone of little height would be one sphere inside the other: let it be almost so.
        limit = np.where(heights > 0, 0.98 * heights, np.inf)
        radii[:, 1] = np.clip(radii[:, 1], radii[:, 0] - limit, radii[:, 0] + limit)
        return Primitives(
            centers=origins + np.einsum("nij,nj->ni", turns, starts),
            to_local=bases.transpose(0, 2, 1) / squashes[:, :, None],
            heights=heights,
            radii=radii,
            labels=np.array([paint.label for paint in paints]),
            persons=np.full(count, person),
            colors=np.array([(p.color, p.color if p.second is None else p.second) for p in paints], dtype=float),
            patterns=np.array([paint.pattern for paint in paints]),
            gloss=np.array([paint.gloss for paint in paints]),
            texture_maps=turns.transpose(0, 2, 1),
            texture_offsets=-np.einsum("nji,nj->ni", turns, origins),
        )
