"""Settings of the whole process that a forward may read: torch's global flags, and the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

ENVIRONMENT = "environment variable"
AUTOCAST_DEVICES = ("cpu", "cuda")
DEFAULT_DTYPE, GRADIENT_MODE = "torch's default dtype", "the gradient mode"


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _matmul_precision() -> str | None:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # somebody has set it by torch's other way, and torch answers by one of the two
        return None


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _set_matmul_precision(value: str | None) -> None:
    if value is not None:
        torch.set_float32_matmul_precision(value)


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _set_anomaly(value: tuple[bool, bool]) -> None:
    torch.autograd.set_detect_anomaly(*value)


_Flag = tuple[Callable[[], Any], Callable[[Any], Any]]


def _attribute(owner: Any, name: str) -> _Flag:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


_FLAGS: dict[str, _Flag] = {
    DEFAULT_DTYPE: (torch.get_default_dtype, torch.set_default_dtype),
    "torch's deterministic algorithms": (_deterministic, _set_deterministic),
    "torch's float32 matmul precision": (_matmul_precision, _set_matmul_precision),
    "torch's autocast dtype on the CPU": (
        lambda: torch.get_autocast_dtype("cpu"),
        lambda dtype: torch.set_autocast_dtype("cpu", dtype),
    ),
    "torch's autocast dtype on CUDA": (
        lambda: torch.get_autocast_dtype("cuda"),
        lambda dtype: torch.set_autocast_dtype("cuda", dtype),
    ),
    "torch's autocast on the CPU": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda on: torch.set_autocast_enabled("cpu", on),
    ),
    "torch's autocast on CUDA": (
        lambda: torch.is_autocast_enabled("cuda"),
        lambda on: torch.set_autocast_enabled("cuda", on),
    ),
    "torch's autocast cache": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    GRADIENT_MODE: (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's anomaly detection": (_anomaly, _set_anomaly),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "flash attention": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "memory-efficient attention": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "plain attention": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "cuDNN's attention": (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    **{f"cuDNN's {name}": _attribute(torch.backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic")},
}
PRECISION = ("torch's float32 matmul precision",)
"""Those that choose a precision: a fault of autocast."""

Settings = Mapping[str, Any]


def kept_settings() -> Settings:
    """Name → value, as they are now."""
    found = {name: read() for name, (read, _) in _FLAGS.items()}
    return found | {f"{ENVIRONMENT} {name}": value for name, value in os.environ.items()}


def restore_settings(before: Settings) -> None:
    for name in changed_settings(before, kept_settings()):
        if name in _FLAGS:
            _FLAGS[name][1](before[name])
        elif name in before:
            os.environ[name.removeprefix(f"{ENVIRONMENT} ")] = before[name]
        else:
            del os.environ[name.removeprefix(f"{ENVIRONMENT} ")]


def changed_settings(one: Settings, other: Settings) -> list[str]:
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]
