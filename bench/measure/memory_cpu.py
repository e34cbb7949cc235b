"""The CPU allocator's peak, from the events it reports to the profiler: every block, with its bytes, in order.

Blocks that were allocated before recording began are freed unseen. So two steps are recorded and the second is read:
whatever it frees was either allocated in the first or belongs to the persistent state that is counted apart.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile, record_function

from bench.measure.memory import COLLECT, END, MemoryReading, RunStep, check_returned

MARK = "bench.phase:"
ALLOCATION = "[memory]"
FORWARD, BACKWARD = "forward", "backward"


def measure_on_cpu(run: RunStep, persistent_bytes: Callable[[], int]) -> MemoryReading:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        run(_unmarked)
        persistent = persistent_bytes()
        _mark("start")
        run(_mark)
        _mark(COLLECT)
        gc.collect()
    return _read(recording, persistent)


def _mark(phase: str) -> None:
    with record_function(MARK + phase):
        pass


def _unmarked(_phase: str) -> None:
    pass


def _read(recording: profile, persistent: int) -> MemoryReading:
    marks, changes = _events(recording)
    running = start = end = peak = before_forward = retained = 0
    phase, peak_phase = "", ""
    remaining = iter([*marks, (float("inf"), "")])
    next_time, next_phase = next(remaining)
    for time_ns, change in changes:
        while time_ns >= next_time:
            phase = next_phase
            if phase == "start":
                start = peak = running
            elif phase == FORWARD:
                before_forward = running
            elif phase == BACKWARD:
                retained = running - before_forward
            elif phase == COLLECT:
                end = running
            next_time, next_phase = next(remaining)
        running += change
        if phase and phase not in (END, COLLECT) and running > peak:
            peak, peak_phase = running, phase
    check_returned(start, end if phase == COLLECT else running, running)
    return MemoryReading(
        persistent_bytes=persistent,
        peak_bytes=persistent + peak - start,
        peak_phase=peak_phase,
        retained_bytes=retained,
    )


def _events(recording: profile) -> tuple[list[tuple[float, str]], list[tuple[float, int]]]:
    """(time in ns, phase) of each mark of the second step, and (time in ns, bytes) of each allocation or free."""
    if recording.profiler is None or recording.profiler.kineto_results is None:
        raise RuntimeError("the profiler recorded nothing: this torch build has no kineto")
    marks: list[tuple[float, str]] = []
    changes: list[tuple[float, int]] = []
    for event in recording.profiler.kineto_results.events():
        name = event.name()
        if name == ALLOCATION:
            changes.append((event.start_ns(), event.nbytes()))  # type: ignore[attr-defined]  # missing in the stubs
        elif name.startswith(MARK):
            marks.append((event.start_ns(), name.removeprefix(MARK)))
    return sorted(marks, key=lambda mark: mark[0]), sorted(changes, key=lambda change: change[0])
