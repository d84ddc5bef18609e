"""The 308 keypoints that Sapiens2 finds: names, mirror images, the authors' colours and skeleton.

The table itself is ``keypoints308.json`` (the authors' "Sociopticon" format): 20 body and foot points, 21 points a
hand with its wrist, the rest on the face and ears.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import torch


class Link(NamedTuple):
    """One bone of the skeleton: two keypoints and an RGB colour 0..255."""

    start: int
    end: int
    color: tuple[int, int, int]


_TABLE = json.loads(Path(__file__).with_name("keypoints308.json").read_text(encoding="utf-8"))

#: Name of each keypoint. Left and right (``l_``, ``r_``) are the person's own.
KEYPOINT_NAMES: tuple[str, ...] = tuple(row["name"] for row in _TABLE["keypoints"])

#: Index of each keypoint's mirror image, itself where it lies on the middle line. Not derivable from the names.
FLIP_INDICES: tuple[int, ...] = tuple(row["swap"] for row in _TABLE["keypoints"])

#: (308, 3) uint8, RGB.
KEYPOINT_COLORS = torch.tensor([row["color"] for row in _TABLE["keypoints"]], dtype=torch.uint8)

#: The 65 bones of body, feet and hands; the face has none.
SKELETON: tuple[Link, ...] = tuple(Link(start, end, tuple(color)) for start, end, color in _TABLE["skeleton"])


#: A keypoint counts as visible when its score is above this, unless somebody chooses another threshold. Scores are
#: heights of heatmaps whose peaks were 1 in training; DWPose's annotator draws what is above the same 0.3.
VISIBLE_SCORE = 0.3


def _is_left(name: str) -> bool:
    return name.startswith(("left_", "l_")) or "_l_" in name


def _flip_pairs() -> list[list[int]]:
    pairs = [[first, second] for first, second in enumerate(FLIP_INDICES) if first < second]
    return [pair[::-1] if _is_left(KEYPOINT_NAMES[pair[1]]) else pair for pair in pairs]


#: The 146 [left, right] pairs of mirrored keypoints, as transformers' ``flip_pairs`` wants them.
#: The points along the lips carry no side in their names: those pairs are in order of index.
FLIP_PAIRS: list[list[int]] = _flip_pairs()
