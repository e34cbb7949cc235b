"""The CUDA caching allocator's peaks: allocated, requested (before rounding) and reserved."""

from __future__ import annotations

import gc

import torch

from bench.measure.memory import END, MemoryReading, RunStep, check_returned

FORWARD, BACKWARD = "forward", "backward"


def measure_on_cuda(run: RunStep, device: torch.device) -> MemoryReading:
    """The first step warms workspaces, then the cache is emptied, so that blocks are cut the same way for every
    placement. The peak's phase is that in which the peak counter last rose."""
    run(_unmarked)
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    watch = _Watch(device)
    torch.cuda.reset_peak_memory_stats(device)
    start = torch.cuda.memory_allocated(device)
    run(watch.begin)
    torch.cuda.synchronize(device)
    stats = torch.cuda.memory_stats(device)
    end = torch.cuda.memory_allocated(device)
    gc.collect()
    check_returned(start, end, torch.cuda.memory_allocated(device))
    return MemoryReading(
        persistent_bytes=start,
        peak_bytes=stats["allocated_bytes.all.peak"],
        peak_phase=watch.peak_phase,
        retained_bytes=watch.retained,
        peak_requested_bytes=stats["requested_bytes.all.peak"],
        peak_reserved_bytes=stats["reserved_bytes.all.peak"],
    )


class _Watch:
    """Reads the allocator's host-side counters as each phase begins; nothing is issued to the device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._phase = ""
        self._peak = 0
        self.peak_phase = ""
        self._before_forward = 0
        self.retained = 0

    def begin(self, phase: str) -> None:
        peak = torch.cuda.max_memory_allocated(self._device)
        if self._phase and peak > self._peak:
            self._peak, self.peak_phase = peak, self._phase
        if phase == FORWARD:
            self._before_forward = torch.cuda.memory_allocated(self._device)
        elif phase == BACKWARD:
            self.retained = torch.cuda.memory_allocated(self._device) - self._before_forward
        self._phase = "" if phase == END else phase


def _unmarked(_phase: str) -> None:
    pass
