"""The Markdown descriptions of a capacity's run and of its placements' runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from bench.capacity.reading import (
    ENDED_WORDS,
    NEXT_WORDS,
    beside_others,
    heading,
    on_frontier,
    rows_with_size,
    rows_without_size,
    size_words,
    times_text,
    unreached_hint,
)
from bench.capacity.types import ASKED, AT_BOUND, MICRO_BATCH, Answer, Capacity, Throughput
from bench.capacity.words import MIB, four_digits
from bench.records import PLAIN
from bench.track.markdown import code, cut, escape

MAX_REASON = 2000
COLUMNS = ("times none's", "of none's throughput", "verdict", "peak", "left", "next size and its peak")
REST = "\n\nThe rest is in the artifact `answer.md`."


def describe_capacity(answer: Answer, directory_name: str, links: Sequence[str], *, limit: int) -> str:
    """What was asked, the table of sizes, figures, findings, notes, how to reproduce; at most `limit` characters.

    Args:
        links: Markdown of the figures and of other pages of MLflow, a line each.
    """
    spec, facts = answer.spec, answer.spec.controls.facts
    device = f" on {escape(facts.device_name)}" if facts is not None else ""
    lines = [f"**{escape(directory_name)}**: {escape(spec.controls.model.name)}{device}", "", f"{_capital(answer)}."]
    if not answer.is_complete:
        lines += ["", "**Incomplete**: the same command goes on with it, and the answer may change."]
    lines += ["", *_sizes(answer)]
    more = [text for text in (beside_others(answer), unreached_hint(answer)) if text]
    lines += _listed("Findings", [*answer.findings, *more])
    for link in links:
        lines += ["", link]
    lines += _without(answer)
    lines += _listed("Notes", answer.notes)
    lines += ["", "To reproduce:", "", code(reproducing(answer)), "", "To publish again from the directory:", ""]
    lines += [code(f"python -m bench publish {shlex.quote('study=' + ' '.join(directory_name.split()))}")]
    return cut(lines, limit, REST)


def describe_reaching(row: Capacity, answer: Answer, directory_name: str) -> str:
    """How far one placement goes, what it trains there, and what ended its search."""
    title = f"**{escape(row.placement)}** in capacity {escape(directory_name)}"
    ended = escape(ENDED_WORDS.get(row.ended, row.ended))
    reason = f": {escape(row.reason, MAX_REASON)}" if row.reason else ""
    if row.largest is None:
        return f"{title}\n\n**{ended}**{reason}. It has no metrics."
    axis = answer.spec.axis
    lines = [
        title,
        "",
        f"Largest {escape(axis.name)}: **{escape(size_words(axis, row.largest))}**"
        f" ({times_text(row.times_none)} of none's), by {row.num_probes} probes. {ended.capitalize()}{reason}.",
        "",
        "| | |",
        "|---|---|",
        f"| peak allocated | {_mib(row.peak_allocated_bytes)} |",
        f"| forecast | {_mib(row.forecast_bytes)} |",
        f"| left of the limit | {_mib(row.margin_bytes)} |",
        f"| next size and its peak | {_next(row)} |",
    ]
    if row.throughput is not None:
        lines.append(f"| {escape(answer.unit)} a second | {_rate(row.throughput)} |")
        lines.append(f"| of none's throughput at its own largest size | {_share(row.throughput)} |")
    at = [(multiple, other) for multiple in answer.at_multiples for other in multiple.rows]
    lines += [
        f"| at {times_text(float(multiple.multiple))} none's size ({other.size}) "
        f"| {_share(other.throughput)} of none's throughput |"
        for multiple, other in at
        if other.placement == row.placement
    ]
    if on_frontier(answer, row):
        lines += ["", "On the frontier: nothing timed is both larger and has more throughput."]
    return "\n".join(lines)


def reproducing(answer: Answer) -> str:
    """The command that asks the same of the model with its default controls; all controls are in `capacity.json`."""
    spec = answer.spec
    options = [f"model={spec.controls.model.name}", f"axis={spec.axis.name}", f"precision={spec.controls.precision}"]
    if spec.controls.model.name == "custom":
        options.append(f"model.target={spec.controls.model.target}")
    if spec.limit_source == ASKED:
        mib, rest = divmod(spec.limit_bytes, MIB)
        options.append(f"limit={spec.limit_bytes}B" if rest else f"limit={mib}MiB")
    if spec.headroom:
        options.append(f"headroom={100 * spec.headroom:g}%")
    if spec.keep != MICRO_BATCH:
        options.append(f"keep={spec.keep}")
    if spec.evaluation:
        options.append("evaluation=true")
    options.append(f"multiple={spec.axis.multiple}")
    return "python -m bench capacity " + " ".join(shlex.quote(" ".join(option.split())) for option in options)


def _capital(answer: Answer) -> str:
    text = escape(heading(answer), limit=None)
    return text[0].upper() + text[1:]


def _sizes(answer: Answer) -> list[str]:
    rows = rows_with_size(answer)
    if not rows:
        return ["No placement was found to fit at any size."]
    head = ("placement", f"largest {answer.spec.axis.name}", f"{answer.unit} a second", *COLUMNS)
    lines = [f"| {' | '.join(map(escape, head))} |", "|---" * len(head) + "|"]
    for row in rows:
        is_none = row.placement == PLAIN
        cells = (
            escape(row.placement),
            str(row.largest),
            _rate(row.throughput),
            times_text(row.times_none),
            "100 %" if is_none else _share(row.throughput),
            "" if row.throughput is None or is_none else escape(row.throughput.verdict),
            _mib(row.peak_allocated_bytes),
            _mib(row.margin_bytes),
            _next(row),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _without(answer: Answer) -> list[str]:
    rows = rows_without_size(answer)
    if not rows:
        return []
    lines = ["", "Without a size:", "", "| placement | ended | why |", "|---|---|---|"]
    return lines + [
        f"| {escape(row.placement)} | {escape(ENDED_WORDS.get(row.ended, row.ended))} | {escape(row.reason)} |"
        for row in rows
    ]


def _listed(title: str, texts: Sequence[str]) -> list[str]:
    return ["", f"{title}:", "", *(f"- {escape(text, limit=None)}" for text in texts)] if texts else []


def _next(row: Capacity) -> str:
    """`13: 4110.2 MiB`; why it does not fit, where its peak is not known."""
    if row.next_size is None:
        return "the bound of the search" if row.ended == AT_BOUND else ""
    word = NEXT_WORDS.get(row.next_outcome or "", row.next_outcome or "")
    return f"{row.next_size}: {_mib(row.next_peak_bytes) or escape(word)}"


def _share(throughput: Throughput | None) -> str:
    """`88.0 % [87.7, 88.3]`; empty where it was not paired with none."""
    if throughput is None or throughput.relative is None:
        return ""
    interval = throughput.relative_interval
    ends = "" if interval is None else f" \\[{100 * interval[0]:.1f}, {100 * interval[1]:.1f}\\]"
    return f"{100 * throughput.relative:.1f} %{ends}"


def _rate(throughput: Throughput | None) -> str:
    return "" if throughput is None else four_digits(throughput.units_per_s)


def _mib(num_bytes: int | None) -> str:
    return "" if num_bytes is None else f"{num_bytes / MIB:.1f} MiB"
