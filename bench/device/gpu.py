"""The NVIDIA GPU behind a CUDA ordinal, found through NVML: without torch, and without making a CUDA context."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class NvmlUnavailableError(RuntimeError):
    """There is no NVML here, or it does not know the device: says why."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    handle: Any
    """NVML's handle; of the whole GPU where the ordinal is a MIG slice of it."""
    pci_bus_id: str
    """`00000000:1B:00.0`."""
    name: str


def open_nvml() -> Any:
    """The module `pynvml` of nvidia-ml-py, initialized. The caller ends it with `nvmlShutdown`.

    Raises:
        NvmlUnavailableError: the package or the driver's library is missing, or no driver is loaded.
    """
    try:
        import pynvml
    except ImportError:
        raise NvmlUnavailableError("the package nvidia-ml-py is not installed") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlUnavailableError(f"NVML: {error}") from None
    return pynvml


def find_gpu(nvml: Any, index: int, name: str | None = None, environment: Mapping[str, str] = os.environ) -> Gpu:
    """The GPU that CUDA calls `index` under `CUDA_VISIBLE_DEVICES`.

    Unless `CUDA_DEVICE_ORDER=PCI_BUS_ID`, CUDA puts the fastest model first while NVML counts along the bus. So where
    models differ, only the `name` that torch reported can tell, and only if one GPU has it.

    Raises:
        NvmlUnavailableError: no GPU, or more than one, may be meant.
    """
    try:
        entry = _visible_entry(index, environment)
        if entry.startswith("MIG-"):
            whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml.nvmlDeviceGetHandleByUUID(entry))
            return _gpu(nvml, whole)
        handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
        if entry.startswith("GPU-"):
            candidates = [handle for handle in handles if _text(nvml.nvmlDeviceGetUUID(handle)).startswith(entry)]
        elif _in_bus_order(nvml, handles, environment):
            candidates = handles[int(entry) :][:1] if entry.isdigit() else []
        else:
            candidates = [handle for handle in handles if _text(nvml.nvmlDeviceGetName(handle)) == name]
        if len(candidates) != 1:
            raise NvmlUnavailableError(f"NVML: {len(candidates)} of {len(handles)} GPUs may be CUDA device {index}")
        return _gpu(nvml, candidates[0])
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(f"NVML: {error}") from None


def gpu_at(nvml: Any, pci_bus_id: str) -> Gpu:
    """Raises NvmlUnavailableError where NVML has no GPU there."""
    try:
        return _gpu(nvml, nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id))
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(f"NVML: {error}") from None


def _visible_entry(index: int, environment: Mapping[str, str]) -> str:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(index)
    entries = [entry.strip() for entry in visible.split(",")]
    if index >= len(entries):
        raise NvmlUnavailableError(f"CUDA_VISIBLE_DEVICES={visible} has no device {index}")
    return entries[index]


def _in_bus_order(nvml: Any, handles: list[Any], environment: Mapping[str, str]) -> bool:
    if environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    return len({_text(nvml.nvmlDeviceGetName(handle)) for handle in handles}) <= 1


def _gpu(nvml: Any, handle: Any) -> Gpu:
    bus_id = _text(nvml.nvmlDeviceGetPciInfo(handle).busId).upper()
    return Gpu(handle=handle, pci_bus_id=bus_id, name=_text(nvml.nvmlDeviceGetName(handle)))


def _text(value: str | bytes) -> str:
    """Older releases of nvidia-ml-py give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
