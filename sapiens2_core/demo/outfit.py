"""What mannequins wear and how they are coloured, drawn at random."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass

import numpy as np

from .builder import Paint
from .chance import choose
from .primitives import Floats
from .surfaces import CHECKS, DOTS, HAIR, PLAIN, STRIPES_ACROSS, STRIPES_ALONG, WOOL

#: RGB 0..1 of skin from light to dark, of hair and of irises.
_SKINS = np.array([[0.98, 0.86, 0.77], [0.94, 0.78, 0.66], [0.87, 0.67, 0.52], [0.76, 0.55, 0.40], [0.58, 0.39, 0.27],
                   [0.42, 0.27, 0.19], [0.30, 0.19, 0.14]])  # fmt: skip
_HAIRS = np.array([[0.08, 0.07, 0.07], [0.16, 0.10, 0.07], [0.30, 0.18, 0.10], [0.48, 0.30, 0.15], [0.78, 0.60, 0.32],
                   [0.60, 0.25, 0.10], [0.62, 0.61, 0.60]])  # fmt: skip
_IRISES = np.array([[0.22, 0.12, 0.06], [0.40, 0.25, 0.10], [0.25, 0.45, 0.65], [0.30, 0.48, 0.30], [0.45, 0.48, 0.50]])

HAIR_STYLES = ("bald", "short", "bob", "long", "bun", "ponytail", "afro", "side part")
HATS = ("none", "cap", "beanie")
GLASSES = ("none", "glasses", "sunglasses")


@dataclass(frozen=True)
class Outfit:
    """Clothes, hair and colours.

    Attributes:
        upper: "none", "tank top", "t-shirt", "shirt", "jacket" or "dress".
        lower: "shorts", "trousers", "leggings", "skirt"; a dress has its own skirt.
        sleeve: how much of the arm sleeves cover, 0..2: 1 is to the elbow.
        leg: how much of the leg the lower garment covers, 0..2: 1 is to the knee.
        feet: "bare", "shoes", "boots" or "sneakers".
        socks: whether they show above the shoes.
        hair_style, hat, glasses: of the tuples above.
        scarf: whether there is one.
        skin, hair, iris: RGB 0..1.
        upper_paint, under_paint, lower_paint, shoe_paint, sole_paint, sock_paint, hat_paint, glasses_paint: surfaces.
    """

    upper: str
    lower: str
    sleeve: float
    leg: float
    feet: str
    socks: bool
    hair_style: str
    hat: str
    glasses: str
    scarf: bool
    skin: Floats
    hair: Floats
    iris: Floats
    hair_paint: Paint
    upper_paint: Paint
    under_paint: Paint
    lower_paint: Paint
    shoe_paint: Paint
    sole_paint: Paint
    sock_paint: Paint
    hat_paint: Paint
    glasses_paint: Paint


def _color(random: np.random.Generator, saturation: float = 0.75) -> Floats:
    """Cloth: any hue, often grey, black or white."""
    if random.random() < 0.25:
        value = random.choice([0.07, 0.15, 0.35, 0.6, 0.9]) + random.uniform(-0.03, 0.03)
        return np.full(3, value) + random.normal(0, 0.012, 3).clip(-0.03, 0.03)
    hue, vivid = random.random(), random.uniform(0.25, saturation)
    return np.array(colorsys.hsv_to_rgb(hue, vivid, random.uniform(0.25, 0.92)))


def _cloth(random: np.random.Generator, label: int, patterned: float = 0.45) -> Paint:
    first = _color(random)
    second = _color(random) if random.random() < 0.5 else np.clip(first * random.uniform(0.45, 0.8), 0, 1)
    pattern = PLAIN
    if random.random() < patterned:
        pattern = random.choice([STRIPES_ACROSS, STRIPES_ALONG, CHECKS, DOTS, WOOL], p=[0.3, 0.15, 0.2, 0.15, 0.2])
        if pattern == WOOL:
            second = np.clip(first * 0.8, 0, 1)
    return Paint(label, first, second, int(pattern), gloss=float(random.uniform(0.0, 0.06)))


def _blend(random: np.random.Generator, table: Floats) -> Floats:
    place = random.uniform(0, len(table) - 1)
    low = int(place)
    return table[low] + (table[min(low + 1, len(table) - 1)] - table[low]) * (place - low)


def random_outfit(random: np.random.Generator, plain_skirts: bool) -> Outfit:
    """Draws an outfit; ``plain_skirts`` says whether the pose lets a skirt hang."""
    upper = random.choice(
        ["none", "tank top", "t-shirt", "shirt", "jacket", "dress"], p=[0.05, 0.12, 0.37, 0.24, 0.14, 0.08]
    )
    if upper == "dress" and not plain_skirts:
        upper = "t-shirt"
    lowers = {"shorts": 0.27, "trousers": 0.40, "leggings": 0.13, "skirt": 0.20 if plain_skirts else 0.0}
    if upper == "none":
        lowers["skirt"] = 0.0
    lower = choose(random, lowers)
    sleeve = {
        "none": 0.0,
        "tank top": 0.0,
        "t-shirt": random.uniform(0.4, 0.75),
        "shirt": random.choice([1.4, 2.0], p=[0.25, 0.75]),
        "jacket": 2.0,
        "dress": random.choice([0.0, 0.45, 2.0]),
    }[upper]
    leg = {
        "shorts": random.uniform(0.45, 0.9),
        "trousers": 2.0,
        "leggings": random.choice([1.5, 2.0]),
        "skirt": random.uniform(0.6, 1.3),
    }[lower]
    if upper == "dress":
        lower, leg = "skirt", random.uniform(0.7, 1.5)
    feet = random.choice(["bare", "shoes", "boots", "sneakers"], p=[0.17, 0.30, 0.15, 0.38])
    skin = np.clip(_blend(random, _SKINS) + random.normal(0, 0.01, 3), 0, 1)
    hair = np.clip(_blend(random, _HAIRS) + random.normal(0, 0.012, 3), 0.02, 1)
    dyed = random.random() < 0.05
    if dyed:
        hair = _color(random, 0.9)
    upper_paint = _cloth(random, 1 if upper == "dress" else 23)
    lower_paint = upper_paint if upper == "dress" else _cloth(random, 13, 0.2)
    shoe = Paint(9, _color(random), gloss=float(random.uniform(0.05, 0.35)))
    sole = Paint(9, np.full(3, random.choice([0.9, 0.12, 0.45])), gloss=0.05)
    sock = _color(random)
    return Outfit(
        upper=str(upper),
        lower=str(lower),
        sleeve=float(sleeve),
        leg=float(leg),
        feet=str(feet),
        socks=bool(random.random() < 0.6),
        hair_style=str(random.choice(HAIR_STYLES, p=[0.06, 0.24, 0.14, 0.17, 0.09, 0.10, 0.08, 0.12])),
        hat=str(random.choice(HATS, p=[0.86, 0.08, 0.06])),
        glasses=str(random.choice(GLASSES, p=[0.83, 0.09, 0.08])),
        scarf=bool(random.random() < 0.06),
        skin=skin,
        hair=hair,
        iris=_blend(random, _IRISES),
        hair_paint=Paint(4, hair, np.clip(hair * 0.68, 0, 1), HAIR, gloss=0.18),
        upper_paint=upper_paint,
        under_paint=_cloth(random, 23, 0.2),
        lower_paint=lower_paint,
        shoe_paint=shoe,
        sole_paint=sole,
        sock_paint=Paint(10, sock, _color(random), int(random.choice([PLAIN, STRIPES_ACROSS], p=[0.75, 0.25])), 0.02),
        hat_paint=_cloth(random, 1, 0.3),
        glasses_paint=Paint(
            2, np.full(3, random.uniform(0.02, 0.2)) if random.random() < 0.7 else _color(random), gloss=0.6
        ),
    )
