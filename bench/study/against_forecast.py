"""What a study measured, held against peaks that were forecast elsewhere; and a real step of some placements recorded,
so that a difference can be followed block by block."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records import TRACE_FOLDER, MemorySample, read_records, read_study, write_json
from bench.spec import SpecError, StudySpec
from bench.study.progress import Watch
from bench.study.recording import record_steps
from bench.study.supervise import WorkerError
from bench.trace.log import LIBRARY, StepLog, read_log

COMPARISON_FILE = "against_forecast.json"
MAX_RECORDED = 3
PEAKS = ("peak_allocated_bytes", "peak_requested_bytes", "peak_reserved_bytes", "persistent_bytes")


@dataclass(frozen=True, kw_only=True)
class Against:
    """What a prepared study says of its forecast."""

    forecast: str
    """JSON with rows by precision, as `python -m bench.target.reference` writes it; relative to the prepared file."""
    record: tuple[str, ...]
    """Placements whose step is recorded, in canonical text; at most MAX_RECORDED, since each takes a step or two and
    the recording builds the model anew."""


def read_forecast_rows(against: Against, prepared: Path, study: StudySpec) -> dict[str, Mapping[str, Any]]:
    """Placement → its row, of the study's precision.

    Raises:
        SpecError: there is no such forecast, or the placements to record are too many or not in the study.
    """
    if len(against.record) > MAX_RECORDED:
        raise SpecError(f"against.record: {len(against.record)} placements, at most {MAX_RECORDED} are recorded")
    texts = {entry.text for entry in study.placements}
    for text in against.record:
        if text not in texts:
            raise SpecError(f"against.record: {text} is not measured; there are {', '.join(sorted(texts))}")
    path = prepared.parent / against.forecast
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["forecasts"][study.controls.precision]
        return {row["placement"]: row for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecError(
            f"against.forecast: {path} holds no forecasts in {study.controls.precision} ({error!r})"
        ) from None


def compare_with_forecast(
    directory: Path, against: Against, rows: Mapping[str, Mapping[str, Any]], watch: Watch
) -> list[str]:
    """Records steps, writes COMPARISON_FILE into the study directory, and says what came out, a line a placement. A
    step that cannot be recorded is a reason in the file; the measured peaks are compared all the same.

    Raises:
        CannotWriteError
    """
    study, records = read_study(directory), read_records(directory)
    logs, problem = _recorded(study, directory, against, watch)
    measured = {sample.placement: sample for sample in records.of(MemorySample)}
    compared = {
        text: _compared(sample, rows.get(text), logs.get(text))
        for text, sample in measured.items()
        if text in rows or text in logs
    }
    facts = study.controls.facts
    data = {
        "device_name": facts.device_name if facts else None,
        "versions": dict(facts.versions) if facts else None,
        "forecast": against.forecast,
        "not_recorded": problem,
        "placements": compared,
    }
    write_json(directory / COMPARISON_FILE, data)
    return [*_lines(compared), *([f"no step was recorded: {problem}"] if problem else [])]


def _recorded(
    study: StudySpec, directory: Path, against: Against, watch: Watch
) -> tuple[dict[str, tuple[str, StepLog]], str | None]:
    """Placement → (file, log); and why there is none."""
    if not against.record:
        return {}, None
    folder = directory / TRACE_FOLDER
    try:
        found = record_steps(study.controls, against.record, folder, real=True, name=directory.name, watch=watch)
    except (SpecError, WorkerError) as error:
        return {}, str(error)
    logs = {text: (name, read_log(folder / name)) for text, name in found.logs.items()}
    return {text: (name, log) for text, (name, log) in logs.items() if not log.is_fake}, None


def _compared(
    sample: MemorySample, row: Mapping[str, Any] | None, recorded: tuple[str, StepLog] | None
) -> dict[str, Any]:
    measured = {name: getattr(sample, name) for name in PEAKS}
    told: dict[str, Any] = {"measured": measured, "attention_ops": list(sample.attention_ops)}
    if row is not None:
        movable = sample.peak_allocated_bytes - sample.persistent_bytes
        told["forecast"] = {name: row.get(name) for name in PEAKS}
        told["forecast_attention_ops"] = row.get("attention_ops")
        told["forecast_minus_measured_bytes"] = {
            name: row[name] - value
            for name, value in measured.items()
            if value is not None and row.get(name) is not None
        }
        told["error_share"] = (row["peak_allocated_bytes"] - sample.peak_allocated_bytes) / movable if movable else None
    if recorded is not None:
        name, log = recorded
        peak, events = log.peak()
        told["recorded"] = {
            "log": f"{TRACE_FOLDER}/{name}",
            "peak_bytes": peak,
            "persistent_bytes": log.persistent_bytes,
            "peak_op": log.ops[log.op_at(events)].name if log.ops else None,
            "kept_by_libraries": sorted(s.size_bytes for s in log.storages if s.role == LIBRARY),
            "workspaces": workspaces(log),
        }
    return told


def workspaces(log: StepLog) -> dict[str, dict[str, int]]:
    """Op → how many blocks that no tensor was seen on it took, and the bytes of the largest; the largest first."""
    num: Counter[str] = Counter()
    largest: Counter[str] = Counter()
    for storage in log.storages:
        if storage.birth is not None and storage.shape is None:
            name = log.ops[storage.op].name if storage.op >= 0 else "between ops"
            num[name] += 1
            largest[name] = max(largest[name], storage.size_bytes)
    return {name: {"num": num[name], "largest_bytes": size} for name, size in largest.most_common()}


def _lines(compared: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = []
    for text, told in compared.items():
        measured = told["measured"]["peak_allocated_bytes"]
        if "forecast" in told:
            off = told["forecast_minus_measured_bytes"]["peak_allocated_bytes"]
            share = "" if told["error_share"] is None else f", {told['error_share']:+.2%} of what can move"
            lines.append(f"{text}: measured {measured:,} bytes, forecast {off:+,}{share}")
        else:
            lines.append(f"{text}: measured {measured:,} bytes, not forecast")
    return lines
