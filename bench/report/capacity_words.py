"""How a capacity answer is worded, and its numbers are written: the same in a terminal, in figures and in MLflow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from bench.capacity.reading import NEXT_WORDS
from bench.capacity.types import AT_BOUND, MODEL, Answer, Capacity, Throughput
from bench.frontier.types import Interval, Trial
from bench.report.families import family_of
from bench.report.labels import Shortening, shorten
from bench.report.names import long_names, named
from bench.report.quantities import ABSENT, WIDE_SHARE, Unit, memory_unit, supported_decimals

TWIN = "twin of "
"""A placement that the gate brought in says so among its generators."""
MIN_WIDTH = 0.01
"""Percent: the shortest arm of an interval that is shown."""
UNKNOWN_UNCERTAINTY = 0.05
"""Share of a throughput that is taken for its uncertainty where there is no interval: it decides the digits alone."""


def limit_unit(answer: Answer) -> Unit:
    """One unit for the limit and all peaks."""
    peaks = [peak for row in answer.rows for peak in (row.peak_allocated_bytes, row.next_peak_bytes)]
    return memory_unit([answer.spec.limit_bytes, *peaks])


def relative_text(throughput: Throughput | None, is_none: bool = False) -> str:
    """`93 ± 2 %` of the throughput of `none` at its own largest size; a wide one by the ends of its interval."""
    if throughput is None or throughput.relative is None:
        return ABSENT
    if is_none:
        return "100 %"
    percent = 100 * throughput.relative
    if throughput.relative_interval is None:
        return f"{percent:.0f} ± ? %"
    low, high = (100 * end for end in throughput.relative_interval)
    width = max(Interval(low=low, high=high).arm(percent), MIN_WIDTH)
    if width > WIDE_SHARE * percent:
        return f"{percent:.0f} ({low:.0f}–{high:.0f}) %"
    decimals = supported_decimals(width)
    return f"{percent:.{decimals}f} ± {width:.{decimals}f} %"


def rate_text(throughput: Throughput | None) -> str:
    """Tokens, images or samples a second, with the digits that its interval supports, at most four."""
    if throughput is None:
        return ABSENT
    rate = throughput.units_per_s
    interval = throughput.units_per_s_interval
    width = UNKNOWN_UNCERTAINTY * rate
    if interval is not None:
        width = Interval(low=interval[0], high=interval[1]).arm(rate)
    four_digits = 0 if rate >= 1000 else 1 if rate >= 100 else 2 if rate >= 10 else 3
    return f"{rate:,.{min(supported_decimals(width), four_digits)}f}"


def margin_text(row: Capacity, unit: Unit) -> str:
    """Bytes from the peak up to the limit."""
    return ABSENT if row.margin_bytes is None else unit.text(row.margin_bytes)


def next_text(row: Capacity, unit: Unit) -> str:
    """`13: 4110 MiB`, what the next size takes; in words where its peak is not known."""
    if row.next_size is None:
        return "bound" if row.ended == AT_BOUND else ABSENT
    if row.next_peak_bytes is not None:
        return f"{row.next_size}: {unit.text(row.next_peak_bytes)}"
    return f"{row.next_size}: {NEXT_WORDS.get(row.next_outcome or '', row.next_outcome or 'not tried')}"


def families(answer: Answer) -> dict[str, str]:
    """Placement → its family; a twin is shown as the placement that it stands for."""
    labels = {row.placement: row.generators for row in answer.rows}
    found = {}
    for text, generators in labels.items():
        original = next((label.removeprefix(TWIN) for label in generators if label.startswith(TWIN)), text)
        found[text] = family_of(labels.get(original, generators))
    return found


def shortening(answer: Answer) -> Shortening:
    """How placements are written in everything that shows this answer."""
    texts = [entry.text for entry in answer.spec.placements] + [row.placement for row in answer.rows]
    return shorten(dict.fromkeys(texts), _names(answer))


def explanations(answer: Answer, way: Shortening) -> list[str]:
    """Sentences that tell how to read placements back."""
    told = dataclasses.replace(way, names={}).explanations()
    spec = answer.spec
    if spec.axis.kind == MODEL:
        told.append(
            f"placements are written as in the model with {spec.axis.name} {spec.start}; what a generator made is made "
            "anew for each size"
        )
    if way.names:
        told.append("long placements are shown by what planned them: their texts are in answer.csv")
    return told


def _names(answer: Answer) -> Mapping[str, str]:
    """Names of long placements, as a study gives them: by what planned them."""
    known = {entry.text: entry for entry in answer.spec.placements}
    return long_names(
        [
            Trial(placement=entry.text, id=entry.id, generators=entry.generators, twin_of=entry.twin_of, outcome="ok")
            for entry in known.values()
        ]
    )


def sentences(texts: Iterable[str]) -> str:
    """One paragraph of sentences, each with a capital and a full stop."""
    told = [text[0].upper() + text[1:] for text in texts if text]
    return " ".join(text if text[-1] in ".!?" else f"{text}." for text in told)


def worded(text: str, answer: Answer, way: Shortening) -> str:
    """A sentence of the answer with its placements as the table has them."""
    return named(text, {row.placement: way.label(row.placement) for row in answer.rows})
