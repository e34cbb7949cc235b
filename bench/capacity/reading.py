"""How an answer is read and worded, whatever shows it: order of rows, how searches ended, what stands beside."""

from __future__ import annotations

from collections.abc import Sequence

from bench.capacity.types import (
    AT_BOUND,
    BATCH,
    DATA_ENDS,
    DEVICE,
    DOES_NOT_FIT,
    FAILED,
    FITS,
    GLOBAL_BATCH,
    MODEL,
    NO_PROOF,
    NO_STEP,
    NONE_FITS,
    NOT_TRIED,
    NOT_VALID,
    SETTLED,
    UNFINISHED,
    Answer,
    Axis,
    Capacity,
    CapacitySpec,
    FrontierPoint,
    Throughput,
)
from bench.capacity.words import mib_text
from bench.records import PLAIN

ABSENT = "–"
"""What stands where nothing was measured."""
ENDED_WORDS = {
    SETTLED: "settled",
    DATA_ENDS: "data ends",
    AT_BOUND: "bound",
    NO_PROOF: "not proven further",
    NONE_FITS: "no size fits",
    FAILED: "error",
    NOT_VALID: "invalid",
    UNFINISHED: "unfinished",
}
"""How a search ended, as a table has room for it."""
NEXT_WORDS = {
    FITS: "fits",
    DOES_NOT_FIT: "does not fit",
    DATA_ENDS: "data ends",
    NO_STEP: "no step",
    NOT_TRIED: "not tried",
}
SIZE_NOUNS = {
    "micro-batch": ("sample", "samples"),
    "sequence-length": ("token", "tokens"),
    "image-size": ("pixel", "pixels"),
    "layers": ("layer", "layers"),
}
"""Axis → what its sizes count. Other axes have sizes without a noun."""
ROCKMATE_MULTIPLE = 4
ROCKMATE = (
    "for scale: the raw data of Rockmate (Zhao et al., ICML 2023) has GPT2-large at 4 times the batch in the same "
    "memory with 88.6 % of the throughput, on a GPU"
)


def heading(answer: Answer) -> str:
    """`largest micro-batch that trains within 4,096 MiB`, with what of it is kept free."""
    name = answer.spec.axis.name
    counted = f"number of {name}" if name.endswith("s") else name
    return f"largest {counted} that trains within {limit_words(answer.spec)}"


def limit_words(spec: CapacitySpec) -> str:
    """`4,096 MiB`; with a headroom what a peak may reach, and of what."""
    source = ", all that the device has" if spec.limit_source == DEVICE else ""
    if not spec.headroom:
        return f"{mib_text(spec.limit_bytes)}{source}"
    kept = f"{100 * spec.headroom:g} %"
    return f"{mib_text(spec.usable_bytes)} ({mib_text(spec.limit_bytes)}{source}, of which {kept} are kept free)"


def size_words(axis: Axis, size: int) -> str:
    """`12 samples`; `512` where the axis has no noun of its own."""
    one, many = SIZE_NOUNS.get(axis.name, ("", ""))
    return f"{size} {one if size == 1 else many}".strip()


def times_text(times: float | None) -> str:
    """`×3`, `×2.5`: two decimals at most, since sizes are whole numbers."""
    return ABSENT if times is None else f"×{times:.2f}".rstrip("0").rstrip(".")


def follows_accumulation(answer: Answer) -> bool:
    """Whether accumulation changes with the size, so that a table has to show it."""
    return answer.spec.keep == GLOBAL_BATCH


def beside_others(answer: Answer) -> str:
    """What others report for the same question; empty where ours is another question."""
    none = none_row(answer)
    is_asked = ROCKMATE_MULTIPLE in answer.spec.multiples and answer.spec.axis.kind == BATCH
    return ROCKMATE if is_asked and none is not None and none.largest is not None else ""


def unreached_hint(answer: Answer) -> str:
    """Where memory ends before a multiple is reached: how to see what fills the peak of the placement that goes
    furthest; else empty."""
    furthest, spec = next(iter(rows_with_size(answer)), None), answer.spec
    if furthest is None or furthest.largest is None or furthest.ended != SETTLED or spec.axis.kind == MODEL:
        return ""  # of a model of another size, the placement has another text
    if not any(at.size is not None and at.size > furthest.largest for at in answer.at_multiples):
        return ""
    grown = " ".join(f"{path}={furthest.largest}" for path in (spec.axis.path, *spec.axis.also))
    return (
        f"what fills the peak there: python -m bench explain model={spec.controls.model.name} {grown} "
        f"placement={furthest.placement}"
    )


def rows_with_size(answer: Answer) -> list[Capacity]:
    """The furthest first; of equal sizes the one with most throughput, and among equals in the order of the spec."""
    found = [row for row in answer.rows if row.largest is not None]
    return sorted(found, key=lambda row: (-(row.largest or 0), -rate_among(answer.rows, row)))


def rows_without_size(answer: Answer) -> list[Capacity]:
    return [row for row in answer.rows if row.largest is None]


def none_row(answer: Answer) -> Capacity | None:
    return next((row for row in answer.rows if row.placement == PLAIN), None)


def on_frontier(answer: Answer, row: Capacity) -> bool:
    """Whether the placement, at its own largest size, is on the frontier of throughput against size."""
    return any(p.placement == row.placement and p.size == row.largest for p in answer.frontier)


def speed(of: Throughput | FrontierPoint) -> float:
    """The paired ratio to `none`, so that all share one state of the machine; as measured where there is none. Only
    what is comparable (`bench.capacity.throughput`) is ranked by it."""
    return of.units_per_s if of.relative is None else of.relative


def rate_among(rows: Sequence[Capacity], row: Capacity) -> float:
    """What a row is ranked by among others; -1 where it was not timed, or not in a round with `none` as others were."""
    of = row.throughput
    if of is None or (of.relative is None and any(r.throughput and r.throughput.relative is not None for r in rows)):
        return -1.0
    return speed(of)
