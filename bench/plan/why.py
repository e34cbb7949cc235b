"""Why no placement gets under a budget: the moment that stands in the way, and what is alive there."""

from __future__ import annotations

from collections import Counter

from bench.spec.roles import GRADIENT
from bench.trace.log import NOWHERE, StepLog, Storage

NUM_NAMED = 3
"""Largest groups of tensors that are named."""
MIB = 2**20


def over_budget_text(log: StepLog, budget_bytes: int) -> str:
    """
    Args:
        log: of a step under the placement with the least peak.
    """
    peak_bytes, at_event = log.peak()
    op_index = log.op_at(at_event)
    op = None if op_index == NOWHERE else log.ops[op_index]
    phase = log.phase_at(at_event).phase if log.phases else "the step"
    where = "" if op is None else f", at {op.name} {_in_module(op.module)}"
    persistent = log.persistent_bytes
    told = [f"no placement gets under {_size(peak_bytes)}, which is {_size(peak_bytes - budget_bytes)} more"]
    if persistent >= budget_bytes:
        told.append(
            f"what is there before the step (parameters, optimizer state, batches) alone is {_size(persistent)}"
        )
    else:
        told.append(f"{_size(persistent)} of it are there before the step (parameters, optimizer state, batches)")
    alive = [log.storages[index] for index in log.alive_at(at_event) if log.storages[index].birth is not None]
    told.append(f"the rest is needed in {phase}{where}, whatever is replayed: {_largest(log, alive)}")
    return "; ".join(told)


def _largest(log: StepLog, alive: list[Storage]) -> str:
    sizes: Counter[str] = Counter()
    for storage in alive:
        sizes[_described(log, storage)] += storage.size_bytes
    named = sizes.most_common(NUM_NAMED)
    rest = sizes.total() - sum(size for _, size in named)
    parts = [f"{what} {_size(size)}" for what, size in named]
    return ", ".join([*parts, *([f"other tensors {_size(rest)}"] if rest else [])])


def _described(log: StepLog, storage: Storage) -> str:
    """`gradients`, or what an op of a module made: equal ones are one."""
    if storage.role == GRADIENT:
        return "gradients"
    if storage.role is not None:
        return storage.role.replace("-", " ").replace("_", " ")
    if storage.op == NOWHERE:
        return "tensors of no op"
    op = log.ops[storage.op]
    return f"outputs of {op.name} {_in_module(op.module)}"


def _in_module(module: str) -> str:
    return f"in {module}" if module else "outside every module"


def _size(num_bytes: int) -> str:
    """In MiB; what is less than a tenth of one in KiB."""
    return f"{num_bytes / MIB:,.1f} MiB" if num_bytes >= MIB / 10 else f"{num_bytes / 1024:,.1f} KiB"
