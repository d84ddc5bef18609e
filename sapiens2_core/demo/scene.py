"""Scenes of mannequins in a room, seen by a camera, and what may be done to them without changing their meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .builder import rotation
from .chance import choose, normal_within
from .figure import Figure, random_figure, swap_sided_labels
from .poses import is_sitting
from .primitives import Floats, Primitives
from .room import Room, random_room
from .surfaces import Light


@dataclass(frozen=True)
class Scene:
    """Everything that a picture is made of, in the camera's space: metres, x right, y down, z forward.

    Attributes:
        height, width: of the picture, pixels. The principal point is ((width - 1) / 2, (height - 1) / 2).
        focal_length: pixels.
        solids: of all people and things.
        people: one to three.
        room: what lies behind.
        light: that falls on it all.
        up: (3,) the world's up.
    """

    height: int
    width: int
    focal_length: float
    solids: Primitives
    people: tuple[Figure, ...]
    room: Room
    light: Light
    up: Floats

    def resized(self, height: int, width: int) -> Scene:
        """The same view in another size, its aspect ratio by cutting or adding at left and right."""
        return replace(self, height=height, width=width, focal_length=self.focal_length * height / self.height)

    def moved(self, turn: Floats, offset: Floats, scale: float = 1.0) -> Scene:
        """Every point p becomes ``scale`` · ``turn`` @ p + ``offset``; light and up turn with it."""
        return replace(
            self,
            solids=self.solids.moved(turn, offset, scale),
            people=tuple(figure.moved(turn, offset, scale) for figure in self.people),
            room=self.room.moved(turn, offset, scale),
            light=replace(self.light, direction=turn @ self.light.direction),
            up=turn @ self.up,
        )

    def mirrored(self) -> Scene:
        """Its mirror image at the plane x = 0: left hands are right hands."""
        scene = self.moved(np.diag([-1.0, 1.0, 1.0]), np.zeros(3))
        return replace(
            scene,
            solids=replace(scene.solids, labels=swap_sided_labels(scene.solids.labels)),
            people=tuple(figure.with_sides_swapped() for figure in scene.people),
        )

    def seen_from_farther(self, metres: float) -> Scene:
        """The camera moved back along its axis: every depth grows by ``metres``."""
        return self.moved(np.eye(3), np.array([0.0, 0.0, metres]))

    def scaled(self, factor: float) -> Scene:
        """A world ``factor`` times as large: the same picture, every point ``factor`` times as far."""
        return self.moved(np.eye(3), np.zeros(3), factor)

    def lit_from(self, direction: Floats) -> Scene:
        """With the lamp elsewhere: (3,) towards it, x right, y down, z forward."""
        direction = np.asarray(direction, float)
        return replace(self, light=replace(self.light, direction=direction / np.linalg.norm(direction)))


def _things(random: np.random.Generator, reach: float) -> Primitives | None:
    """Balls and posts beside and behind the people."""
    count = random.choice([0, 1, 2], p=[0.5, 0.3, 0.2])
    rows = []
    for _ in range(count):
        x = random.choice([-1, 1]) * random.uniform(0.45, 1.1)
        z = random.uniform(-reach, -0.25)
        color = random.uniform(0.1, 0.9, 3)
        if random.random() < 0.5:
            radius = random.uniform(0.08, 0.3)
            rows.append((x, radius, z, 0.0, radius, radius, color))
        else:
            radius = random.uniform(0.03, 0.15)
            rows.append((x, 0.0, z, random.uniform(0.4, 2.2), radius, radius * random.uniform(0.6, 1), color))
    return _posts(rows) if rows else None


def _posts(rows: list[tuple]) -> Primitives:
    """Upright rounded cones of no person, each x, y, z of the lower centre, height, two radii, colour."""
    count = len(rows)
    return Primitives(
        centers=np.array([row[:3] for row in rows], float),
        to_local=np.repeat(np.eye(3)[None], count, axis=0),
        heights=np.array([row[3] for row in rows], float),
        radii=np.array([row[4:6] for row in rows], float),
        labels=np.zeros(count, dtype=np.int64),
        persons=np.full(count, -1),
        colors=np.stack([np.stack([row[6], row[6] * 0.7]) for row in rows]),
        patterns=np.zeros(count, dtype=np.int64),
        gloss=np.full(count, 0.15),
        texture_maps=np.repeat(np.eye(3)[None], count, axis=0),
        texture_offsets=np.zeros((count, 3)),
    )


def _light(random: np.random.Generator) -> Light:
    """In the world's space: y up, z towards the viewer."""
    aside, above = np.radians(random.normal(0, 50)), np.radians(random.uniform(15, 65))
    direction = np.array([np.sin(aside) * np.cos(above), np.sin(above), np.cos(aside) * np.cos(above)])
    warm = random.normal(0, 0.05)
    strength, ambient = random.uniform(0.55, 0.9), random.uniform(0.42, 0.62)
    color = strength * np.array([1 + warm, 1.0, 1 - warm])
    sky = ambient * np.array([1 - warm, 1.0, 1 + warm]) * random.uniform(0.9, 1.15)
    return Light(direction, color, sky, sky * random.uniform(0.5, 0.85))


