"""What the image processor hands over: tensors under their names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class BatchFeature(dict[str, Any]):
    """A dict whose keys are attributes too, and whose tensors move together."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"There is no {name!r}; there is {', '.join(self) or 'nothing'}.") from None

    def to(
        self, device: torch.device | torch.dtype | str | int | None = None, dtype: torch.dtype | None = None
    ) -> BatchFeature:
        """Moves every tensor, in lists too, to a device, and those of floats to a type; changes and returns itself.

        Args:
            device: a device or, as the only argument, a type.
            dtype: for floating point tensors.
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device

        def move(value: Any) -> Any:
            if isinstance(value, list):
                return [move(item) for item in value]
            if not isinstance(value, Tensor):
                return value
            return value.to(device=device, dtype=dtype if value.is_floating_point() else None)

        for key, value in self.items():
            self[key] = move(value)
        return self


class SemanticSegmentationPostProcessorOutput(BatchFeature):
    """``segmentation``: (H, W) int64 class ids. ``segmentation_scores``: (classes, H, W) float32 logits."""
