"""From heatmaps to keypoints: the highest pixel, refined by DARK with unbiased data processing (UDP).

The refinement reads the logarithm of the blurred map at the highest pixel and six neighbours. So only a patch around
it is blurred, not the map. The authors scale the blurred map such that it keeps the map's maximum: a factor, which
differences of logarithms lose again, except where a value is clamped first. Those maps, and only those, are blurred
as a whole, because the factor depends on the blurred map's maximum.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: What a chunk of whole maps in the making may weigh in bytes: on a CPU work is fastest while it stays in the cache,
#: elsewhere large chunks save launches.
_CHUNK_BYTES = {"cpu": 4 << 20, "other": 64 << 20}

_LOWEST, _HIGHEST = 1e-3, 50.0  # the authors' clamp before the logarithm (refine_keypoints_dark_udp)

#: Around the highest pixel, as (dy, dx): what the derivatives are made of.
_NEIGHBOURS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1))


def decode_heatmaps(heatmaps: Tensor, flipped: Tensor | None = None, kernel_size: int = 11) -> tuple[Tensor, Tensor]:
    """Finds each map's keypoint.

    The highest pixel (the first of equals), moved by one Newton step on the logarithm of the blurred map: DARK
    ("Distribution-Aware Coordinate Representation for Human Pose Estimation", Zhang et al. 2020) in UDP's form. A map
    without a positive value has no peak: its keypoint is (−1, −1), where the authors give NaN. Where the step does not
    exist (zero determinant) the highest pixel stays as it is.

    Args:
        heatmaps: (N, K, h, w) of any float type; decoded in float32.
        flipped: the same of the mirrored images, mirrored back; the two are averaged.
        kernel_size: of the Gaussian blur; odd, at least 3.

    Returns:
        keypoints: (N, K, 2) x, y in pixels of the heatmap, float32.
        scores: (N, K) the maps' maxima, float32, not clamped.

    Raises:
        ValueError: an even or too small ``kernel_size``, or two kinds of heatmaps that don't fit together.
    """
    if kernel_size % 2 == 0 or kernel_size < 3:
        raise ValueError(f"kernel_size is {kernel_size}; the blur needs an odd number, 3 or more.")
    if flipped is not None and flipped.shape != heatmaps.shape:
        raise ValueError(
            f"The heatmaps have shape {tuple(heatmaps.shape)}, those of the mirrored images {tuple(flipped.shape)}."
        )
    people, keypoints = heatmaps.shape[:2]
    maps = _Maps(heatmaps.flatten(0, 1), None if flipped is None else flipped.flatten(0, 1))
    kernel = _gaussian_kernel(kernel_size)
    scores, peaks, patches = _peaks(maps, radius=1 + kernel_size // 2)
    values = _neighbourhood(patches, peaks, maps, kernel)
    scale = _scale(values, scores, maps, kernel)
    refined = peaks - _newton_step((values * scale[:, None]).clamp(_LOWEST, _HIGHEST).log())
    found = torch.where(scores[:, None] > 0, refined, -1.0)
    return found.view(people, keypoints, 2), scores.view(people, keypoints)


class _Maps:
    """Heatmaps (n, h, w) of any float type, perhaps to be averaged with mirrored ones, as float32 chunk by chunk."""

    def __init__(self, maps: Tensor, mirrored: Tensor | None) -> None:
        self.maps, self.mirrored = maps, mirrored
        self.count, self.height, self.width = maps.shape
        self.device = maps.device
        budget = _CHUNK_BYTES.get(maps.device.type, _CHUNK_BYTES["other"])
        #: Maps whose copies are worked on at once.
        self.chunk = max(1, budget // (4 * self.height * self.width))

    @property
    def reading_chunk(self) -> int:
        """Maps that are read at once: all of them where reading makes no copy.

        A copy is passed over once or twice only, so it may outgrow the cache; larger chunks spare the threads waits.
        """
        makes_copy = self.mirrored is not None or self.maps.dtype != torch.float32
        return 4 * self.chunk if makes_copy else max(1, self.count)

    def __getitem__(self, part: slice | Tensor) -> Tensor:
        values = self.maps[part].float()
        return values if self.mirrored is None else (values + self.mirrored[part].float()).div_(2)


def _peaks(maps: _Maps, radius: int) -> tuple[Tensor, Tensor, Tensor]:
    """Maxima (n,), their x, y (n, 2), and the square patches (n, 2 · radius + 1, …) around them, zeros outside."""
    side = 2 * radius + 1
    scores = torch.empty(maps.count, device=maps.device)
    peaks = torch.empty(maps.count, 2, dtype=torch.long, device=maps.device)
    patches = torch.empty(maps.count, side, side, device=maps.device)
    around = torch.arange(-radius, radius + 1, device=maps.device)
    for start in range(0, maps.count, maps.reading_chunk):
        part = slice(start, start + maps.reading_chunk)
        values = maps[part]
        # The first highest row, then the first highest pixel in it: amax runs several times faster than argmax.
        scores[part], y = values.amax(dim=-1).max(dim=-1)
        one = torch.arange(len(values), device=maps.device)
        x = values[one, y].argmax(dim=-1)
        peaks[part] = torch.stack([x, y], dim=-1)
        columns, rows = x[:, None] + around, y[:, None] + around
        inside_x, inside_y = (columns >= 0) & (columns < maps.width), (rows >= 0) & (rows < maps.height)
        columns, rows = columns.clamp(0, maps.width - 1), rows.clamp(0, maps.height - 1)
        found = values[one[:, None, None], rows[:, :, None], columns[:, None, :]]
        patches[part] = found * (inside_y[:, :, None] & inside_x[:, None, :])
    return scores, peaks, patches


def _gaussian_kernel(size: int) -> list[float]:
    """Weights that sum to 1; cv2.GaussianBlur's own sigma for a kernel size, as its sigma = 0 asks for."""
    sigma = 0.3 * ((size - 1) * 0.5 - 1) + 0.8
    distance = torch.arange(size, dtype=torch.float64) - size // 2
    return torch.softmax(-0.5 * (distance / sigma) ** 2, dim=0).tolist()


