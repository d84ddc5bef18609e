"""From heatmaps to keypoints: the highest pixel, refined by DARK with unbiased data processing (UDP)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: What a chunk of maps may weigh in bytes: on a CPU the blur is fastest while it stays in the cache, elsewhere large
#: chunks save launches.
_CHUNK_BYTES = {"cpu": 2 << 20, "other": 64 << 20}

_LOG_RANGE = (1e-3, 50.0)  # the authors' clamp before the logarithm (refine_keypoints_dark_udp)

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
    people, keypoints, height, width = heatmaps.shape
    found = torch.empty(people * keypoints, 2, device=heatmaps.device)
    scores = torch.empty(people * keypoints, device=heatmaps.device)
    budget = _CHUNK_BYTES.get(heatmaps.device.type, _CHUNK_BYTES["other"])
    chunk = max(1, budget // (4 * height * width))
    kernel = _gaussian_kernel(kernel_size)
    maps, mirrored = heatmaps.flatten(0, 1), None if flipped is None else flipped.flatten(0, 1)
    for start in range(0, len(maps), chunk):
        part = slice(start, start + chunk)
        values = maps[part].float()
        if mirrored is not None:
            values = (values + mirrored[part].float()) / 2
        found[part], scores[part] = _decode(values, kernel)
    return found.view(people, keypoints, 2), scores.view(people, keypoints)


def _decode(maps: Tensor, kernel: list[float]) -> tuple[Tensor, Tensor]:
    """(n, h, w) float32 maps to (n, 2) keypoints and (n,) scores."""
    width = maps.shape[-1]
    pixels = maps.flatten(1)
    index = pixels.argmax(dim=-1, keepdim=True)
    scores = pixels.gather(1, index)[:, 0]
    peaks = torch.cat([index % width, index // width], dim=-1)
    refined = peaks - _newton_step(_log_neighbourhood(maps, peaks, scores, kernel))
    return torch.where(scores[:, None] > 0, refined, -1.0), scores


def _gaussian_kernel(size: int) -> list[float]:
    """Weights that sum to 1; cv2.GaussianBlur's own sigma for a kernel size, as its sigma = 0 asks for."""
    sigma = 0.3 * ((size - 1) * 0.5 - 1) + 0.8
    distance = torch.arange(size, dtype=torch.float64) - size // 2
    return torch.softmax(-0.5 * (distance / sigma) ** 2, dim=0).tolist()


def _blur(maps: Tensor, kernel: list[float], dim: int) -> Tensor:
    """Weighted sum along ``dim``, zeros outside.

    Sums of shifted maps instead of a convolution: exact float32 everywhere, where cuDNN would round to TF32.
    """
    radius, length = len(kernel) // 2, maps.shape[dim]
    padded = F.pad(maps, (radius, radius) if dim == -1 else (0, 0, radius, radius))
    total = maps * kernel[radius]
    for left in range(radius):
        right = len(kernel) - 1 - left
        total.add_(padded.narrow(dim, left, length) + padded.narrow(dim, right, length), alpha=kernel[left])
    return total


def _log_neighbourhood(maps: Tensor, peaks: Tensor, scores: Tensor, kernel: list[float]) -> Tensor:
    """Logarithm of the blurred maps, scaled to keep their maxima, at :data:`_NEIGHBOURS` of the peaks: (n, 7)."""
    height, width = maps.shape[-2:]
    blurred = _blur(_blur(maps, kernel, -1), kernel, -2).flatten(1)
    steps = torch.tensor(_NEIGHBOURS, device=maps.device)
    x = (peaks[:, :1] + steps[:, 1]).clamp(0, width - 1)
    y = (peaks[:, 1:] + steps[:, 0]).clamp(0, height - 1)
    highest = blurred.amax(dim=-1)
    scale = torch.where(highest > 0, scores / highest, 1.0)
    return (blurred.gather(1, y * width + x) * scale[:, None]).clamp(*_LOG_RANGE).log()


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
