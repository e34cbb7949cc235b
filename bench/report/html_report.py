"""One page a study: its frontier to point at, and for each placement the evidence and the memory over one step.

The page needs nothing but itself: the study is inside it as JSON, the program is plain JavaScript (`html_report_*.js`),
and its own policy lets it load nothing and run no other script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from bench.frontier import OK
from bench.frontier.types import Frontier
from bench.records import AuditRecord, Records, kept_samples, read_records, replace_text
from bench.records.timeline import Timelines, read_timelines
from bench.report.caption import caption
from bench.report.frontier_data import frontier_data
from bench.report.html_colours import family_looks, style_of
from bench.report.html_evidence import as_data, evidence_of
from bench.report.html_points import Column, Point, axes_data, columns_of, points_of, search_text
from bench.report.html_timelines import category_data, origin_of, timeline_data, why_none
from bench.report.memory_html import as_script_json
from bench.report.names import long_names, named
from bench.spec import StudySpec, flat_controls
from bench.stats import paired_ratios

REPORT_FILE = "report.html"
PARTS = ("base", "plot", "memory", "detail", "page")
"""Of the program, in the order in which they stand in the page."""
RATIO_DIGITS = 5


def write_html_report(folder: Path, directory: Path, study: StudySpec, frontier: Frontier) -> Path:
    """Writes `report.html` into `folder`, which need not exist, and returns its path.

    Args:
        directory: the study's own, whose records, forecasts and timelines are read; nothing is written there unless
            `folder` is in it.

    Raises:
        DamagedStudyError: the study's records cannot be read at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / REPORT_FILE
    replace_text(path, html_report(study, frontier, read_records(directory), read_timelines(directory)))
    return path


def html_report(study: StudySpec, frontier: Frontier, records: Records, timelines: Timelines) -> str:
    """The page. The same study gives the same text."""
    # Here, so that what prints a table does not wait for seaborn.
    from bench.report.frontier_plot import family_markers
    from bench.report.page import FAILURE_COLOUR

    data = frontier_data(frontier)
    points, columns = points_of(frontier, data), columns_of(frontier)
    looks = family_looks(family_markers())
    content = {
        "families": [{"name": look.name, "shape": look.shape, "scale": look.scale} for look in looks],
        "axes": [axes_data(panel, points, number) for number, panel in enumerate(data.panels)],
        "categories": category_data(),
        "placements": _placements(points, study, frontier, records, timelines),
    }
    style = _asset("css") + style_of(looks, FAILURE_COLOUR)
    script = "\n".join(_asset("js", part) for part in PARTS)
    values = {
        "policy": html.escape(_policy(style, script)),
        "title": html.escape(f"{frontier.study}: {frontier.model} on {frontier.device}"),
        "style": style,
        "heading": html.escape(frontier.study),
        "headline": html.escape(data.headline),
        "caption": html.escape(caption(study, frontier, data.prefix)),
        "notes": _notes(frontier),
        "table": _table(columns, points),
        "controls": _controls(study),
        "data": as_script_json(content),
        "script": script,
    }
    # In one pass, so that a name with a mark in it stays a name.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], _asset("html"))


def _asset(suffix: str, part: str = "") -> str:
    name = f"html_report_{part}.{suffix}" if part else f"html_report.{suffix}"
    return resources.files("bench.report").joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, and the style and the program are the ones that were written: others are not run."""
    own = f"style-src {_digest(style)}; script-src {_digest(script)}"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    """Of an inline element whose text this is, as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _placements(
    points: Sequence[Point], study: StudySpec, frontier: Frontier, records: Records, timelines: Timelines
) -> list[dict[str, Any]]:
    audits: dict[str, AuditRecord] = {record.placement: record for record in records.of(AuditRecord)}
    rounds = _rounds(frontier, records)
    found = []
    for point in points:
        trial = point.trial
        timeline = timelines.placements.get(trial.placement)
        found.append(
            {
                "id": trial.id,
                "text": trial.placement,
                "label": point.label,
                "tag": point.tag,
                "family": point.family,
                "isValid": trial.outcome == OK,
                "onFrontier": trial.placement in frontier.frontier,
                "isKnee": trial.placement == frontier.knee,
                "isReference": trial.placement == frontier.reference,
                "search": search_text(point),
                "brief": point.brief,
                "evidence": as_data(evidence_of(trial, frontier, study, audits.get(trial.placement))),
                "rounds": rounds.get(trial.placement, []),
                "interval": [trial.time_ratio_interval.low, trial.time_ratio_interval.high]
                if trial.time_ratio_interval
                else None,
                "timeline": timeline_data(timeline) if timeline else None,
                "origin": origin_of(timeline, records.forecasts, trial.peak_allocated_bytes)
                if timeline
                else why_none(trial.placement, study, records.forecasts, timelines),
            }
        )
    return found


def _rounds(frontier: Frontier, records: Records) -> dict[str, list[float]]:
    """Of each scored placement, its step time over the reference's in each round: what its ratio rests on."""
    if frontier.reference is None:
        return {}
    scored = {trial.placement for trial in frontier.trials if trial.outcome == OK}
    samples = [sample for sample in kept_samples(records) if sample.placement in scored]
    ratios = paired_ratios(samples, frontier.reference)
    return {text: [round(math.exp(ratio.log_ratio), RATIO_DIGITS) for ratio in of] for text, of in ratios.items()}


def _notes(frontier: Frontier) -> str:
    names = long_names(frontier.trials)
    notes = "".join(f"<li>{html.escape(named(note, names))}</li>" for note in frontier.notes)
    return f"<ul>{notes}</ul>" if notes else ""


def _table(columns: Sequence[Column], points: Sequence[Point]) -> str:
    """Whole without the program, which makes it sortable: a cell's key is what it is sorted by."""
    heads = "".join(
        f"<th scope=col{' class=number' if column.is_number else ''}>{html.escape(column.title)}</th>"
        for column in columns
    )
    rows = "".join(
        f"<tr data-index={index}>"
        + "".join(
            f"<td{' class=number' if column.is_number else ''}{_key(cell.key)}>{html.escape(cell.text)}</td>"
            for column, cell in zip(columns, point.cells, strict=True)
        )
        + "</tr>\n"
        for index, point in enumerate(points)
    )
    return f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>"


def _key(key: float | str | None) -> str:
    return "" if key is None else f' data-key="{html.escape(str(key))}"'


def _controls(study: StudySpec) -> str:
    """All that was held fixed, as a table."""
    flat: Mapping[str, object] = flat_controls(study.controls)
    rows = "".join(
        f"<tr><th scope=row>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>\n"
        for name, value in flat.items()
    )
    return f"<tbody>\n{rows}</tbody>"
