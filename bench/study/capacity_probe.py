"""One probe: a fresh process that trains two steps at one size, and what is recorded of it."""

from __future__ import annotations

import time
from typing import Any

from bench.capacity.axis import accumulation_at
from bench.capacity.types import DOES_NOT_FIT, NOT_TRIED, Expected, Probe
from bench.capacity.words import mib_text
from bench.spec import to_mapping
from bench.study.blame import blame, is_from_outside
from bench.study.capacity_process import Heard, run_asked
from bench.study.capacity_room import Room, room_for
from bench.study.capacity_session import Session

MODULE = "bench.worker.capacity"
OUT_OF_MEMORY = "oom"
ATTEMPTS = 2
"""Somebody may kill a worker without meaning its placement, so the first such kill is forgiven."""


def probe_size(session: Session, placement: str, size: int) -> Probe:
    """Runs a probe and records it; of one that is not started, why."""
    spec = session.spec
    forecast = forecast_of(session, placement, size)
    room = room_for(spec.controls, spec.usable_bytes, forecast)
    began = time.monotonic()
    if room.refused:
        told: dict[str, Any] = {"outcome": NOT_TRIED, "stage": "build", "reason": room.refused}
    else:
        told = _told(session, placement, size, room)
    told["wall_s"] = round(time.monotonic() - began, 3)
    return session.writer.write(
        Probe,
        placement=placement,
        size=size,
        accumulation=accumulation_at(spec, size),
        forecast_bytes=forecast,
        **told,
    )


def _told(session: Session, placement: str, size: int, room: Room) -> dict[str, Any]:
    for attempt in range(ATTEMPTS):
        found, heard = _run(session, placement, size, room)
        if found is not None:
            return _with_bound(found, session, room)
        if not is_from_outside(heard.ending) or attempt == ATTEMPTS - 1:
            break
        session.tell(f"probing {placement}", f"{placement}: the probe at {size} was killed; it is run once more")
    outcome, reason = blame(heard.ending)
    told = {"outcome": DOES_NOT_FIT if outcome == OUT_OF_MEMORY else outcome, "stage": heard.stage, "reason": reason}
    return _with_bound(told, session, room)


def _run(session: Session, placement: str, size: int, room: Room) -> tuple[dict[str, Any] | None, Heard]:
    spec = session.spec
    entry = next(entry for entry in spec.placements if entry.text == placement)
    controls = session.proof_controls(size, room.bound_bytes)
    request = {
        "controls": to_mapping(controls),
        "entry": to_mapping(entry),
        "usable_bytes": spec.usable_bytes,
        "evaluation": spec.evaluation,
        **session.model_options(),
    }
    found: list[dict[str, Any]] = []

    def hear(about: str, value: Any) -> None:
        if about == "probe":
            found.append(value)

    session.starting("probe", placement, size)
    heard = run_asked(MODULE, request, controls, session.directory, spec.probe_timeout_s, hear)
    return (found[0] if found else None), heard


def _with_bound(told: dict[str, Any], session: Session, room: Room) -> dict[str, Any]:
    """Where a process ran out of memory, what it was held to. Held to less than it should get, that proves nothing of
    the limit."""
    if told["outcome"] != DOES_NOT_FIT or told.get("peak_allocated_bytes") is not None or room.bound_bytes is None:
        return told
    bound = mib_text(room.bound_bytes)
    if room.is_cut:
        return {
            **told,
            "outcome": NOT_TRIED,
            "reason": f"memory ran out at {bound}, all that this machine had to spare",
        }
    if session.spec.controls.device.kind == "cpu":
        return {**told, "reason": f"{told['reason']} (the process was held to {bound} beyond its libraries)"}
    return told


def forecast_of(session: Session, placement: str, size: int) -> int | None:
    return next(
        (r.peak_allocated_bytes for r in session.records.of(Expected) if (r.placement, r.size) == (placement, size)),
        None,
    )
