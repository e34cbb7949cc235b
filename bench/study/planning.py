"""Plans, asked of a process of its own: for the `plan` verb, and for a study before it is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.placement import placement_id
from bench.placement.generators import PEER_FAMILY
from bench.records import CannotWriteError, Plan, PlanRequest, Plans, make_directory, read_plans, write_plans
from bench.spec import ChainInfo, Controls, Facts, PlacementEntry, SpecError, StudySpec, to_mapping
from bench.study.ask import ask_process
from bench.study.device_lock import hold_device
from bench.study.progress import Progress, Watch
from bench.study.run import extend
from bench.study.supervise import WorkerError

TIMEOUT_S = 3600.0
STUDY_TIMEOUT_S = 1800.0
"""A study waits no longer for its plans."""
FIRST_ROUND, SECOND_ROUND = 1, 2
LABEL = "planning placements"


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What was measured before a second round is planned."""

    measured_shares: Mapping[str, float] = field(default_factory=dict)
    """Placement → by what share of the step of `none` its own took longer."""
    budgets: tuple[int, ...] = ()
    """Bytes at which another placement is worth most."""


@dataclass(frozen=True, kw_only=True)
class PlanAnswer:
    """What `bench.worker.plan` answers."""

    plans: Plans
    chains: tuple[ChainInfo, ...]
    facts: Facts | None = None
    """Of the device at hand; None for a target."""
    wall_s: float
    """That the process took, without its start."""


def ask_plans(
    controls: Controls,
    request: PlanRequest,
    *,
    target: Mapping[str, Any] | None = None,
    measured_shares: Mapping[str, float] | None = None,
    number: int = FIRST_ROUND,
    timeout_s: float = TIMEOUT_S,
) -> PlanAnswer:
    """Without a target it times steps of its own on the device, which the caller holds (`hold_device`).

    Args:
        target: a GPU that need not be here, as in `conf/target`; None plans for the controls' own device.
        measured_shares: as in `Knowledge`; it corrects the costs.
        number: of the round.

    Raises:
        SpecError: the model, a budget, a peer or the target cannot be had as asked.
        WorkerError: the process broke, or gave no answer in time.
    """
    question = {
        "controls": to_mapping(controls),
        "plan": to_mapping(request),
        "target": target,
        "measured_shares": dict(measured_shares or {}),
        "round": number,
    }
    return ask_process("bench.worker.plan", question, controls, PlanAnswer, what="the planner", timeout_s=timeout_s)


def plan_first(directory: Path, study: StudySpec, request: PlanRequest, watch: Watch) -> Plans:
    """What the study's `plan.json` says, where that was asked the same; else it is planned, and the file written. What
    was planned before stays in it, since the study has those placements.

    Raises:
        WorkerError: another study holds the device for too long.
    """
    if (there := read_plans(directory)).request == request:
        return there
    _tell(watch, LABEL)
    with hold_device(study.controls, directory.name, watch):
        if (there := read_plans(directory)).request == request:  # another sweep had the device before
            return there
        found = _asked(study, request, Knowledge(), FIRST_ROUND, watch)
    rows = (*there.rows, *(row for row in found.rows if row not in there.rows))
    return _kept(directory, dataclasses.replace(found, rows=rows), watch)


def plan_again(directory: Path, study: StudySpec, there: Plans, known: Knowledge, watch: Watch) -> Plans:
    """Plans of both rounds; the second is planned once, where there is a budget that is worth it.

    Raises:
        WorkerError: another study holds the device for too long.
    """
    if there.rounds >= SECOND_ROUND or not there.rows or not known.budgets:
        return there
    _tell(watch, f"{LABEL} where the frontier leaves gaps: {len(known.budgets)}")
    request = PlanRequest(budgets=tuple(f"{budget}B" for budget in known.budgets))
    with hold_device(study.controls, directory.name, watch):
        found = _asked(study, request, known, SECOND_ROUND, watch)
    return _kept(directory, there.joined(dataclasses.replace(found, rounds=SECOND_ROUND)), watch)


def with_plans(study: StudySpec, plans: Plans) -> StudySpec:
    """The study with the placements of the plans, each once."""
    entries = tuple(
        PlacementEntry(text=row.placement, id=placement_id(row.placement), generators=(generator_of(row),))
        for row in plans.rows
    )
    return extend(study, dataclasses.replace(study, placements=(*study.placements, *entries)))


def generator_of(plan: Plan) -> str:
    """What yielded it, in the words of a study: `planned (1,200 MiB)`, `peer rotor (1,200 MiB)`."""
    return plan.label if plan.peer is None else f"{PEER_FAMILY} {plan.label}"


def _asked(study: StudySpec, request: PlanRequest, known: Knowledge, number: int, watch: Watch) -> Plans:
    """Nothing that fails in planning ends a study: it is told, and noted, so that it is not tried again each time."""
    try:
        plans = ask_plans(
            study.controls, request, measured_shares=known.measured_shares, number=number, timeout_s=STUDY_TIMEOUT_S
        ).plans
    except (SpecError, WorkerError) as error:
        first, *more = str(error).splitlines()
        why = f"{first} {more[-1]}" if more else first  # of a traceback the error alone
        plans = Plans(request=request, notes=(f"nothing is planned: {why}",))
    for note in plans.notes:
        _tell(watch, LABEL, note)
    return plans


def _kept(directory: Path, plans: Plans, watch: Watch) -> Plans:
    try:
        make_directory(directory)
        write_plans(directory, plans)
    except CannotWriteError as error:
        _tell(watch, LABEL, str(error))
    return plans


def _tell(watch: Watch, label: str, message: str | None = None) -> None:
    watch(Progress(done=0, total=0, label=label, seconds_left=None, message=message))
