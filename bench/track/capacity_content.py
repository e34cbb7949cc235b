"""What the runs of a capacity hold: the parent's, and that of one placement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.capacity.reading import on_frontier
from bench.capacity.store import ANSWER_FILE, ANSWER_TABLE_FILE, SPEC_FILE
from bench.capacity.types import GLOBAL_BATCH, Answer, Capacity, Throughput
from bench.records import PLAIN
from bench.spec import flat_controls
from bench.track.capacity_note import describe_capacity, describe_reaching
from bench.track.capacity_view import LARGEST, MARGIN, RATE, RELATIVE, TIMES_NONE, capacity_view_link
from bench.track.content import MAX_PARAM_VALUE, MAX_TAG_VALUE, RunContent, fitted, measured, option_params, short_name
from bench.track.markdown import figure, link
from bench.track.placement_run import filter_controls, shape_of_placement
from bench.track.tags import KIND, NOTE, PARENT_RUN, PLACEMENT_ID, PROGRAM, SOURCE, SOURCE_COMMIT
from bench.track.times import Span

CAPACITY_IDENTITY = "boundary_bench.capacity"
CAPACITY_KIND, REACHING_KIND = "capacity", "capacity-placement"
FIGURES = (("Throughput against size", "plots/throughput.png"), ("How far each placement goes", "plots/sizes.png"))
FILES = (SPEC_FILE, ANSWER_FILE, ANSWER_TABLE_FILE, "answer.md", "probes.jsonl")
MIB = 2**20


def capacity_content(
    directory: Path, answer: Answer, span: Span, *, identity: str, experiment_id: str, run_id: str | None
) -> RunContent:
    """What the parent run holds; its status is FAILED while any placement lacks its answer.

    Args:
        run_id: of the run itself, whose description shows the figures by it; None until there is one.
    """
    params, texts = option_params(_params(answer))
    files = _files(directory)
    links = [figure(title, name, run_id) for title, name in FIGURES if run_id is not None and name in files]
    links.append(link("All capacities of this experiment as a chart", capacity_view_link(experiment_id, charts=True)))
    commit = answer.spec.recorded.get("git_commit", "")
    return RunContent(
        name=short_name(directory.name, answer.spec.key),
        span=span,
        status="FINISHED" if answer.is_complete else "FAILED",
        identity={CAPACITY_IDENTITY: identity, KIND: CAPACITY_KIND},
        params=params,
        metrics=_metrics(answer),
        tags={
            "capacity": directory.name,
            "control_key": answer.spec.key,
            "completeness": "complete" if answer.is_complete else "partial",
            NOTE: describe_capacity(answer, directory.name, links, limit=MAX_TAG_VALUE),
            SOURCE: PROGRAM,
        }
        | ({"git_commit": commit, SOURCE_COMMIT: commit} if commit else {}),
        texts=texts,
        files=files,
    )


def reaching_content(
    row: Capacity, answer: Answer, directory: Path, span: Span, *, identity: str, parent_run_id: str
) -> RunContent:
    """What the child run of one placement holds; one without a size holds no metric at all."""
    placement_id = id_of(answer, row.placement)
    placement, texts = fitted("placement", row.placement, MAX_PARAM_VALUE, placement_id)
    reason, more = fitted("reason", row.reason, MAX_TAG_VALUE, row.reason[:200])
    controls, control_texts = option_params(_filters(answer))
    throughput = row.throughput
    judged = {} if throughput is None or row.placement == PLAIN else {"verdict": throughput.verdict}
    if judged and throughput is not None and throughput.verdict_reason:
        judged["verdict_reason"] = throughput.verdict_reason[:MAX_TAG_VALUE]
    return RunContent(
        name=short_name(row.placement, placement_id),
        span=span,
        status="FAILED" if row.largest is None else "FINISHED",
        identity={CAPACITY_IDENTITY: identity, KIND: REACHING_KIND, PLACEMENT_ID: placement_id},
        params=controls | shape_of_placement(row.placement) | {"placement": placement, "placement_id": placement_id},
        metrics=_row_metrics(row, answer) if row.largest is not None else {},
        tags={
            PARENT_RUN: parent_run_id,
            "capacity": directory.name,
            "control_key": answer.spec.key,
            "ended": row.ended,
            "on_frontier": str(on_frontier(answer, row)).lower(),
            "generators": fitted("generators", ", ".join(row.generators), MAX_TAG_VALUE, "many")[0],
            SOURCE: PROGRAM,
            NOTE: describe_reaching(row, answer, directory.name)[:MAX_TAG_VALUE],
        }
        | judged
        | ({"reason": reason} if reason else {}),
        texts=texts | more | control_texts,
    )


def id_of(answer: Answer, placement: str) -> str:
    """The short id that the spec has for it."""
    return next(entry.id for entry in answer.spec.placements if entry.text == placement)


def _params(answer: Answer) -> dict[str, object]:
    """The controls without what grows, and what was asked."""
    grows, controls = _grows(answer), flat_controls(answer.spec.controls)
    return {name: value for name, value in controls.items() if name not in grows} | _asked(answer)


def _asked(answer: Answer) -> dict[str, object]:
    spec = answer.spec
    return {
        "capacity.axis": spec.axis.name,
        "capacity.multiple": spec.axis.multiple,
        "capacity.start": spec.start,
        "capacity.limit_bytes": spec.limit_bytes,
        "capacity.limit_source": spec.limit_source,
        "capacity.headroom": spec.headroom,
        "capacity.keep": spec.keep,
        "capacity.evaluation": spec.evaluation,
        "capacity.largest": spec.largest,
    }


def _filters(answer: Answer) -> dict[str, object]:
    """What a person filters and groups placements by; sizes that grow are metrics, and no params."""
    spec = answer.spec
    device = spec.controls.facts.device_name if spec.controls.facts is not None else spec.controls.device.kind
    controls = {k: v for k, v in filter_controls(spec.controls, device).items() if k not in _grows(answer)}
    asked = ("capacity.axis", "capacity.limit_bytes", "capacity.headroom", "capacity.keep")
    return controls | {name: value for name, value in _asked(answer).items() if name in asked}


def _grows(answer: Answer) -> set[str]:
    accumulation = {"workload.accumulation"} if answer.spec.keep == GLOBAL_BATCH else set()
    return {answer.spec.axis.path, *answer.spec.axis.also} | accumulation


def _metrics(answer: Answer) -> Mapping[str, float]:
    reached = [row for row in answer.rows if row.largest is not None]
    none = next((row for row in reached if row.placement == PLAIN), None)
    return measured(
        {
            "capacity/none_largest": None if none is None else none.largest,
            LARGEST: max((row.largest for row in reached if row.largest is not None), default=None),
            TIMES_NONE: max((row.times_none for row in reached if row.times_none is not None), default=None),
            "capacity/probes": sum(row.num_probes for row in answer.rows),
            "frontier/points": len(answer.frontier),
            "placements/reached": len(reached),
            "placements/without_size": len(answer.rows) - len(reached),
        }
        | {
            f"throughput/relative_at_{at.multiple}x": row.throughput.relative
            for at in answer.at_multiples
            for row in at.rows
            if row.placement == at.best
        }
    )


def _row_metrics(row: Capacity, answer: Answer) -> Mapping[str, float]:
    at = {
        f"throughput/relative_at_{multiple.multiple}x": other.throughput.relative
        for multiple in answer.at_multiples
        for other in multiple.rows
        if other.placement == row.placement
    }
    return measured(
        {
            LARGEST: row.largest,
            TIMES_NONE: row.times_none,
            "capacity/accumulation": row.accumulation,
            "capacity/peak_allocated_bytes": row.peak_allocated_bytes,
            "capacity/peak_reserved_bytes": row.peak_reserved_bytes,
            "capacity/forecast_bytes": row.forecast_bytes,
            "capacity/margin_bytes": row.margin_bytes,
            MARGIN: None if row.margin_bytes is None else row.margin_bytes / MIB,
            "capacity/next_size": row.next_size,
            "capacity/next_peak_bytes": row.next_peak_bytes,
            "capacity/probes": row.num_probes,
        }
        | ({} if row.throughput is None else _throughput_metrics(row.throughput))
        | at
    )


def _throughput_metrics(of: Throughput) -> dict[str, float | None]:
    low, high = of.relative_interval or (None, None)
    return {
        RATE: of.units_per_s,
        "throughput/samples_per_s": of.samples_per_s,
        "throughput/step_time_ms": of.step_time_ms,
        RELATIVE: of.relative,
        "throughput/relative_low": low,
        "throughput/relative_high": high,
    }


def _files(directory: Path) -> dict[str, Path]:
    """Artifact path → file. Links are left out: a directory from elsewhere must not pull in other files."""
    plotted = sorted((directory / "plots").glob("*.*"))
    return {
        path.relative_to(directory).as_posix(): path
        for path in [*(directory / name for name in FILES), *plotted]
        if path.is_file() and path.resolve() == directory.resolve() / path.relative_to(directory)
    }
