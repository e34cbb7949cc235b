"""Precisions: the dtype of the weights, the autocast around forward and loss, and the loss scaler."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    weights: torch.dtype
    autocast: torch.dtype | None
    scale_loss: bool = False


PRECISIONS = {
    "fp32": Precision(torch.float32, None),
    "bf16-autocast": Precision(torch.float32, torch.bfloat16),
    "bf16-pure": Precision(torch.bfloat16, None),
    "fp16-autocast": Precision(torch.float32, torch.float16, scale_loss=True),
}


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    if precision.autocast is None:
        return nullcontext()
    return torch.autocast(device.type, dtype=precision.autocast)


def unsupported_precision(name: str, device: torch.device) -> str | None:
    """Why the device cannot train in this precision, or None where it can."""
    if name == "fp16-autocast" and device.type == "cpu":
        return f"fp16-autocast needs a GPU: {device.type} trains in bf16-autocast instead"
    if device.type == "cuda" and name.startswith("bf16") and not torch.cuda.is_bf16_supported():
        return f"{name}: {torch.cuda.get_device_name(device)} has no bf16"
    return None
