"""Tensors of a forward that something holds on to: alive once the backward is over that should have freed them."""

from __future__ import annotations

import math
from collections import Counter

from bench.trace.categories import BOUNDARY, SAVED, Classified
from bench.trace.log import NOWHERE, StepLog


def leaked(log: StepLog, classes: tuple[Classified, ...]) -> tuple[int, ...]:
    """Storages that a forward or a replay made, that outlive the backward after it, and that nobody reads from then on.
    Scalars are left out: a loss may be returned. So is state that the step takes in and makes anew, such as a running
    mean that is assigned and not changed in place: the next step reads it."""
    last_read: dict[int, int] = {}
    for op in log.ops:
        for storage in op.reads:
            last_read[storage] = op.begin
    renewed = Counter(
        (held.shape, held.dtype)
        for index, held in enumerate(log.storages)
        if held.birth is None and held.death is not None and index in last_read
    )
    found: list[int] = []
    for index, one in enumerate(classes):
        held = log.storages[index]
        if one.category not in (SAVED, BOUNDARY) or held.op == NOWHERE or held.birth is None:
            continue
        if held.shape is None or math.prod(held.shape) <= 1:
            continue
        end = _end_of_backward(log, held.birth)
        outlives = end is not None and (held.death is None or held.death >= end)
        if not outlives or end is None or last_read.get(index, 0) >= end:
            continue
        if held.death is None and renewed[held.shape, held.dtype]:
            renewed[held.shape, held.dtype] -= 1
        else:
            found.append(index)
    return tuple(found)


def _end_of_backward(log: StepLog, birth: int) -> int | None:
    """Events when the backward that was running at a birth, or the next one, had ended; None where none follows."""
    begun = max((n for n, mark in enumerate(log.phases) if mark.begin <= birth), default=0)
    backward = next((n for n in range(begun, len(log.phases)) if log.phases[n].phase == "backward"), None)
    if backward is None:
        return None
    return next((mark.begin for mark in log.phases[backward:] if mark.phase != "backward"), None)
