"""What the picture of a step's memory shows, worked out of its log: the first of two steps, the second draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.explain.passes import replayed_region
from bench.report.memory_axis import Axis, axis_of
from bench.trace.categories import CATEGORIES, PeakCategories, at_peak, classify
from bench.trace.log import NOWHERE, PhaseMark, StepLog

NUM_COLUMNS = 720
"""A hundred an inch, more than a reader sees."""
FOLD_SHARE = 0.75
"""What stays for the whole step and is more than this share of the peak is left out of the stack, and told in words."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Allocated bytes by category along the axis, thinned so that no high-water mark is lost."""

    lefts: tuple[float, ...]
    """Where each column begins; the last ends at the axis's width. (columns,)"""
    events: tuple[int, ...]
    """The moment that a column shows, which is its highest: so many events are past. (columns,)"""
    totals: tuple[int, ...]
    """All that is allocated at it. (columns,)"""
    by_category: dict[str, tuple[int, ...]]
    """Of each category that occurs, lowest first; they add up to the total less `floor_bytes`. (columns,)"""
    floor_bytes: int
    """Of what is there throughout and is left out of `by_category`; 0 where nothing is."""


@dataclass(frozen=True, kw_only=True)
class Peak:
    bytes: int
    events: int
    """Events past as it is reached first."""
    left: float
    """On the axis."""
    phase: str
    micro_batch: int
    module: str
    """Empty outside every module."""
    op: str
    """That was running, or had last run; empty before the first."""
    op_number: int
    """Of it, from 0, or NOWHERE."""
    replayed: str
    """Region that was being replayed, or empty."""
    by_category: dict[str, int]
    """Bytes of every category that is there, lowest first."""


@dataclass(frozen=True, kw_only=True)
class PassBar:
    """One pass of a region."""

    region: str
    kind: str
    depth: int
    """How many passes are around it."""
    left: float
    right: float


@dataclass(frozen=True, kw_only=True)
class MemoryData:
    model: str
    placement: str
    device: str
    is_fake: bool
    num_micro_batches: int
    axis: Axis
    stack: Stack
    peak: Peak
    passes: tuple[PassBar, ...]
    floor: dict[str, int]
    """By category what `stack.floor_bytes` is made of."""


def memory_data(log: StepLog, axis: Axis | None = None, num_columns: int = NUM_COLUMNS) -> MemoryData:
    """`axis`: of `aligned_axes`, where the picture has another step beside this one."""
    axis = axis or axis_of(log)
    classes = classify(log)
    categories = [one.category for one in classes]
    floor = _floor(log, categories)
    floor = floor if sum(floor.values()) > FOLD_SHARE * log.peak()[0] else {}
    return MemoryData(
        model=log.model,
        placement=log.placement,
        device=log.device,
        is_fake=log.is_fake,
        num_micro_batches=1 + max((mark.micro_batch for mark in log.phases), default=0),
        axis=axis,
        stack=stacked(log, axis, categories, num_columns=num_columns, floor=floor),
        peak=_peak(log, axis, at_peak(log, classes)),
        passes=_pass_bars(log, axis),
        floor=floor,
    )


def stacked(
    log: StepLog, axis: Axis, categories: Sequence[str], *, num_columns: int, floor: dict[str, int] | None = None
) -> Stack:
    """The stack by category.

    Args:
        categories: of each storage.
        num_columns: that the axis is divided into; a column shows the moment in it at which most is allocated.
        floor: by category, what of it is left out.
    """
    floor = floor or {}
    totals = log.timeline()
    shown = _highest(totals, axis, num_columns)
    now = dict.fromkeys(CATEGORIES, 0)
    for storage, category in zip(log.storages, categories, strict=True):
        if storage.birth is None:
            now[category] += storage.size_bytes
    columns: dict[str, list[int]] = {category: [] for category in CATEGORIES}
    past = 0
    for events in shown:  # never falling, as the axis is not
        for event in log.events[past:events]:
            index = abs(event) - 1
            now[categories[index]] += log.storages[index].size_bytes if event > 0 else -log.storages[index].size_bytes
        past = events
        for category, series in columns.items():
            series.append(now[category] - floor.get(category, 0))
    return Stack(
        lefts=tuple(column * axis.width / num_columns for column in range(num_columns)),
        events=tuple(shown),
        totals=tuple(totals[events] for events in shown),
        by_category={category: tuple(series) for category, series in columns.items() if any(series)},
        floor_bytes=sum(floor.values()),
    )


def _peak(log: StepLog, axis: Axis, sizes: PeakCategories) -> Peak:
    op = log.op_at(sizes.at_event)
    mark = log.phase_at(sizes.at_event) if log.phases else PhaseMark(phase="", micro_batch=0, begin=0)
    return Peak(
        bytes=sizes.peak_bytes,
        events=sizes.at_event,
        left=axis.states[sizes.at_event],
        phase=mark.phase,
        micro_batch=mark.micro_batch,
        module=log.ops[op].module if op != NOWHERE else "",
        op=log.ops[op].name if op != NOWHERE else "",
        op_number=op,
        replayed=replayed_region(log, log.ops[op].region_pass) if op != NOWHERE else "",
        by_category={entry.category: entry.bytes for entry in sizes.categories if entry.bytes},
    )


def _highest(totals: Sequence[int], axis: Axis, num_columns: int) -> list[int]:
    """For each column the first of the states in it at which most is allocated; a state may fill many columns."""
    scale = num_columns / axis.width if axis.width else 0.0
    shown: list[int] = [NOWHERE] * num_columns
    ends = [*axis.states[1:], axis.width]
    for state, (left, right) in enumerate(zip(axis.states, ends, strict=True)):
        first = min(int(left * scale), num_columns - 1)
        last = min(int(right * scale), num_columns - 1)
        for column in range(first, last + 1):
            if shown[column] == NOWHERE or totals[state] > totals[shown[column]]:
                shown[column] = state
    return shown


def _floor(log: StepLog, categories: Sequence[str]) -> dict[str, int]:
    """By category, what is there before the step, after it, and all the time between."""
    sizes = dict.fromkeys(CATEGORIES, 0)
    for storage, category in zip(log.storages, categories, strict=True):
        if storage.birth is None and storage.death is None:
            sizes[category] += storage.size_bytes
    return {category: size for category, size in sizes.items() if size}


def _pass_bars(log: StepLog, axis: Axis) -> tuple[PassBar, ...]:
    bars: list[PassBar] = []
    for region_pass in log.passes:
        around = region_pass.around
        bars.append(
            PassBar(
                region=region_pass.region,
                kind=region_pass.kind,
                depth=bars[around].depth + 1 if around != NOWHERE else 0,
                left=axis.states[region_pass.begin],
                right=axis.states[region_pass.end],
            )
        )
    return tuple(bars)
