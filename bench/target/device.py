"""A CUDA device that is not there: fake tensors on it take no memory, and ops on them run as CUDA would run them.

PyTorch lets one backend be written in Python, under the dispatch key PrivateUse1. This one has no kernels at all: fake
tensors compute shapes, and what else a step asks of a device (its generator, autocast, the attention that it prefers)
is answered as `torch.cuda` answers it. It can be registered once in a process and not be taken away again, and small
runs were seen to abort as the interpreter ends, so it belongs in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import backend_registration

from bench.step import optimizer
from bench.target.autocast import register_autocast
from bench.target.kernels import register_kernels
from bench.target.spec import Target

DEVICE_TYPE = "fakecuda"
_registered: Target | None = None


def register_device(target: Target) -> torch.device:
    """The device that stands for `target`.

    Raises:
        RuntimeError: another target was registered in this process.
    """
    global _registered
    if _registered is not None:
        if _registered != target:
            raise RuntimeError(
                f"this process already stands in for {_registered.name}: forecast {target.name} in a process of its own"
            )
        return torch.device(DEVICE_TYPE, 0)
    backend_registration._setup_privateuseone_for_python_backend(DEVICE_TYPE, backend_module=_Backend())
    register_autocast(DEVICE_TYPE)
    register_kernels(target)
    _never_touch_the_device()
    _answer_as_cuda()
    _registered = target
    return torch.device(DEVICE_TYPE, 0)


@contextmanager
def standing_in() -> Iterator[None]:
    """While it lasts, the step that is built takes the device for the CUDA device that it stands for."""
    devices = optimizer.FUSED_DEVICES
    optimizer.FUSED_DEVICES = (*devices, DEVICE_TYPE)  # type: ignore[assignment]
    try:
        yield
    finally:
        optimizer.FUSED_DEVICES = devices


class _Device:
    """`torch.cuda.device(index)`: there is only one."""

    def __init__(self, index: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _Backend(backend_registration._DummyBackendModule):
    """What stands in for the module `torch.cuda`."""

    _initialized = True
    device = _Device

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16, torch.float32]

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        """Seed and offset of the Philox generator, in host memory: 16 bytes, as `torch.cuda.get_rng_state` has it."""
        return torch.zeros(16, dtype=torch.uint8)

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        pass

    def synchronize(self, device: Any = None) -> None:
        pass

    def is_bf16_supported(self) -> bool:
        return True


def _never_touch_the_device() -> None:
    """`torch.tensor(…)` makes a real tensor and then a fake one of it. Where no device is there it makes it in host
    memory, and a FakeTensorMode has to be told so (`FakeTensorMode.avoid_device_init`)."""
    from torch._subclasses import fake_tensor

    fake_tensor._is_privateuse1_backend_available = lambda: False  # type: ignore[attr-defined]


def _answer_as_cuda() -> None:
    """Shape functions that differ between devices look at the device's name (`torch/_meta_registrations.py`)."""
    from torch import _meta_registrations

    hint = _meta_registrations.device_hint

    def device_hint(tensor: Any) -> str:
        found = hint(tensor)
        return "cuda" if found == DEVICE_TYPE else found

    _meta_registrations.device_hint = device_hint