def _blur(maps: Tensor, kernel: list[float]) -> Tensor:
    """Weighted sums (n, h − 2r, w − 2r) over windows of the kernel's size 2r + 1.

    Sums of shifted maps instead of a convolution: exact float32 everywhere, where cuDNN would round to TF32, and in
    the same order for each pixel and from both sides, so that what is flat or symmetrical stays so.
    """
    radius = len(kernel) // 2
    for dim in (-1, -2):
        length = maps.shape[dim] - 2 * radius
        total = maps.narrow(dim, radius, length) * kernel[radius]
        for left in range(radius):
            right = 2 * radius - left
            total.add_(maps.narrow(dim, left, length) + maps.narrow(dim, right, length), alpha=kernel[left])
        maps = total
    return maps


def _neighbourhood(patches: Tensor, peaks: Tensor, maps: _Maps, kernel: list[float]) -> Tensor:
    """The blurred maps at :data:`_NEIGHBOURS` of the peaks, (n, 7); beyond a border, the value at the border."""
    blurred = _blur(patches, kernel)
    steps = torch.tensor(_NEIGHBOURS, device=maps.device)
    x = (peaks[:, :1] + steps[:, 1]).clamp(0, maps.width - 1) - peaks[:, :1]
    y = (peaks[:, 1:] + steps[:, 0]).clamp(0, maps.height - 1) - peaks[:, 1:]
    return blurred.flatten(1).gather(1, 3 * (y + 1) + (x + 1))


def _scale(values: Tensor, scores: Tensor, maps: _Maps, kernel: list[float]) -> Tensor:
    """Factors (n,) for the blurred maps' (n, 7) ``values`` with which their clamped logarithms differ as they should.

    The authors' factor is the maximum before the blur over the maximum after it; it is 1 or more, as a weighted mean
    exceeds no maximum, and scaled values exceed no maximum either. So nothing is clamped, and 1 serves as well, where
    all values are above the lower limit and the maximum is below the upper one; and everything is clamped to the
    lower limit where the maximum lies below that.
    """
    scale = (scores > _LOWEST).float()
    clamped = (scores > _LOWEST) & ((values.amin(dim=-1) < _LOWEST) | (scores > _HIGHEST))
    indices, radius = clamped.nonzero()[:, 0], len(kernel) // 2
    for start in range(0, len(indices), maps.chunk):
        part = indices[start : start + maps.chunk]
        highest = _blur(F.pad(maps[part], (radius,) * 4), kernel).amax(dim=(-2, -1))
        scale[part] = torch.where(highest > 0, scores[part] / highest, 1.0)
    return scale


def _newton_step(values: Tensor) -> Tensor:
    """Inverse Hessian times gradient, (n, 2) x, y, of (n, 7) values at :data:`_NEIGHBOURS`."""
    centre, right, left, below, above, right_below, left_above = values.unbind(-1)
    gradient_x, gradient_y = 0.5 * (right - left), 0.5 * (below - above)
    # The authors' ridge: a flat map has no curvature to divide by.
    ridge = torch.finfo(values.dtype).eps
    curvature_x, curvature_y = right - 2 * centre + left + ridge, below - 2 * centre + above + ridge
    mixed = 0.5 * (right_below - right - below + centre + centre - left - above + left_above)
    determinant = curvature_x * curvature_y - mixed * mixed
    step_x = (curvature_y * gradient_x - mixed * gradient_y) / determinant
    step_y = (curvature_x * gradient_y - mixed * gradient_x) / determinant
    return torch.stack([step_x, step_y], dim=-1).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
