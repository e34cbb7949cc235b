"""A capacity answer as rows for CSV and JSON, and as Markdown for a report."""

from __future__ import annotations

import csv
import io
from typing import Any

from bench.capacity.reading import (
    ENDED_WORDS,
    beside_others,
    follows_accumulation,
    heading,
    rows_with_size,
    rows_without_size,
    times_text,
)
from bench.capacity.types import Answer, Capacity, Throughput
from bench.records import PLAIN
from bench.report.capacity_words import limit_unit, margin_text, next_text, rate_text, relative_text
from bench.report.evidence_data import EvidenceTable
from bench.report.evidence_text import as_markdown

LARGEST = "largest"
"""What a row is timed at: the placement's own largest size; else a multiple of none's, `2x`."""


def capacity_rows(answer: Answer) -> list[dict[str, Any]]:
    """A row a placement at its own largest size, then one for each placement at each multiple. Unmeasured is None."""
    rows = [_row(answer, row, LARGEST, row.largest, row.throughput) for row in answer.rows]
    of = {row.placement: row for row in answer.rows}
    rows += [
        _row(answer, of[at_size.placement], f"{at.multiple}x", at_size.size, at_size.throughput)
        for at in answer.at_multiples
        for at_size in at.rows
    ]
    return rows


def capacity_csv(answer: Answer) -> str:
    """`capacity_rows` with a line of names; what was not measured is an empty cell."""
    rows = capacity_rows(answer)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["placement"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def capacity_markdown(answer: Answer) -> str:
    """Heading, table of placements, multiples, findings and notes; names are never markup."""
    unit = limit_unit(answer)
    spec, facts = answer.spec, answer.spec.controls.facts
    device = f" on {facts.device_name}" if facts is not None else ""
    parts = [f"# {spec.name}{device}: {heading(answer)}\n"]
    columns = [
        *("placement", f"largest {spec.axis.name}", "times none's"),
        *(["accumulated"] if follows_accumulation(answer) else []),
        *(f"{answer.unit} a second", "of none's throughput", "verdict"),
        *(f"peak, {unit.name}", f"left, {unit.name}", f"next size: its peak, {unit.name}", "ended"),
    ]
    body = tuple(
        (
            row.placement,
            str(row.largest),
            times_text(row.times_none),
            *([str(row.accumulation)] if follows_accumulation(answer) else []),
            rate_text(row.throughput),
            relative_text(row.throughput, is_none=row.placement == PLAIN),
            "" if row.throughput is None or row.placement == PLAIN else row.throughput.verdict,
            unit.text(row.peak_allocated_bytes),
            margin_text(row, unit),
            next_text(row, unit),
            ENDED_WORDS.get(row.ended, row.ended),
        )
        for row in rows_with_size(answer)
    )
    parts.append(_table(answer, tuple(columns), body))
    without = tuple((r.placement, ENDED_WORDS.get(r.ended, r.ended), r.reason) for r in rows_without_size(answer))
    if without:
        parts.append(_table(answer, ("no size", "ended", "why"), without))
    parts += _multiples(answer)
    for title, texts in (("Findings", answer.findings), ("Notes", answer.notes)):
        if texts:
            parts.append(f"## {title}\n\n" + "".join(f"- {text}\n" for text in texts))
    return "\n".join(parts)


def _multiples(answer: Answer) -> list[str]:
    rows = tuple(
        (
            times_text(float(at.multiple)),
            str(row.size),
            row.placement,
            rate_text(row.throughput),
            relative_text(row.throughput),
            row.throughput.verdict,
        )
        for at in answer.at_multiples
        for row in at.rows
    )
    if not rows:
        return []
    columns = ("times none's", "size", "placement", f"{answer.unit} a second", "of none's throughput", "verdict")
    said = "".join(f"{text[0].upper()}{text[1:]}.\n" for text in [beside_others(answer)] if text)
    table = _table(answer, columns, rows)
    return ["## At multiples of none's largest size\n", table, *([said] if said else [])]


def _row(answer: Answer, row: Capacity, at: str, size: int | None, throughput: Throughput | None) -> dict[str, Any]:
    """What is known of the placement's peak is known of its own largest size alone."""
    is_own = at == LARGEST
    none = next((other.largest for other in answer.rows if other.placement == PLAIN), None)
    points = {(point.placement, point.size) for point in answer.frontier}
    return {
        "placement": row.placement,
        "generators": " | ".join(row.generators),
        "at": at,
        "size": size,
        "times_none": None if size is None or none is None else size / none,
        "ended": row.ended,
        "reason": row.reason,
        "accumulation": row.accumulation if is_own else None,
        "peak_allocated_bytes": row.peak_allocated_bytes if is_own else None,
        "peak_reserved_bytes": row.peak_reserved_bytes if is_own else None,
        "forecast_bytes": row.forecast_bytes if is_own else None,
        "margin_bytes": row.margin_bytes if is_own else None,
        "next_size": row.next_size if is_own else None,
        "next_outcome": row.next_outcome if is_own else None,
        "next_peak_bytes": row.next_peak_bytes if is_own else None,
        "next_reason": row.next_reason if is_own else None,
        "holes": " ".join(map(str, row.holes)) if is_own else None,
        "num_probes": row.num_probes if is_own else None,
        "unit": answer.unit,
        "on_frontier": str((row.placement, size) in points).lower(),
    } | _throughput_cells(throughput)


def _throughput_cells(of: Throughput | None) -> dict[str, Any]:
    low, high = (None, None) if of is None or of.units_per_s_interval is None else of.units_per_s_interval
    relative_low, relative_high = (None, None) if of is None or of.relative_interval is None else of.relative_interval
    return {
        "rounds": None if of is None else of.rounds,
        "samples_per_step": None if of is None else of.samples_per_step,
        "units_per_step": None if of is None else of.units_per_step,
        "step_time_ms": None if of is None else of.step_time_ms,
        "samples_per_s": None if of is None else of.samples_per_s,
        "units_per_s": None if of is None else of.units_per_s,
        "units_per_s_low": low,
        "units_per_s_high": high,
        "relative": None if of is None else of.relative,
        "relative_low": relative_low,
        "relative_high": relative_high,
        "verdict": None if of is None else of.verdict,
        "verdict_reason": None if of is None else of.verdict_reason,
    }


def _table(answer: Answer, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    return as_markdown(EvidenceTable(study=answer.spec.name, columns=columns, rows=rows))
