"""The CPU allocator's peak, from the events it reports to the profiler: every block, with its bytes, in order.

Blocks that were allocated before recording began are freed unseen. So two steps are recorded and the second is read:
whatever it frees was either allocated in the first or belongs to the persistent state that is counted apart.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from bench.measure.memory import COLLECT, END, MemoryReading, Persistent, RunStep, check_returned

MARK = "bench.phase:"
ALLOCATION = "[memory]"
FORWARD, BACKWARD = "forward", "backward"


def measure_on_cpu(run: RunStep, persistent: Persistent) -> MemoryReading:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        run(_unmarked)
        state = {storage.data_ptr(): storage.nbytes() for storage in map(_storage, persistent())}
        _mark("start")
        run(_mark)
        _mark(COLLECT)
        gc.collect()
    return _read(recording, state)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    return tensor.untyped_storage()


def _mark(phase: str) -> None:
    with record_function(MARK + phase):
        pass


def _unmarked(_phase: str) -> None:
    pass


def _read(recording: profile, state: Mapping[int, int]) -> MemoryReading:
    """`state`: address → bytes of the blocks that are known to be there between the two steps."""
    unknown: dict[int, int] = {}
    persistent = running = start = end = peak = before_forward = retained = 0
    phase, peak_phase = "", ""
    for event in allocator_events(recording, MARK):
        if event.name != ALLOCATION:
            phase = event.name.removeprefix(MARK)
            if phase == "start":
                start = peak = running
                persistent = sum(state.values()) + sum(unknown.values())
            elif phase == FORWARD:
                before_forward = running
            elif phase == BACKWARD:
                retained = running - before_forward
            elif phase == COLLECT:
                end = running
            continue
        change, address = event.extra_fields.alloc_size, event.extra_fields.ptr
        running += change
        if not phase:
            # What the first step leaves behind and nobody knows of, such as a tensor that a module holds to its next
            # call, weighs on the second as the state does.
            if change < 0:
                unknown.pop(address, None)
            elif address not in state:
                unknown[address] = change
        elif phase not in (END, COLLECT) and running > peak:
            peak, peak_phase = running, phase
    check_returned(start, end if phase == COLLECT else running, running)
    return MemoryReading(
        persistent_bytes=persistent,
        peak_bytes=persistent + peak - start,
        peak_phase=peak_phase,
        retained_bytes=retained,
    )


def allocator_events(recording: profile, mark: str | None = None) -> list[Any]:
    """Allocations, releases (ALLOCATION, with `extra_fields.ptr` and signed `extra_fields.alloc_size`) and the marks
    whose name begins with `mark`, if there is one, in the order of time."""
    if recording.profiler is None or recording.profiler.kineto_results is None:
        raise RuntimeError("the profiler recorded nothing: this torch build has no kineto")
    found: list[Any] = []
    waiting = list(reversed(recording.profiler.kineto_results.experimental_event_tree()))
    while waiting:
        event = waiting.pop()
        if event.name == ALLOCATION or (mark is not None and event.name.startswith(mark)):
            found.append(event)
        waiting.extend(reversed(event.children))  # so that equal times keep their order
    return sorted(found, key=lambda event: event.start_time_ns)
