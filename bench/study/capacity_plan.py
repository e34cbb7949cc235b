"""Planned placements in a search: a frontier at the start size, and for each multiple what fits at least cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from bench.capacity.rows import capacity_rows
from bench.capacity.timing import multiple_sizes
from bench.capacity.types import MODEL
from bench.placement import placement_id
from bench.records import PLAIN, PlanRequest, Plans
from bench.records.beside import read_beside, write_beside
from bench.records.plan import SCHEMA_VERSION
from bench.spec import PlacementEntry, SpecError
from bench.study.capacity_forecast import forecast_sizes
from bench.study.capacity_probe import forecast_of
from bench.study.capacity_room import KEPT_FREE_BYTES, free_bytes
from bench.study.capacity_session import Session
from bench.study.planning import STUDY_TIMEOUT_S, ask_plans, generator_of
from bench.study.supervise import WorkerError

PLAN = "plan"
TIMED_WITHIN = 0.8
"""Of the machine's free memory, what the plain step of a size to plan for may take: the planner times it."""


def plan_all(session: Session, request: PlanRequest) -> None:
    """Adds placements. What cannot be planned is told, and noted in the size's file, so that it is not tried again.

    `none` must have been searched, since multiples are of its size.
    """
    if session.spec.axis.kind == MODEL:
        session.tell(
            PLAN, f"nothing is planned: {session.spec.axis.name} changes the model, and a plan is for one model"
        )
        return
    for size, asked in _requests(session, request):
        plans = read_beside(_file(session, size), Plans, SCHEMA_VERSION)
        if plans.request != asked:
            plans = _planned(session, size, asked)
            write_beside(_file(session, size), plans, SCHEMA_VERSION)
        session.add_placements(
            [
                PlacementEntry(
                    text=row.placement,
                    id=placement_id(row.placement),
                    generators=(f"{generator_of(row)} at {size}",),
                )
                for row in plans.rows
            ]
        )


def _requests(session: Session, request: PlanRequest) -> Iterator[tuple[int, PlanRequest]]:
    """Size → what is planned there."""
    spec = session.spec
    yield spec.start, request
    for size in multiple_sizes(spec, capacity_rows(spec, session.records)).values():
        if size is not None and size != spec.start:
            yield size, PlanRequest(budgets=(str(spec.usable_bytes),))


def _file(session: Session, size: int) -> Path:
    return session.directory / f"plan-{size}.json"


def _planned(session: Session, size: int, request: PlanRequest) -> Plans:
    """Rows or, in a note that is told as well, why there are none."""
    label = f"planning at {session.spec.axis.name} {size}"
    session.tell(label)
    why = _no_room(session, size)
    if why:
        plans = Plans(request=request, notes=(why,))
    else:
        session.starting(PLAN, None, size)
        try:
            answer = ask_plans(session.timed_controls(size, None), request, timeout_s=STUDY_TIMEOUT_S)
            plans = dataclasses.replace(answer.plans, request=request)
        except (SpecError, WorkerError) as error:
            plans = Plans(request=request, notes=(f"nothing is planned: {' '.join(str(error).split())}",))
    for said in (*plans.notes, *plans.missing.values()):
        session.tell(label, f"{label}: {said}")
    return plans


def _no_room(session: Session, size: int) -> str:
    """Why the planner must not time the plain step at this size; empty where it may."""
    if session.spec.controls.device.kind != "cpu":
        return ""
    forecast_sizes(session, [PLAIN], [size])
    plain, free = forecast_of(session, PLAIN, size), free_bytes()
    if plain is None or free is None or plain <= TIMED_WITHIN * free - KEPT_FREE_BYTES:
        return ""
    return f"nothing is planned: `none` would take {plain} bytes there, and this machine has {free} free"
