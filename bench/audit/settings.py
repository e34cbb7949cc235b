"""Settings of the whole process that a forward may read: torch's global flags, and the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

ENVIRONMENT = "environment variable"


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


_FLAGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
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
