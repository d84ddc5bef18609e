"""Which number type to compute in on which device."""

from __future__ import annotations

import torch

PRECISIONS: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

#: A choice beside those: weights in eight bits (:mod:`~sapiens2_core.fp8`), computed in what "auto" chooses.
FP8_WEIGHTS = "fp8 weights"


#: All that a person can choose.
PRECISION_CHOICES = ("auto", *PRECISIONS, FP8_WEIGHTS)


def as_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """A floating point type, also from its name in PyTorch ("bfloat16"); None and "auto" are None.

    Raises:
        ValueError: no such type.
    """
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is None or dtype == "auto":
        return None
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"dtype is {dtype!r}; give torch.float32, torch.bfloat16 or torch.float16, or None.")
    return found


def as_device(device_map: str | int | torch.device) -> torch.device:
    """The one device that transformers' ``device_map`` names; "auto" is the best there is.

    Raises:
        ValueError: it spreads the network over devices, or is none.
    """
    if device_map == "auto":
        return default_device()
    try:
        return torch.device(device_map)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f'device_map is {device_map!r}; give "auto" or one device, such as "cuda:0": a network is never spread.'
        ) from error


def default_device() -> torch.device:
    """The device that a person would want: CUDA, Apple's GPU, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def cpu_computes_bf16() -> bool:
    """Whether this CPU multiplies bf16 matrices in hardware (AVX512-BF16 or AMX); emulation is slower than fp32."""
    # PyTorch asks the CPU but has no public name for the answer; a release without the question counts as "no".
    questions = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, question, bool)() for question in questions)


def choose_dtype(device: torch.device, precision: str = "auto") -> torch.dtype:
    """The type to compute in.

    Args:
        device: where the network runs.
        precision: "bf16", "fp16", "fp32", or "auto" and :data:`FP8_WEIGHTS`: bf16 where the device does it well (the
            networks were trained in it), else fp16 on CUDA, else fp32.

    Raises:
        ValueError: no such precision.
    """
    if precision in PRECISIONS:
        return PRECISIONS[precision]
    if precision not in PRECISION_CHOICES:
        raise ValueError(f'There is no precision "{precision}"; choose one of {", ".join(PRECISION_CHOICES)}.')
    if device.type == "cuda":
        # Without the argument, PyTorch also says yes to cards that emulate bf16.
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "cpu" and cpu_computes_bf16():
        return torch.bfloat16
    return torch.float32
