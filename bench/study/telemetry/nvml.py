"""Telemetry of an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from bench.device import Gpu
from bench.study.telemetry.sampler import GPU, Scalar

PERIOD_S = 0.2
PROCESSES_EVERY = 5
"""Reads between two listings of the processes on the GPU, the dearest of the calls."""

HW_SLOWDOWN, HW_THERMAL, HW_POWER_BRAKE, SW_THERMAL, SW_POWER_CAP = (
    "hw-slowdown",
    "hw-thermal",
    "hw-power-brake",
    "sw-thermal",
    "sw-power-cap",
)
CLOCK_EVENTS = {
    "nvmlClocksEventReasonGpuIdle": "idle",
    "nvmlClocksEventReasonApplicationsClocksSetting": "clocks-setting",
    "nvmlClocksEventReasonSwPowerCap": SW_POWER_CAP,
    "nvmlClocksEventReasonHwSlowdown": HW_SLOWDOWN,
    "nvmlClocksEventReasonSyncBoost": "sync-boost",
    "nvmlClocksEventReasonSwThermalSlowdown": SW_THERMAL,
    "nvmlClocksEventReasonHwThermalSlowdown": HW_THERMAL,
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": HW_POWER_BRAKE,
    "nvmlClocksEventReasonDisplayClockSetting": "display-clock-setting",
}
"""NVML's reasons for clocks below the highest, and our words for them."""


class NvmlSampler:
    """Reads clocks, power, temperature, utilization, reasons for slower clocks, memory and processes of one GPU.

    `own_processes` says the process ids of this study. In a container they may not be those that NVML lists; then one
    process on the GPU is taken to be the study's worker.
    """

    source = GPU
    period_s = PERIOD_S

    def __init__(self, nvml: Any, gpu: Gpu, own_processes: Callable[[], Collection[int]]) -> None:
        self._nvml = nvml
        self._own_processes = own_processes
        self._absent: set[str] = set()
        """Parts that this model or driver does not have."""
        self._handle = gpu.handle
        self._reads = 0
        self._events = {getattr(nvml, name): word for name, word in CLOCK_EVENTS.items() if hasattr(nvml, name)}

    def read(self) -> Mapping[str, Scalar]:
        """Raises NVMLError where nothing can be read, such as of a GPU that fell off the bus."""
        parts = [self._clocks, self._power, self._temperature, self._utilization, self._clock_events, self._memory]
        if self._reads % PROCESSES_EVERY == 0:
            parts.append(self._processes)
        self._reads += 1
        sample: dict[str, Scalar] = {}
        failure: Exception | None = None
        for part in parts:
            if part.__name__ in self._absent:
                continue
            try:
                sample |= part()
            except (self._nvml.NVMLError_NotSupported, self._nvml.NVMLLibraryMismatchError):
                self._absent.add(part.__name__)
            except self._nvml.NVMLError as error:
                failure = error
        if failure is not None and not sample:
            raise failure
        return sample

    def close(self) -> None:
        self._nvml.nvmlShutdown()

    def _clocks(self) -> Mapping[str, Scalar]:
        nvml = self._nvml
        return {
            "sm_clock_mhz": nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_MEM),
        }

    def _power(self) -> Mapping[str, Scalar]:
        return {"power_w": self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000}

    def _temperature(self) -> Mapping[str, Scalar]:
        nvml = self._nvml
        return {"temperature_c": nvml.nvmlDeviceGetTemperature(self._handle, nvml.NVML_TEMPERATURE_GPU)}

    def _utilization(self) -> Mapping[str, Scalar]:
        return {"utilization_percent": self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu}

    def _clock_events(self) -> Mapping[str, Scalar]:
        try:
            mask = self._nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        except self._nvml.NVMLError_FunctionNotFound:  # drivers before 535 have it by its old name
            mask = self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return {"clock_events": " ".join(word for bit, word in self._events.items() if mask & bit)}

    def _memory(self) -> Mapping[str, Scalar]:
        return {"memory_used_bytes": self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used}

    def _processes(self) -> Mapping[str, Scalar]:
        listed = {
            info.pid: info.usedGpuMemory for info in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        }
        own = listed.keys() & set(self._own_processes())
        sample: dict[str, Scalar] = {
            "compute_pids": " ".join(map(str, sorted(listed))),
            "other_processes": len(listed) - max(len(own), min(1, len(listed))),
        }
        others = [used for pid, used in listed.items() if pid not in own]
        if own and all(used is not None for used in others):
            sample["other_memory_bytes"] = sum(others)
        return sample
