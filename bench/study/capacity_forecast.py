"""Forecasts for a capacity search: of all its placements at the sizes that it wants to know of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from bench.capacity.types import Expected
from bench.spec import SpecError, to_mapping
from bench.study.capacity_process import run_asked
from bench.study.capacity_session import Session
from bench.study.supervise import WorkerError

MODULE = "bench.worker.capacity_forecast"
TIMEOUT_S = 300.0
"""A forecast is not waited for longer; the search goes on without."""


def forecast_sizes(session: Session, placements: Collection[str], sizes: Sequence[int]) -> None:
    """Records an Expected for each placement and size that has none yet: with no bytes where there is no forecast, so
    that it is not asked for again."""
    spec = session.spec
    known = {(record.placement, record.size) for record in session.records.of(Expected)}
    wanted = {size: [p for p in placements if (p, size) not in known] for size in sorted(set(sizes))}
    wanted = {size: texts for size, texts in wanted.items() if texts}
    if wanted:
        session.tell(f"forecasting {spec.axis.name} {', '.join(map(str, wanted))}")
        session.starting("forecast")
        _ask(session, wanted)


def _ask(session: Session, wanted: dict[int, list[str]]) -> None:
    spec = session.spec
    texts = list(dict.fromkeys(text for of_size in wanted.values() for text in of_size))
    request = {
        "sizes": [{"size": size, "controls": to_mapping(session.proof_controls(size, None))} for size in wanted],
        "entries": to_mapping(spec.placements),
        "wanted": texts,
        "options": session.model_options().get("options"),
    }
    left = set(wanted)

    def hear(about: str, value: Any) -> None:
        if about == "forecast":
            left.discard(value["size"])
            _record(session, wanted, value)

    why = "the forecast ended without an answer"
    try:
        run_asked(MODULE, request, spec.controls, session.directory, TIMEOUT_S, hear)
    except (SpecError, WorkerError) as error:
        why = " ".join(str(error).split())
    for size in sorted(left):
        _record(session, wanted, {"size": size, "peaks": {}, "missing": dict.fromkeys(texts, why)})


def _record(session: Session, wanted: dict[int, list[str]], told: dict[str, Any]) -> None:
    size = told["size"]
    for text in wanted[size]:
        session.writer.write(
            Expected,
            placement=text,
            size=size,
            peak_allocated_bytes=told["peaks"].get(text),
            reason=str(told["missing"].get(text, "")),
        )
