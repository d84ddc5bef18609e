"""Foreground, alpha and background."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sapiens2_core import compositing
from sapiens2_core.demo import random_scene, render
from sapiens2_core.render import to_uint8


def test_straight_colour_undoes_premultiplication_and_composite_follows_the_formula():
    colour = torch.tensor([0.2, 0.6, 1.0])[:, None, None].expand(3, 2, 2)
    alpha = torch.tensor([[[0.0, 0.25], [0.5, 1.0]]])
    foreground = colour * alpha
    straight = compositing.straight_colour(foreground, alpha)
    torch.testing.assert_close(straight[:, alpha[0] > 0], colour[:, alpha[0] > 0])
    assert (straight[:, 0, 0] == 0).all()
    background = torch.tensor([1.0, 0.0, 0.5])[:, None, None]
    torch.testing.assert_close(
        compositing.composite(foreground, alpha, background), colour * alpha + background * (1 - alpha)
    )


def test_straight_colour_is_clamped_where_the_network_breaks_the_rule():
    assert compositing.straight_colour(torch.full((1, 3, 1, 1), 0.9), torch.full((1, 1, 1, 1), 0.3)).max() == 1


@pytest.mark.parametrize("behind", [0.0, 1.0, None], ids=["black", "white", "noise"])
@pytest.mark.parametrize("route", ["network", "photo"])
def test_a_saved_cut_out_composites_as_the_premultiplied_formula_says(behind, route):
    """In another program: 8-bit colour · alpha + (1 - alpha) · background, no more than a level off anywhere."""
    scene = render(random_scene(5, (192, 144), persons=1, framing="hip"), 3)
    assert ((scene.alpha > 0) & (scene.alpha < 1)).sum() > 200
    if route == "network":
        premultiplied = scene.foreground
        straight = compositing.straight_colour(scene.foreground, scene.alpha)
    else:  # the photo's own pixels
        straight, premultiplied = scene.image, scene.image * scene.alpha
    background = (
        torch.rand(scene.image.shape, generator=torch.Generator().manual_seed(0))
        if behind is None
        else torch.full_like(scene.image, behind)
    )
    saved = to_uint8(torch.cat([straight, scene.alpha])) / np.float64(255)
    seen = saved[..., :3] * saved[..., 3:] + (1 - saved[..., 3:]) * background.double().movedim(0, -1).numpy()
    wanted = compositing.composite(premultiplied, scene.alpha, background).movedim(0, -1).numpy()
    assert np.abs(seen - wanted).max() <= 1 / 255 + 1e-6
