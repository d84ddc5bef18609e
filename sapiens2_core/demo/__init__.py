"""A world of mannequins: pictures of people in which every pixel's truth is known, because formulas drew them.

One scene gives the picture, body parts, normals, metric points, matte, albedo and 308 keypoints::

    scene = random_scene(seed=7, size=(1024, 768), persons=1, framing="ground")
    picture = render(scene, supersample=4)
    picture.image, picture.labels, picture.normals, picture.points, picture.keypoints, ...

and its meaning can be asked about: ``scene.mirrored()``, ``scene.seen_from_farther(1.0)``, ``scene.scaled(2.0)``,
``scene.lit_from((-1, -1, -1))`` and ``scene.resized(256, 192)`` are scenes whose truth follows from the first one's.
:class:`MannequinDataset` draws as many as training wants.
"""

from .dataset import HELD_OUT, MannequinDataset
from .render import Render, render
from .scene import Scene, random_scene

__all__ = ["HELD_OUT", "MannequinDataset", "Render", "Scene", "random_scene", "render"]
