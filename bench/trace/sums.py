"""Gradients that autograd adds up in place when nothing watches, put right in a log.

Where a tensor is used more than once, autograd adds its gradients, into the one that came first if nobody else holds
that one. Under a dispatch mode, and on fake tensors, it adds into a new tensor instead (`can_accumulate_inplace` in
torch/csrc/autograd/input_buffer.cpp asks whether a mode is on), and then lets both go. So a log holds a block for each
such sum that no unwatched step ever takes; here it becomes the block of the gradient that dies as the sum is done.
Likewise the gradients of choices (sorting, gathering, indexing) are filled into zeros, in place only where nothing
watches (`areAnyTensorSubclassLike` in torch/csrc/autograd/FunctionsManual.cpp).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from bench.trace.log import StepLog

aten = torch.ops.aten
_FILLS = frozenset({aten.scatter.src, aten.scatter_add.default, aten.index_put.default})


def may_add_in_place(func: Any, args: Sequence[Any]) -> bool:
    """Whether autograd would have written into the first argument, had no mode been on and nobody else held it. A view
    holds its base, so it never would: the weight gradient of a linear layer is one, being transposed.

    Ask while the op runs. In a replay gradients are enabled, so what a forward adds there is none of these.
    """
    if torch.is_grad_enabled():
        return False
    if func in _FILLS:
        return not args[0]._is_view()
    if func is not aten.add.Tensor:
        return False
    first, second = args[:2]
    return (
        isinstance(first, torch.Tensor)
        and isinstance(second, torch.Tensor)
        and first.shape == second.shape
        and first.dtype == second.dtype
        and not first._is_view()
        and torch.ops.aten.is_non_overlapping_and_dense(first)
    )


def sums_in_place(log: StepLog, sums: Collection[int]) -> StepLog:
    """The log of the same step unwatched. The merged block has the shape and the maker of its first tenant.

    Args:
        sums: ops of backward for which `may_add_in_place` holds.
    """
    heirs = heirs_of_sums(log, sums)
    if not heirs:
        return log
    events, before = events_in_place(log.events, heirs)
    numbers = {old: new for new, old in enumerate(i for i in range(len(log.storages)) if i not in heirs)}

    def renumbered(storages: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(numbers[_final(storage, heirs)] for storage in storages))

    last = {_final(storage, heirs): storage for storage in heirs}  # of a chain, the one that dies last comes last
    storages = []
    for index in numbers:
        storage = log.storages[index]
        end = log.storages[last[index]] if index in last else storage
        storages.append(
            dataclasses.replace(
                storage,
                birth=None if storage.birth is None else before[storage.birth],
                death=None if end.death is None else before[end.death],
                role=storage.role or end.role,
                name=storage.name or end.name,
            )
        )
    return dataclasses.replace(
        log,
        storages=tuple(storages),
        events=tuple((numbers[abs(event) - 1] + 1) * (1 if event > 0 else -1) for event in events),
        ops=tuple(
            dataclasses.replace(
                op,
                name=f"{op.name}_" if op.writes and op.writes[0] in heirs else op.name,
                reads=renumbered(op.reads),
                writes=renumbered(op.writes),
                begin=before[op.begin],
                end=before[op.end],
            )
            for op in log.ops
        ),
        passes=tuple(
            dataclasses.replace(
                p,
                begin=before[p.begin],
                end=before[p.end],
                boundary=renumbered(p.boundary),
                handed_out=renumbered(p.handed_out),
            )
            for p in log.passes
        ),
        phases=tuple(dataclasses.replace(mark, begin=before[mark.begin]) for mark in log.phases),
    )


def heirs_of_sums(log: StepLog, sums: Collection[int]) -> dict[int, int]:
    """Sum → the gradient that it would have been added into; storages of a log as watched."""
    heirs: dict[int, int] = {}
    for number in sorted(sums):
        op = log.ops[number]
        if op.end - op.begin != 1 or not op.reads:
            continue
        made, first = log.events[op.begin] - 1, op.reads[0]
        is_alike = made in op.writes and log.storages[made].size_bytes == log.storages[first].size_bytes
        if is_alike and _is_last_use(log.events, op.begin, first):
            heirs[made] = first
    return heirs


def events_in_place(events: Sequence[int], heirs: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """The events of a step in which each sum is added into its heir, and how many of them come before each of
    `events` and after the last; shapes (events,), (events + 1,). Storages keep their numbers.

    Raises:
        ValueError: a heir is not released right after its sum was allocated.
    """
    gone: set[int] = set()
    for position, event in enumerate(events):
        first = heirs.get(event - 1) if event > 0 else None
        if first is not None:
            gone |= {position, position + 1 + list(events[position + 1 : position + 3]).index(-(first + 1))}
    kept: list[int] = []
    before: list[int] = []
    for position, event in enumerate(events):
        before.append(len(kept))
        if position not in gone:
            kept.append((_final(abs(event) - 1, heirs) + 1) * (1 if event > 0 else -1))
    return kept, [*before, len(kept)]


def _is_last_use(events: Sequence[int], position: int, first: int) -> bool:
    """Both operands go as the sum is done, in either order."""
    return -(first + 1) in events[position + 1 : position + 3]


def _final(storage: int, heirs: Mapping[int, int]) -> int:
    while storage in heirs:
        storage = heirs[storage]
    return storage
