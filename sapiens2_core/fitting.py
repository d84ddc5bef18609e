"""Batches that fit the device's memory: halved until they do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

logger = logging.getLogger("sapiens2")


#: How allocators that raise a plain RuntimeError put it: of Macs, of the CPU on Linux, of the CPU on Windows.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says that memory was too small, on any device."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error).lower() for words in _OUT_OF_MEMORY)


class FittingBatches:
    """Works on batches whole, or in smaller parts once the device's memory was too small for one.

    Attributes:
        size: how many are worked on at once. What was too much once isn't tried again.
        of: what there is many of, for messages ("frames").
    """

    def __init__(self, size: int, of: str) -> None:
        self.size = size
        self.of = of

    def run(self, work: Callable[[slice], list[Any]], count: int) -> list[Any]:
        """Results of a batch, in order.

        Args:
            work: gives the results of a part of the batch.
            count: how many the batch holds.

        Raises:
            torch.OutOfMemoryError: there is no memory for a single one; the message says what to do.
        """
        results: list[Any] = []
        while len(results) < count:
            part = slice(len(results), min(len(results) + self.size, count))
            try:
                results += work(part)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                tried = part.stop - part.start
                if tried == 1:
                    raise torch.OutOfMemoryError(
                        f"The device's memory is too small, even for one of the {self.of} at a time. Load the "
                        "checkpoint with precision bf16 or fp16 (or a smaller checkpoint), give frames of a lower "
                        "resolution, and leave batch size at 1. Other programs may hold memory as well."
                    ) from error
                self.size = tried // 2
                logger.warning("Out of memory with %d %s at once; going on with %d.", tried, self.of, self.size)
            # The next try is made out here: inside, the error would hold on to what the failed one had computed.
        return results
