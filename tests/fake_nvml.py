"""One or more GPUs behind the functions of `pynvml`. Constants and errors are those of the real module."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml


@dataclass
class FakeGpu:
    name: str = "NVIDIA Toy"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    bus_id: str = "00000000:1B:00.0"
    sm_clock_mhz: int = 1980
    memory_clock_mhz: int = 2619
    power_mw: int = 450_000
    temperature_c: int = 60
    utilization_percent: int = 99
    clock_events: int = 0
    memory_used_bytes: int = 2**30
    processes: dict[int, int | None] = field(default_factory=dict)
    """pid → bytes, None where the driver does not tell."""
    errors: dict[str, Exception] = field(default_factory=dict)
    """Function name → what it raises."""


class FakeNvml:
    """Handles are indices of `gpus`."""

    def __init__(self, *gpus: FakeGpu, migs: dict[str, int] | None = None) -> None:
        self.gpus = list(gpus)
        self.migs = migs or {}
        self.initialized = 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(pynvml, name)
        if callable(value) and not isinstance(value, type):
            raise AssertionError(f"{name} would ask the real driver")
        return value

    def nvmlInit(self) -> None:  # noqa: N802
        self.initialized += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.initialized -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index >= len(self.gpus):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in self.migs:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return uuid

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, migDevice: str) -> int:  # noqa: N802, N803
        return self.migs[migDevice]

    def nvmlDeviceGetHandleByPciBusId(self, pciBusId: str) -> int:  # noqa: N802, N803
        for index, gpu in enumerate(self.gpus):
            if gpu.bus_id == pciBusId:
                return index
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return self.gpus[handle].uuid

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.gpus[handle].name

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=self.gpus[handle].bus_id)

    def nvmlDeviceGetClockInfo(self, handle: int, type: int) -> int:  # noqa: N802
        gpu = self._gpu(handle, "nvmlDeviceGetClockInfo")
        return {pynvml.NVML_CLOCK_SM: gpu.sm_clock_mhz, pynvml.NVML_CLOCK_MEM: gpu.memory_clock_mhz}[type]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, type: int) -> int:  # noqa: N802
        self._gpu(handle, "nvmlDeviceGetMaxClockInfo")
        return {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[type]

    def nvmlDeviceGetApplicationsClock(self, handle: int, type: int) -> int:  # noqa: N802
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return self._gpu(handle, "nvmlDeviceGetPowerUsage").power_mw

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return self._gpu(handle, "nvmlDeviceGetTemperature").temperature_c

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=self._gpu(handle, "nvmlDeviceGetUtilizationRates").utilization_percent, memory=30)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        return self._gpu(handle, "nvmlDeviceGetCurrentClocksEventReasons").clock_events

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:  # noqa: N802
        used = self._gpu(handle, "nvmlDeviceGetMemoryInfo").memory_used_bytes
        return SimpleNamespace(total=2**37, used=used, free=2**37 - used)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        listed = self._gpu(handle, "nvmlDeviceGetComputeRunningProcesses").processes
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in listed.items()]

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.65.06"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return 13000

    def nvmlDeviceGetVbiosVersion(self, handle: int) -> str:  # noqa: N802
        return "96.00.A5.00.01"

    def nvmlDeviceGetEccMode(self, handle: int) -> list[int]:  # noqa: N802
        return [pynvml.NVML_FEATURE_ENABLED, pynvml.NVML_FEATURE_ENABLED]

    def nvmlDeviceGetMigMode(self, device: int) -> list[int]:  # noqa: N802
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetPersistenceMode(self, handle: int) -> int:  # noqa: N802
        return pynvml.NVML_FEATURE_DISABLED

    def nvmlDeviceGetComputeMode(self, handle: int) -> int:  # noqa: N802
        return pynvml.NVML_COMPUTEMODE_DEFAULT

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: int) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetPowerManagementLimitConstraints(self, handle: int) -> list[int]:  # noqa: N802
        return [200_000, 700_000]

    def change(self, index: int = 0, **fields: Any) -> None:
        self.gpus[index] = dataclasses.replace(self.gpus[index], **fields)

    def _gpu(self, handle: int, function: str) -> FakeGpu:
        gpu = self.gpus[handle]
        if function in gpu.errors:
            raise gpu.errors[function]
        return gpu
