"""The sentences that a reader of a comparison must know: a closed set, and the one place that words them."""

from __future__ import annotations

from collections.abc import Sequence

from bench.compare.types import Entrant, Measured, Pairing
from bench.frontier import PENDING
from bench.frontier.words import count, names
from bench.records import PLAIN
from bench.records.work import FRESH


def comparison_notes(
    studies: Sequence[Measured], entrants: Sequence[Entrant], pairings: Sequence[Pairing]
) -> tuple[str, ...]:
    return (
        *_unlike(pairings),
        *_same_key(entrants[0], pairings),
        *_other_references(entrants),
        *_unmeasured(studies, entrants),
        *_without_rounds(entrants),
        *_drifted(entrants),
        *_single_processes(studies, entrants),
    )


def _unlike(pairings: Sequence[Pairing]) -> list[str]:
    return [
        f"{pairing.label}: absolute peaks and times are not like for like: {', '.join(pairing.unlike)}"
        for pairing in pairings
        if pairing.unlike
    ]


def _same_key(baseline: Entrant, pairings: Sequence[Pairing]) -> list[str]:
    same = [pairing.label for pairing in pairings if pairing.same_key]
    if not same:
        return []
    return [f"{names(same)}: the same controls as {baseline.label}; what differs lies outside them, such as the commit"]


def _other_references(entrants: Sequence[Entrant]) -> list[str]:
    """A ratio to another placement is another ratio."""
    odd = [e for e in entrants if e.reference is not None and e.reference != PLAIN]
    return [
        f"{e.label}: times are relative to {e.reference}, for none has no time"
        + (", and peaks to the forecast of none" if e.plain_is_forecast else "")
        for e in odd
    ]


def _unmeasured(studies: Sequence[Measured], entrants: Sequence[Entrant]) -> list[str]:
    told = []
    for measured, entrant in zip(studies, entrants, strict=True):
        pending = sum(trial.outcome == PENDING for trial in measured.frontier.trials)
        if not entrant.relative.points:
            told.append(f"{entrant.label}: nothing was measured that is valid")
        elif pending:
            told.append(f"{entrant.label}: {count(pending)} not measured yet")
    return told


def _without_rounds(entrants: Sequence[Entrant]) -> list[str]:
    without = [entrant.label for entrant in entrants if not entrant.has_rounds]
    if not without:
        return []
    return [
        f"{names(without)}: only the published frontier is here, so what needs rounds is left out: intervals of "
        "hypervolumes and of absolute times, and how stable the knee is"
    ]


def _drifted(entrants: Sequence[Entrant]) -> list[str]:
    return [
        f"{e.label}: the step time of its reference drifted by {100 * e.drift:.0f} %: no verdict on absolute times"
        for e in entrants
        if e.drift
    ]


def _single_processes(studies: Sequence[Measured], entrants: Sequence[Entrant]) -> list[str]:
    """`protocol.process=fresh` has a process for each sample."""
    single = [
        entrant.label
        for measured, entrant in zip(studies, entrants, strict=True)
        if entrant.executions == 1 and measured.frontier.controls.get("protocol.process") != FRESH
    ]
    if not single:
        return []
    return [
        f"{names(single)}: measured by one process, so intervals of absolute times do not know how much one process, "
        "or one hour, differs from another (protocol.executions=2 and more do)"
    ]