#: What a picture shows of people and how often; then keypoints near its lower edge, and metres from there to it.
_FRAMINGS = {"ground": 0.43, "knee": 0.14, "hip": 0.18, "shoulder": 0.10, "head": 0.09, "anywhere": 0.06}
_LOWER_EDGE = {"knee": ((11, 12), -0.02), "hip": ((9, 10), -0.10), "shoulder": ((5, 6), -0.20), "head": ((69,), -0.04)}


def random_scene(
    seed: int, size: tuple[int, int] = (256, 192), persons: int | None = None, framing: str | None = None
) -> Scene:
    """Draws a scene; the same arguments give the same scene.

    Args:
        seed: any whole number from 0.
        size: (height, width) of the picture in pixels.
        persons: 1 to 3; None draws it.
        framing: "ground" shows people down to their feet; "knee", "hip", "shoulder" and "head" cut below these;
            "anywhere" may cut anything; None draws it.

    Raises:
        ValueError: a number of persons or a framing that doesn't exist.
    """
    if persons is not None and persons not in (1, 2, 3):
        raise ValueError(f"A scene holds 1 to 3 persons, not {persons}.")
    if framing is not None and framing not in _FRAMINGS:
        raise ValueError(f'There is no framing "{framing}"; choose one of {", ".join(_FRAMINGS)}.')
    random = np.random.default_rng([seed, 308])
    height, width = size
    count = persons or int(random.choice([1, 2, 3], p=[0.72, 0.19, 0.09]))
    framing = framing or choose(random, _FRAMINGS)

    figures, solids, shadows = [], [], []
    places = (np.arange(count) - (count - 1) / 2) * random.uniform(0.62, 1.0)
    general_turn = random.choice(
        [random.normal(0, 28), random.uniform(60, 120) * random.choice([-1, 1]), random.uniform(140, 220)],
        p=[0.74, 0.15, 0.11],
    )
    for person in range(count):
        figure, parts, pose = random_figure(random, person, allow_sitting=count == 1)
        turn = rotation(y=general_turn + (random.normal(0, 25) if count > 1 else 0.0))
        offset = np.array(
            [places[person] + random.normal(0, 0.04), 0, random.uniform(-0.35, 0.25) if count > 1 else 0.0]
        )
        if is_sitting(pose):
            hips = figure.keypoints[[9, 10]].mean(axis=0)
            seat = max(hips[1] - 0.17, 0.1)
            stool = _posts([(hips[0], 0.0, hips[2] - 0.03, seat / 0.3, 0.17, 0.19, random.uniform(0.15, 0.85, 3))])
            stool = replace(stool, to_local=stool.to_local / np.array([1, 0.3, 1])[:, None])
            solids.append(stool.moved(turn, offset))
        figures.append(figure.moved(turn, offset))
        solids.append(parts.moved(turn, offset))
        feet = figures[-1].keypoints[[13, 14]]
        shadows += [(*(foot * (1, 0, 1)), 0.16 + 0.5 * foot[1]) for foot in feet]
    bodies = Primitives.join(solids)

    target, tall, broad = _camera(random, figures, bodies, framing)
    focal_length = float(np.exp(random.uniform(np.log(0.6), np.log(2.0)))) * width
    # A portrait through a wide lens would be taken from too near: take a longer lens.
    focal_length = min(max(focal_length, 0.9 / max(tall / height, broad / width)), 2.0 * width)
    distance = max(tall / height, broad / width) * focal_length + 0.12
    elevation = np.radians(normal_within(random, 4, 9, -12, 32))
    roll = rotation(z=random.normal(0, 2.5))
    eye = target + distance * np.array([0, np.sin(elevation), np.cos(elevation)])
    eye[1] = max(eye[1], 0.12)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, (0, 1, 0))
    right /= np.linalg.norm(right)
    to_camera = roll @ np.stack([right, np.cross(forward, right), forward])

    reach = float(np.abs(bodies.centers[:, [0, 2]]).max() + 0.5)
    things = _things(random, reach)
    room = replace(random_room(random, eye, reach + 0.4), shadows=np.array(shadows))
    offset = -to_camera @ eye
    world = bodies if things is None else Primitives.join([bodies, things])
    light = _light(random)
    return Scene(
        height=height,
        width=width,
        focal_length=focal_length,
        solids=world.moved(to_camera, offset),
        people=tuple(figure.moved(to_camera, offset) for figure in figures),
        room=room.moved(to_camera, offset),
        light=replace(light, direction=to_camera @ light.direction),
        up=to_camera @ np.array([0.0, 1.0, 0.0]),
    )


