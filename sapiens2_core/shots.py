"""Where a clip of label maps is cut: no frame of one shot may look into the next."""

from __future__ import annotations

import torch
from torch import Tensor

#: Frames agree when at least this share of their people's pixels have the same label. A person who walks or dances
#: changes less from frame to frame; another person elsewhere in the picture shares next to nothing.
MIN_AGREEMENT = 0.25

_SIDE = 128  # labels are compared at about this many pixels a side


def shot_starts(labels: Tensor, reach: int) -> list[int]:
    """Indices of the frames that begin a shot.

    There is a cut between two frames when none of the ``reach`` frames before agrees with any of the ``reach`` after:
    up to ``reach`` - 1 frames in a row in which the network sees nothing, or something else, are no cut.

    Args:
        labels: (B, H, W) ids, 0 is the background.
        reach: frames looked at on either side, 1 or more.

    Returns:
        Increasing, the first is 0.
    """
    small = labels[:, :: max(1, labels.shape[1] // _SIDE), :: max(1, labels.shape[2] // _SIDE)]
    starts = [0]
    for first in range(1, len(labels)):
        before = range(max(starts[-1], first - reach), first)
        after = range(first, min(len(labels), first + reach))
        # Neighbours first: they agree nearly always, and then nothing else is compared.
        pairs = sorted(((b, a) for b in before for a in after), key=lambda pair: pair[1] - pair[0])
        if not any(_agree(small[b], small[a]) for b, a in pairs):
            starts.append(first)
    return starts


def _agree(one: Tensor, other: Tensor) -> bool:
    people = (one > 0) | (other > 0)
    total = int(torch.count_nonzero(people))
    same = int(torch.count_nonzero((one == other) & people))
    return same >= MIN_AGREEMENT * total
