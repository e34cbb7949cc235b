"""A choice from a capacity answer in sentences, as a person reads it."""

from __future__ import annotations

from bench.capacity.reading import limit_words, size_words
from bench.capacity.types import Answer
from bench.decide.capacity import NOTHING_FITS, TOO_LARGE, USE_NONE, CapacityChoice, Reaching
from bench.records import PLAIN
from bench.report.capacity_words import limit_unit, rate_text, relative_text


def choice_text(said: CapacityChoice, answer: Answer) -> str:
    """The answer, its figures, the runner-up, who goes furthest, notes."""
    lines = [_headline(said, answer)]
    if said.chosen is not None:
        lines.append(_figures(said.chosen, answer))
    if said.runner_up is not None:
        lines += [f"runner-up: {said.runner_up.placement}", _figures(said.runner_up, answer)]
    shown = [one.placement for one in (said.chosen, said.runner_up) if one is not None]
    if said.furthest is not None and said.furthest.placement not in shown:
        furthest = f"{said.furthest.placement} ({size_words(answer.spec.axis, said.furthest.largest)})"
        lines += [f"goes furthest: {furthest}", _figures(said.furthest, answer)]
    return "\n".join(lines + [f"note: {note}" for note in said.notes])


def _headline(said: CapacityChoice, answer: Answer) -> str:
    axis, within = answer.spec.axis, limit_words(answer.spec)
    if said.kind == NOTHING_FITS:
        return f"no placement was shown to fit {within} at any {axis.name}: {said.reason}"
    if said.kind == TOO_LARGE:
        assert said.furthest is not None
        assert said.size is not None
        return (
            f"no placement was shown to train {axis.name} {said.size} within {within}; the furthest goes to "
            f"{said.furthest.largest}"
        )
    assert said.chosen is not None
    if said.size is not None:
        if said.kind == USE_NONE:
            return f"none already trains {axis.name} {said.size} within {within}: use none"
        return f"use {said.chosen.placement}"
    if said.kind == USE_NONE:
        return f"no placement is shown to have more throughput than none within {within}: use none"
    return f"use {said.chosen.placement} at {axis.name} {said.chosen.size}"


def _figures(one: Reaching, answer: Answer) -> str:
    unit = limit_unit(answer)
    reaches = f"fits up to {size_words(answer.spec.axis, one.largest)}"
    if one.margin_bytes is not None:
        reaches += f", {unit.text(one.margin_bytes)} {unit.name} left there"
    parts = [_throughput(one, answer), reaches]
    if not one.was_run:
        parts.append(f"{one.size} itself was not run, {one.largest} was")
    return "  " + "; ".join(parts)


def _throughput(one: Reaching, answer: Answer) -> str:
    if one.timed is None:
        return "not timed"
    throughput = one.timed.throughput
    at = "" if one.timed.size == one.size else f", timed at {one.timed.size}"
    rate = f"{rate_text(throughput)} {answer.unit} a second"
    if one.placement == PLAIN and throughput.relative == 1.0:
        return f"{rate}{at}"
    share = relative_text(throughput)
    of = f", {share} of none's at its own largest ({throughput.verdict})" if throughput.relative is not None else ""
    return f"{rate}{of}{at}"
