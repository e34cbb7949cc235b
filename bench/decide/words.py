"""A recommendation in sentences, as a person reads it."""

from __future__ import annotations

from bench.decide.card import ASSUMED, ASSUMED_SHARE, MEASURED, CardRoom
from bench.decide.types import (
    LEAST,
    NOTHING_FITS,
    NOTHING_MEASURED,
    PERSISTENT_EXCEEDS,
    USE,
    USE_NONE,
    Candidate,
    Recommendation,
)
from bench.report.quantities import Unit, memory_unit, ratio_text, share_text


def recommendation_text(said: Recommendation, card: CardRoom | None) -> str:
    """Several lines: how the budget came about, the answer, its figures, the runner-up, notes."""
    memory = memory_unit([c.peak_allocated_bytes for c in (said.chosen, said.lowest, said.runner_up) if c])
    lines = [] if card is None else [card_text(card), ""]
    lines += [_headline(said, memory)]
    if said.chosen is not None:
        lines += [_figures(said.chosen, said, memory), _sure(said.chosen, said)]
    if said.runner_up is not None:
        # In no resample it is the answer: then it is what would come next.
        name, share = "next best", ""
        if said.runner_up.share:
            name, share = "runner-up", f"; the answer in {share_text(said.runner_up.share, 0)}"
        lines += [f"{name}: {said.runner_up.placement}", _figures(said.runner_up, said, memory) + share]
    return "\n".join(lines + [f"note: {note}" for note in said.notes])


def card_text(card: CardRoom) -> str:
    """`22.35 GiB card − 0.59 context (approximate) − 1.09 reserved beyond allocated (forecast) = 20.67 GiB …`."""
    memory = memory_unit([card.memory_bytes])
    source = {
        MEASURED: "measured, the largest of all placements",
        ASSUMED: f"assumed: {share_text(ASSUMED_SHARE, 0)}, as no GPU's was measured or forecast",
    }.get(card.overhead_source, "forecast, the largest of all placements")
    return (
        f"{memory.text(card.memory_bytes)} {memory.name} card "
        f"− {memory.text(card.context_bytes)} context (approximate) "
        f"− {memory.text(card.reserved_overhead_bytes)} reserved beyond allocated ({source}) "
        f"= {memory.text(card.budget_bytes)} {memory.name} for tensors"
    )


def _headline(said: Recommendation, memory: Unit) -> str:
    budget = said.wish.budget_bytes
    asked = "" if budget is None else _size(budget)
    if said.kind == NOTHING_MEASURED:
        return f"nothing was measured in {said.study} yet: go on with the sweep"
    if said.kind == PERSISTENT_EXCEEDS:
        persistent = memory.text(said.persistent_bytes)
        return (
            f"no placement can fit {asked}: parameters, optimizer state and batches alone take {persistent} "
            f"{memory.name}; take an optimizer with less state, or shard it"
        )
    if said.kind == NOTHING_FITS:
        assert said.lowest is not None
        assert budget is not None
        return (
            f"no measured placement fits {asked}; the lowest is {said.lowest.placement} with "
            f"{memory.text(said.lowest.peak_allocated_bytes)} {memory.name}; plan one with python -m bench plan "
            f"study={said.study} budget={_option(budget)}"
        )
    if said.chosen is None:
        return "no measured placement is as fast as that"
    if said.kind == USE_NONE:
        if budget is not None:
            return f"none already fits {asked}: use none"
        return "no placement lowers the peak at that price: use none"
    if said.kind == LEAST:
        return f"the frontier has no knee; its lowest peak: use {said.chosen.placement}"
    assert said.kind == USE
    return f"use {said.chosen.placement}"


def _size(num_bytes: int) -> str:
    unit = memory_unit([num_bytes])
    return f"{unit.text(num_bytes)} {unit.name}"


def _option(num_bytes: int) -> str:
    """As a budget is written on a command line, rounded down by less than 1 %."""
    units = (("MiB", 2**20), ("KiB", 2**10), ("B", 1))
    name, size = next((unit for unit in units if num_bytes >= 100 * unit[1]), units[-1])
    return f"{num_bytes // size}{name}"


def _figures(candidate: Candidate, said: Recommendation, memory: Unit) -> str:
    is_reference = candidate.placement == said.reference
    ratio = ratio_text(candidate.time_ratio, candidate.interval, is_reference)
    of = "" if is_reference else f" of {said.reference}"
    parts = [f"step time {ratio}{of}", f"peak {memory.text(candidate.peak_allocated_bytes)} {memory.name}"]
    if said.wish.budget_bytes is not None and candidate.peak_allocated_bytes <= said.wish.budget_bytes:
        parts.append(f"{_size(said.wish.budget_bytes - candidate.peak_allocated_bytes)} to spare")
    if candidate.placement != "none":
        parts.append(f"replay {candidate.audit}" if candidate.audit else "replay not audited")
    return "  " + ", ".join(parts)


def _sure(candidate: Candidate, said: Recommendation) -> str:
    if said.kind == USE_NONE and said.wish.budget_bytes is not None:
        return "  how sure: certain, as its peak is exact"
    if candidate.share is None:
        return "  how sure: unknown, too few rounds: its time is a guess; go on with a larger caps.time_cap_s"
    return f"  how sure: the answer in {share_text(candidate.share, 0)} of resamples of the rounds"
