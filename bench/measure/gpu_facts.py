"""What torch and NVML say of the GPU that is measured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from bench.device import Gpu, NvmlUnavailableError, gpu_at, open_nvml

Value = str | int | float | None


def cuda_facts(device: torch.device) -> dict[str, Value]:
    """Facts by name; one that neither torch nor NVML tells is not there."""
    found = torch.cuda.get_device_properties(device)
    cudnn = torch.backends.cudnn
    facts = _collect(
        {
            "version.cuda": lambda: torch.version.cuda,
            "version.cudnn": lambda: cudnn.version(),
            "gpu": lambda: found.name,
            "gpu_compute_capability": lambda: f"{found.major}.{found.minor}",
            "gpu_multiprocessors": lambda: found.multi_processor_count,
            "gpu_memory_bytes": lambda: found.total_memory,
            "gpu_pci_bus_id": lambda: _pci_bus_id(found),
            "allow_tf32": lambda: str(torch.backends.cuda.matmul.allow_tf32),
            "cudnn_allow_tf32": lambda: str(cudnn.allow_tf32),
            "cudnn_benchmark": lambda: str(cudnn.benchmark),
            "cudnn_deterministic": lambda: str(cudnn.deterministic),
            "cuda_allocator": lambda: torch.cuda.memory.get_allocator_backend(),
            "cuda_devices": lambda: torch.cuda.device_count(),
        },
        # Some attributes are newer than the oldest torch that we take, and the TF32 switches raise where somebody has
        # set them through torch's newer interface.
        (AttributeError, RuntimeError),
    )
    pci_bus_id = facts.get("gpu_pci_bus_id")
    return facts | (_nvml_facts(pci_bus_id) if isinstance(pci_bus_id, str) else {})


def _pci_bus_id(properties: Any) -> str:
    """As NVML writes it."""
    domain, bus, number = properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
    return f"{domain:08X}:{bus:02X}:{number:02X}.0"


def _nvml_facts(pci_bus_id: str) -> dict[str, Value]:
    try:
        nvml = open_nvml()
    except NvmlUnavailableError as error:
        return {"nvml": str(error)}
    try:
        return nvml_facts(nvml, gpu_at(nvml, pci_bus_id))
    except NvmlUnavailableError as error:
        return {"nvml": str(error)}
    finally:
        nvml.nvmlShutdown()


def nvml_facts(nvml: Any, gpu: Gpu) -> dict[str, Value]:
    """Settings of the GPU and its driver; a setting that this model does not have is not there."""
    handle = gpu.handle
    settings: dict[str, Callable[[], Value]] = {
        "driver": lambda: nvml.nvmlSystemGetDriverVersion(),
        "driver_cuda": lambda: _cuda_version(nvml.nvmlSystemGetCudaDriverVersion_v2()),
        "gpu_vbios": lambda: nvml.nvmlDeviceGetVbiosVersion(handle),
        "gpu_ecc": lambda: _switch(nvml.nvmlDeviceGetEccMode(handle)[0]),
        "gpu_mig": lambda: _switch(nvml.nvmlDeviceGetMigMode(handle)[0]),
        "gpu_persistence": lambda: _switch(nvml.nvmlDeviceGetPersistenceMode(handle)),
        "gpu_compute_mode": lambda: nvml.nvmlDeviceGetComputeMode(handle),
        "gpu_power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "gpu_power_limit_default_w": lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
        "gpu_power_limit_max_w": lambda: nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)[1] / 1000,
        "gpu_sm_clock_max_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "gpu_memory_clock_max_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "gpu_sm_clock_target_mhz": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_SM),
        "gpu_memory_clock_target_mhz": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_MEM),
    }
    return _collect(settings, (nvml.NVMLError,))


def _collect(facts: Mapping[str, Callable[[], Value]], absent: tuple[type[Exception], ...]) -> dict[str, Value]:
    """The facts that can be read: neither None nor one of the errors that mean that there is none."""
    known: dict[str, Value] = {}
    for name, read in facts.items():
        try:
            value = read()
        except absent:
            continue
        if value is not None:
            known[name] = value
    return known


def _cuda_version(number: int) -> str:
    """13.0 of 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _switch(state: int) -> str:
    return "on" if state else "off"
