"""What each block of memory of a step is: every storage of a log has one category, so that they add up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from bench.spec.roles import BUFFER, GRADIENT, INPUT, OPTIMIZER_STATE, PARAMETER, SCALER
from bench.trace.log import FIRST, NOWHERE, REMAINDER, REPLAY, Op, StepLog, Storage

PARAMETERS, BUFFERS, OPTIMIZER_STATES, INPUTS = "parameters", "buffers", "optimizer state", "inputs"
GRADIENTS, RANDOM_STATE = "gradients", "random state"
BOUNDARY, SAVED, TEMPORARY = "boundary tensors", "saved activations", "temporaries"
WORKSPACES, OTHER = "workspaces", "other"

CATEGORIES = (
    PARAMETERS,
    BUFFERS,
    OPTIMIZER_STATES,
    INPUTS,
    GRADIENTS,
    OTHER,
    RANDOM_STATE,
    BOUNDARY,
    SAVED,
    TEMPORARY,
    WORKSPACES,
)
"""In the order of stacking: what stays is below, what comes and goes is above."""

OF_FORWARD, OF_REPLAY = "of the forward", "of a replay"
OF_BACKWARD, OF_OPTIMIZER = "gradients on their way", "of the optimizer"

RANDOM_STATE_BYTES = 5056
"""Of the CPU generator's state (Mersenne Twister and one cached normal), as `torch.get_rng_state` returns it."""

_BY_ROLE = {
    PARAMETER: PARAMETERS,
    BUFFER: BUFFERS,
    GRADIENT: GRADIENTS,
    OPTIMIZER_STATE: OPTIMIZER_STATES,
    INPUT: INPUTS,
    SCALER: OTHER,
    REMAINDER: OTHER,
}