def _camera(
    random: np.random.Generator, figures: list[Figure], bodies: Primitives, framing: str
) -> tuple[Floats, float, float]:
    """What the camera looks at: the middle (3,), and the height and width in metres that the picture holds there."""
    centers, spreads = bodies.ends()
    reach = np.sqrt(spreads[..., [0, 1], [0, 1]])
    is_body = bodies.persons >= 0
    low = (centers[..., :2] - reach)[is_body].min(axis=(0, 1))
    high = (centers[..., :2] + reach)[is_body].max(axis=(0, 1))
    if framing == "anywhere":
        size = (high[1] - low[1]) * random.uniform(0.35, 0.9)
        middle = np.array(
            [random.uniform(low[0], high[0]) * 0.5, random.uniform(low[1] + size / 2, high[1] - size / 3), 0]
        )
        return middle, float(size), float(size * 0.6)
    bottom = low[1]
    if framing != "ground":
        points, offset = _LOWER_EDGE[framing]
        bottom = np.mean([figure.keypoints[list(points), 1].mean() for figure in figures]) + offset
    size, span = high[1] - bottom, high[0] - low[0]
    if framing != "ground":  # elbows may be cut with the legs
        widest = [0] if framing == "head" else [5, 6]
        shoulders = np.concatenate([figure.keypoints[widest, 0] for figure in figures])
        span = np.ptp(shoulders) + 0.30
        middle_x = shoulders.mean()
    else:
        middle_x = (low[0] + high[0]) / 2
    margin = random.uniform(1.02, 1.35)
    jitter = random.normal(0, 0.03, 2) * size
    middle = np.array([middle_x + jitter[0], (high[1] + bottom) / 2 + jitter[1] + 0.02 * size, 0])
    return middle, float(size * margin), float(span * margin * (1.0 if framing == "ground" else 0.9))
