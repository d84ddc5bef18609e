"""Which number type to compute in on which device."""

from __future__ import annotations

import torch

PRECISIONS: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


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
        precision: "bf16", "fp16", "fp32", or "auto": bf16 where the device does it well (the networks were trained
            in it), else fp16 on CUDA, else fp32.

    Raises:
        ValueError: no such precision.
    """
    if precision in PRECISIONS:
        return PRECISIONS[precision]
    if precision != "auto":
        raise ValueError(f'There is no precision "{precision}"; choose auto, {", ".join(PRECISIONS)}.')
    if device.type == "cuda":
        # Without the argument, PyTorch also says yes to cards that emulate bf16.
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "cpu" and cpu_computes_bf16():
        return torch.bfloat16
    return torch.float32
