"""A world of mannequins: pictures of people in which every pixel's truth is known, because formulas drew them."""

from .dataset import HELD_OUT, MannequinDataset
from .render import Render, render
from .scene import Scene, random_scene

__all__ = ["HELD_OUT", "MannequinDataset", "Render", "Scene", "random_scene", "render"]
