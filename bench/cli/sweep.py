"""`sweep`: measure a model's frontier, or whatever of it is not measured yet, and show it."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.compiling import OPTIONS as COMPILED_OPTIONS, compile_beside, compiled_request
from bench.cli.entry import Options, run_verb
from bench.cli.paths import shown, verbs
from bench.cli.planning import knowledge, plan_request, plan_rounds
from bench.cli.progress import ProgressDisplay
from bench.cli.project import StudyView, draw, publish
from bench.cli.recorded import recorded
from bench.cli.request import CONTROL_GROUPS, caps_of, controls_of, refuse_unknown
from bench.cli.tracking import check_tracker
from bench.frontier import Trial
from bench.placement import check_modules, check_ops, generate_placements
from bench.records import PlanRequest, read_records, read_study, study_path
from bench.records.forecast import METHODS
from bench.spec import (
    ANSWERS,
    AUDITS,
    OFF,
    RESTORES,
    ChainInfo,
    PlacementEntry,
    SpecError,
    StudySpec,
    control_key,
    uncontrolled,
)
from bench.study import probe_worker, run_study
from bench.study.planning import plan_again, plan_first, with_plans
from bench.study.progress import Watch

OPTIONS = (
    *CONTROL_GROUPS,
    *COMPILED_OPTIONS,
    *("audit", "caps", "forecast", "placements", "reference", "restore", "results", "tracker"),
)


def run(overrides: Sequence[str]) -> int:
    return run_verb("sweep", sweep, overrides)


def sweep(options: Options) -> Answer:
    results: Path = options["results"]
    method = _choice(options, "forecast", (*METHODS, OFF))
    request, rounds = plan_request(options["placements"]), plan_rounds(options["placements"])
    compiled = compiled_request(options)
    study = resolved_study(options)
    with ProgressDisplay() as display:
        if request.asks_for_any:
            study, directory = _run_planned(study, request, rounds, results, display, method)
        else:
            directory = run_study(study, results, watch=display, forecast=method)
        compile_beside(directory, read_study(directory), compiled, display)
    view = draw(directory)
    view.print()
    print(f"page:  {verbs()} plots {shlex.quote(f'study={shown(directory)}')} writes one to click through")
    published = publish(directory, results, options["tracker"])
    complete = published and answered(view.frontier.trials, study.placements)
    return Answer(exit_code=COMPLETE if complete else PARTIAL, data=answer_data(view))


def _run_planned(
    study: StudySpec, request: PlanRequest, rounds: int, results: Path, watch: Watch, method: str
) -> tuple[StudySpec, Path]:
    """The study with what was planned, and its directory. What a second round finds is measured once the first is:
    beside the reference in rounds of their own, as whatever extends a study."""
    directory = study_path(results, study)
    plans = plan_first(directory, study, request, watch)
    study = with_plans(study, plans)
    run_study(study, results, watch=watch, forecast=method)
    if rounds > 1:
        known = knowledge(read_study(directory), read_records(directory))
        plans = plan_again(directory, study, plans, known, watch)
        study = with_plans(study, plans)
        run_study(study, results, watch=watch, forecast=method)
    return study, directory


def resolved_study(options: Options) -> StudySpec:
    """The resolved study: controls with their facts as executed, and the placements that the model can take."""
    refuse_unknown(options, OPTIONS)
    controls = controls_of(options)
    caps = caps_of(options)
    check_tracker(options["results"], options["tracker"])
    for name, value in uncontrolled(controls.device, os.environ).items():
        print(
            f"boundary-bench: {name}={value} is not given to workers, since it is no control; to hold it fixed: "
            f"+device.{'openmp' if 'OMP' in name or 'KMP' in name else 'allocator'}.{name}={value}",
            file=sys.stderr,
        )
    probe = probe_worker(controls)
    controls = dataclasses.replace(controls, facts=probe.facts)
    entries, reference = _placements(options, probe.chains)
    check_modules(entries, probe.modules)
    check_ops(entries, probe.ops)
    return StudySpec(
        name=controls.model.name,
        key=control_key(controls),
        controls=controls,
        placements=entries,
        chains=tuple(probe.chains),
        caps=caps,
        audit=_choice(options, "audit", AUDITS),
        restore=_choice(options, "restore", RESTORES),
        reference=reference,
        recorded=recorded() | dict(probe.fingerprint),
    )


def answered(trials: Sequence[Trial], asked: Sequence[PlacementEntry]) -> bool:
    """Whether every placement asked for has an answer, and at least one was measured."""
    outcomes = {trial.placement: trial.outcome for trial in trials}
    return "ok" in outcomes.values() and all(outcomes.get(entry.text) in ANSWERS for entry in asked)


def answer_data(view: StudyView) -> dict[str, Any]:
    return {"study": str(view.directory), "plot": str(view.plot) if view.plot else None, "frontier": view.data()}


def _choice(options: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str:
    asked = OFF if options[name] is False else options[name]  # YAML reads a bare `off` as false
    if asked not in allowed:
        raise SpecError(f"{name}: {asked!r} is not one of {', '.join(allowed)}")
    return str(asked)


def _placements(
    options: Mapping[str, Any], chains: Sequence[ChainInfo]
) -> tuple[tuple[PlacementEntry, ...], str | None]:
    """The placements asked for, the chosen reference among them, and the reference's canonical text."""
    entries = generate_placements(options["placements"], chains)
    if options["reference"] is None:
        return entries, None
    (reference,) = generate_placements({"explicit": [options["reference"]]}, chains)
    known = any(entry.text == reference.text for entry in entries)
    return (entries if known else (reference, *entries)), reference.text