class CategoriesDoNotAddUpError(AssertionError):
    """The categories at the peak are not the peak: a storage was left out or counted twice. A fault of the harness."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Classified:
    """Where a storage belongs."""

    category: str
    """One of CATEGORIES."""
    kind: str
    """What the category leaves open: of saved activations and temporaries OF_FORWARD or OF_REPLAY, of temporaries also
    OF_BACKWARD and OF_OPTIMIZER; empty otherwise."""


@dataclass(frozen=True, kw_only=True)
class CategoryBytes:
    category: str
    bytes: int
    num_tensors: int


@dataclass(frozen=True, kw_only=True)
class PeakCategories:
    """What is alive at the high-water mark; the categories add up to it to the byte."""

    peak_bytes: int
    at_event: int
    """Events that had happened when it was reached first."""
    categories: tuple[CategoryBytes, ...]
    """All of CATEGORIES, in that order."""

    def bytes_of(self, *categories: str) -> int:
        return sum(entry.bytes for entry in self.categories if entry.category in categories)


def at_peak(log: StepLog, classes: Sequence[Classified] | None = None) -> PeakCategories:
    """Bytes by category at the high-water mark.

    Args:
        classes: `classify(log)`, where it is known already.

    Raises:
        CategoriesDoNotAddUpError: the log's events and its storages disagree.
    """
    peak_bytes, at_event = log.peak()
    classes = classify(log) if classes is None else classes
    totals = dict.fromkeys(CATEGORIES, 0)
    numbers = dict.fromkeys(CATEGORIES, 0)
    for index in log.alive_at(at_event):
        totals[classes[index].category] += log.storages[index].size_bytes
        numbers[classes[index].category] += 1
    if sum(totals.values()) != peak_bytes:
        raise CategoriesDoNotAddUpError(
            f"{log.model} under {log.placement}: what is alive at the peak is {sum(totals.values())} bytes and the "
            f"peak {peak_bytes}; the log's events do not fit its storages"
        )
    return PeakCategories(
        peak_bytes=peak_bytes,
        at_event=at_event,
        categories=tuple(
            CategoryBytes(category=name, bytes=totals[name], num_tensors=numbers[name]) for name in CATEGORIES
        ),
    )


def category_of(log: StepLog) -> list[str]:
    """One of CATEGORIES for each storage."""
    return [one.category for one in classify(log)]


def classify(log: StepLog) -> list[Classified]:
    """Category and kind of each storage. The first rule that applies decides:

    1. What was there before the step, and gradients: by role.
    2. Made outside every op, as large as a generator's state: random state.
    3. Made inside an op that neither took it in nor handed it out: workspace.
    4. Given to the first pass of a region: boundary tensor.
    5. Made by a forward (or a replay) and outliving it: saved activation.
    6. Made by the optimizer and outliving the step: optimizer state.
    7. Made in a forward, a backward or the optimizer: temporary. The rest (a running loss, what lies between phases):
       other.
    """
    touched: set[int] = set()
    for op in log.ops:
        touched.update(op.reads, op.writes)
    boundary = {index for p in log.passes if p.kind == FIRST for index in p.boundary}
    replay_ends = _replay_ends(log)
    forward_ends = _forward_ends(log)
    classes: list[Classified] = []
    for index, storage in enumerate(log.storages):
        if storage.role is not None or storage.birth is None:
            classes.append(Classified(category=_BY_ROLE.get(storage.role or REMAINDER, OTHER), kind=""))
            continue
        made_by = log.ops[storage.op] if storage.op != NOWHERE else None
        if made_by is None and storage.shape is None and storage.size_bytes == RANDOM_STATE_BYTES:
            classes.append(Classified(category=RANDOM_STATE, kind=""))
        elif made_by is not None and storage.shape is None and index not in touched:
            classes.append(Classified(category=WORKSPACES, kind=""))
        elif index in boundary:
            classes.append(Classified(category=BOUNDARY, kind=""))
        else:
            classes.append(_by_lifetime(log, storage, made_by, replay_ends, forward_ends))
    return classes


def _by_lifetime(
    log: StepLog, storage: Storage, op: Op | None, replay_ends: Sequence[int | None], forward_ends: Sequence[int]
) -> Classified:
    assert storage.birth is not None
    birth, death = storage.birth, storage.death
    region_pass = op.region_pass if op is not None else _pass_at(log, birth)
    replay_end = replay_ends[region_pass] if region_pass != NOWHERE else None
    if replay_end is not None:
        outlives = death is None or death >= replay_end
        return Classified(category=SAVED if outlives else TEMPORARY, kind=OF_REPLAY)
    phase = op.phase if op is not None else log.phase_at(birth + 1).phase if _has_begun(log, birth) else ""
    if phase == "forward":
        end = next((end for end in forward_ends if end > birth), len(log.events))
        outlives = death is None or death >= end
        return Classified(category=SAVED if outlives else TEMPORARY, kind=OF_FORWARD)
    if phase == "optimizer":
        return Classified(category=OPTIMIZER_STATES, kind="") if death is None else _temporary(OF_OPTIMIZER)
    if phase == "backward":
        return _temporary(OF_BACKWARD)
    return Classified(category=OTHER, kind="")


def _temporary(kind: str) -> Classified:
    return Classified(category=TEMPORARY, kind=kind)


def _has_begun(log: StepLog, birth: int) -> bool:
    return bool(log.phases) and log.phases[0].begin <= birth


def _forward_ends(log: StepLog) -> list[int]:
    """Events at which forwards ended: where another phase follows one."""
    following = log.phases[1:]
    return [
        after.begin
        for mark, after in zip(log.phases, following, strict=False)
        if mark.phase == "forward" and after.phase != "forward"
    ]


def _replay_ends(log: StepLog) -> list[int | None]:
    """Of each pass, where the outermost replay that it is or lies in has ended; None where it is in none.

    An early stop is an exception, which holds the frames that it leaves for a moment; so a replay has ended as the next
    op begins."""
    begins = [op.begin for op in log.ops]
    ends: list[int | None] = []
    for p in log.passes:
        end = ends[p.around] if p.around != NOWHERE else None
        if end is None and p.kind == REPLAY:
            following = bisect_left(begins, p.end)
            end = begins[following] if following < len(begins) else p.end
        ends.append(end)
    return ends


def _pass_at(log: StepLog, event: int) -> int:
    """Innermost pass that an event happened in; later passes lie deeper."""
    return max((i for i, p in enumerate(log.passes) if p.begin <= event < p.end), default=NOWHERE)
