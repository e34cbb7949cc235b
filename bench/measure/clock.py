"""Step times: CUDA events on a GPU, the monotonic clock on the CPU, and one span around them all."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class StepTimes:
    steps_ms: tuple[float, ...]
    """Each step by itself. On CUDA between two events on the stream, so queueing ahead by the host is not counted."""
    wall_ms: float
    """From before the first step was issued until the device had finished the last."""


def time_steps(run: Callable[[], object], count: int, device: torch.device) -> StepTimes:
    """Runs `run` `count` times back to back; nothing else happens in between."""
    return _time_on_cuda(run, count, device) if device.type == "cuda" else _time_on_cpu(run, count)


def _time_on_cpu(run: Callable[[], object], count: int) -> StepTimes:
    marks = [time.perf_counter()]
    for _ in range(count):
        run()
        marks.append(time.perf_counter())
    steps = tuple((b - a) * 1e3 for a, b in itertools.pairwise(marks))
    return StepTimes(steps, (marks[-1] - marks[0]) * 1e3)


def _time_on_cuda(run: Callable[[], object], count: int, device: torch.device) -> StepTimes:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    stream = torch.cuda.current_stream(device)  # of this device, which need not be the current one
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    events[0].record(stream)
    for event in events[1:]:
        run()
        event.record(stream)
    torch.cuda.synchronize(device)
    wall = (time.perf_counter() - start) * 1e3
    return StepTimes(tuple(a.elapsed_time(b) for a, b in itertools.pairwise(events)), wall)
