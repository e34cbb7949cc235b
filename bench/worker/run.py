"""One execution: build the step once, weigh every placement, warm up, then time them all in shuffled rounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench.measure import environment_record
from bench.records import (
    ENVIRONMENT_FILE,
    ExecutionStarted,
    RecordWriter,
    Stopped,
    Work,
    execution_cap_s,
    next_work,
    read_records,
    read_study,
    write_json,
)
from bench.spec import Controls, SpecError, StudySpec
from bench.worker.bench import Bench
from bench.worker.failure import outcome_of
from bench.worker.guard import FreshProcessNeededError
from bench.worker.journal import Journal, MeasuredBeforeError
from bench.worker.rounds import Clock, run_rounds
from bench.worker.warmup import first_step, warm_up
from bench.worker.weigh import weigh_all


def run_execution(directory: Path, set_up: Callable[[Controls], torch.device]) -> int:
    """Measures what the next unfinished execution lacks; returns the exit code of the worker.

    Raises:
        SpecError: this machine is not the one that the study's controls name.
    """
    began = time.monotonic()
    study, records = read_study(directory), read_records(directory)
    work = next_work(study, records)
    if work is None:
        return 0
    device = set_up(study.controls)
    _check_facts(study, device)
    environment = environment_record(device)
    write_json(directory / ENVIRONMENT_FILE, environment)
    journal = Journal(RecordWriter(directory), work.execution, work.missing)
    journal.write(ExecutionStarted, placements=work.placements, environment=environment)
    clock = Clock(began=began, already_spent_s=work.spent_s, cap_s=execution_cap_s(study))
    try:
        bench = _build(study, work, journal, device)
        if bench is not None:
            _measure(study, work, journal, clock, bench)
    except FreshProcessNeededError as error:
        print(f"bench.worker: a fresh process goes on {error}", file=sys.stderr)
    except MeasuredBeforeError as error:
        print(f"bench.worker: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(study: StudySpec, work: Work, journal: Journal, clock: Clock, bench: Bench) -> None:
    first_step(bench, work.placements, journal)
    to_weigh = [text for text in work.placements if text not in work.weighed]
    weigh_all(bench, to_weigh, work.plain, journal, clock)
    alive = [text for text in work.placements if text not in journal.failed]
    if alive:
        warm_up(bench, alive[0], study.controls.protocol, journal)
        rounds, reason, widths = run_rounds(bench, study, work, alive, journal, clock)
        alive = [text for text in alive if text not in journal.failed]
        journal.write(
            Stopped,
            placements=tuple(alive),
            rounds=rounds,
            reason=reason,
            half_widths=widths,
            cap_s=clock.cap_s,
            measuring_s=round(clock.measuring_s, 3),
            wall_s=round(time.monotonic() - clock.began, 3),
        )


def _build(study: StudySpec, work: Work, journal: Journal, device: torch.device) -> Bench | None:
    """The bench, or None where the step cannot even be built: then no placement can be measured."""
    journal.starting("build")
    try:
        return Bench(study.controls, device, work.placements)
    except SpecError:
        raise
    except Exception as error:
        outcome, reason = outcome_of(error)
        print(f"bench.worker: the step cannot be built: {reason}", file=sys.stderr)
        for text in (text for text in work.placements if text in work.missing):
            journal.outcome(text, outcome, f"the step cannot be built: {reason}", "build")
        return None


def _check_facts(study: StudySpec, device: torch.device) -> None:
    from bench.worker.probe import device_facts

    expected, found = study.controls.facts, device_facts(study.controls, device)
    if expected is None:
        raise SpecError("facts: the study's controls have none; create the study with `python -m bench sweep`")
    for name in ("device_name", "versions", "fused_optimizer"):
        wanted, here = getattr(expected, name), getattr(found, name)
        if wanted != here:
            raise SpecError(
                f"facts.{name}: the study was made for {wanted}, here it is {here}; make a study of its own"
            )
