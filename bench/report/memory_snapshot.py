"""The log as a snapshot that PyTorch's memory viewer opens (https://pytorch.org/memory_viz).

The format is that of `torch.cuda.memory._snapshot()`, a pickle of plain lists and dictionaries; it is written here and
never read. A log knows no addresses: each block gets one that no other block ever has, in a segment of its own, so that
the viewer shows no fragmentation that nobody saw. Its time is the number of events, not microseconds.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from bench.trace.categories import category_of
from bench.trace.log import NOWHERE, StepLog, Storage

PROTOCOL = 4
"""The viewer reads 2 to 4."""
FIRST_ADDRESS = 0x7F0000000000
ALIGNMENT = 512
"""Of CUDA's caching allocator."""
UNKNOWN = "unknown"
"""The viewer fails on a snapshot that has categories and not this one (`annotate_snapshot` in MemoryViz.js)."""

Frame = dict[str, Any]


def write_memory_snapshot(path: Path, log: StepLog) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pickle.dump(memory_snapshot(log), file, protocol=PROTOCOL)
    return path


def memory_snapshot(log: StepLog) -> dict[str, Any]:
    """`segments`: what is there after the step. `device_traces`: one trace, first what was there before the step, then
    its events. Frames, innermost first: the op, its source line, module, region, phase, and what the block is."""
    categories = category_of(log)
    addresses = _addresses(log.storages)
    births = [_birth_frames(log, index, category) for index, category in enumerate(categories)]
    trace: list[dict[str, Any]] = []

    def allocate(index: int, time: int) -> None:
        for action in ("segment_alloc", "alloc"):
            trace.append(entry(index, action, births[index], time) | {"category": categories[index]})

    def release(index: int, time: int) -> None:
        frames = _frames_at(log, log.op_at(time + 1), time + 1)
        for action in ("free_requested", "free_completed", "segment_free"):
            trace.append(entry(index, action, frames, time))

    def entry(index: int, action: str, frames: list[Frame], time: int) -> dict[str, Any]:
        return {
            "action": action,
            "addr": addresses[index],
            "size": log.storages[index].size_bytes,
            "stream": 0,
            "frames": frames,
            "time_us": time,
        }

    persistent = [index for index, storage in enumerate(log.storages) if storage.birth is None]
    known = set(persistent)
    for index in persistent:
        allocate(index, 0)
    for time, event in enumerate(log.events):
        index = abs(event) - 1
        if event > 0:
            known.add(index)
            allocate(index, time)
        elif index in known:
            release(index, time)
    trace.append(
        {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": [], "time_us": len(log.events)}
        | {"category": UNKNOWN}
    )
    left = [index for index in sorted(known) if log.storages[index].death is None]
    return {
        "segments": [_segment(log.storages[index], addresses[index], births[index]) for index in left],
        "device_traces": [trace],
    }


def _addresses(storages: tuple[Storage, ...]) -> list[int]:
    addresses = []
    free = FIRST_ADDRESS
    for storage in storages:
        addresses.append(free)
        free += max(-(-storage.size_bytes // ALIGNMENT), 1) * ALIGNMENT
    return addresses


def _segment(storage: Storage, address: int, frames: list[Frame]) -> dict[str, Any]:
    size = storage.size_bytes
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "allocated_size": size,
        "active_size": size,
        "requested_size": size,
        "stream": 0,
        "segment_type": "large",
        "frames": frames,
        "blocks": [
            {"address": address, "size": size, "requested_size": size, "state": "active_allocated", "frames": frames}
        ],
    }


def _birth_frames(log: StepLog, index: int, category: str) -> list[Frame]:
    storage = log.storages[index]
    shape = f"{storage.dtype} {list(storage.shape)}" if storage.shape is not None else "block"
    what = _frame("tensor", index, " ".join(part for part in (category, shape, storage.name) if part))
    if storage.birth is None:
        return [what, _frame("phase", 0, "before the step")]
    return [*_frames_at(log, storage.op, storage.birth + 1), what]


def _frames_at(log: StepLog, number: int, events: int) -> list[Frame]:
    mark = log.phase_at(events) if log.phases else None
    phase = [_frame("phase", mark.micro_batch, mark.phase)] if mark else []
    if number == NOWHERE:
        return phase
    op = log.ops[number]
    frames = [_frame("op", number, op.name)]
    if op.source != NOWHERE:
        frames.append(_source_frame(log.sources[op.source]))
    if op.module:
        frames.append(_frame("module", 0, op.module))
    if op.region_pass != NOWHERE:
        region_pass = log.passes[op.region_pass]
        frames.append(_frame(f"{region_pass.kind} pass of region", region_pass.call, region_pass.region))
    return frames + phase


def _source_frame(source: str) -> Frame:
    """From `file.py:12 function`."""
    place, _, function = source.rpartition(" ")
    file, _, line = place.rpartition(":")
    return _frame(file, int(line), function) if line.isdigit() else _frame(source, 0, "")


def _frame(filename: str, line: int, name: str) -> Frame:
    return {"filename": filename, "line": line, "name": name}
