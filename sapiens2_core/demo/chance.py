"""Draws that several files make."""

from __future__ import annotations

import numpy as np


def normal_within(random: np.random.Generator, mean: float, spread: float, low: float, high: float) -> float:
    """A normal draw, brought back to ``low``..``high`` where it falls outside."""
    return float(np.clip(random.normal(mean, spread), low, high))


def choose(random: np.random.Generator, weights: dict[str, float]) -> str:
    """A key, as often as its weight says."""
    names, shares = list(weights), np.array(list(weights.values()))
    return names[random.choice(len(names), p=shares / shares.sum())]
