"""One execution: build the step once, audit and weigh each placement, warm up, then time all in shuffled rounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import torch

from bench.measure import environment_record
from bench.records import (
    ENVIRONMENT_FILE,
    PLAIN,
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
from bench.stats import End
from bench.worker.bench import Bench
from bench.worker.failure import outcome_of
from bench.worker.fresh import process_age_s, take_turn
from bench.worker.gate import pass_gate
from bench.worker.guard import FreshProcessNeededError
from bench.worker.journal import Journal, MeasuredBeforeError
from bench.worker.rounds import Clock, run_rounds
from bench.worker.warmup import first_step, warm_up
from bench.worker.weigh import weigh_all

MakeBench = Callable[[Controls, torch.device, Sequence[str]], Bench]
Measure = Callable[[StudySpec, Work, Journal, Clock, Bench], None]


def run_execution(
    directory: Path,
    set_up: Callable[[Controls], torch.device],
    make_bench: MakeBench | None = None,
    measure: Measure | None = None,
) -> int:
    """Measures what the next unfinished execution lacks; returns the exit code of the worker.

    Args:
        make_bench: builds the step and what placements are put on; by default Bench.
        measure: what an execution does with it; by default memory, then time.

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
    journal.write(
        ExecutionStarted,
        placements=work.placements,
        startup_s=round(process_age_s(), 3),
        environment=environment,
    )
    clock = Clock(began=began, already_spent_s=work.spent_s, cap_s=execution_cap_s(study))
    try:
        # A process a sample builds a step a sample, and that is what its time goes to.
        with clock.stopped() if work.turn is None else nullcontext():
            bench = _build(study, work, journal, device, make_bench or Bench)
        if bench is not None:
            (measure or measure_work)(study, work, journal, clock, bench)
    except FreshProcessNeededError as error:
        print(f"bench.worker: a fresh process goes on {error}", file=sys.stderr)
    except MeasuredBeforeError as error:
        print(f"bench.worker: {error}", file=sys.stderr)
        return 1
    return 0


def measure_work(study: StudySpec, work: Work, journal: Journal, clock: Clock, bench: Bench) -> None:
    if work.turn is not None:
        end = take_turn(bench, study, work, work.turn, journal, clock)
        if end is not None:
            stop(journal, clock, end, list(work.placements))
        return
    first_step(bench, work.placements, journal)
    to_weigh = [text for text in work.placements if text not in work.weighed]
    plain = work.plain
    if PLAIN in to_weigh:  # first, since the audit and the others' memory are held against it
        plain = weigh_all(bench, [PLAIN], plain, journal, clock, [text for text in to_weigh if text in work.missing])
    with clock.stopped():
        twins = pass_gate(bench, study, [text for text in work.placements if text in work.missing], journal)
    if twins:
        return  # the study has grown: the next process measures all of it together
    weigh_all(bench, [t for t in to_weigh if t != PLAIN and t not in journal.failed], plain, journal, clock)
    alive = [text for text in work.placements if text not in journal.failed]
    if alive:
        warm_up(bench, alive, study.controls.protocol, journal)
        end = run_rounds(bench, study, work, alive, journal, clock)
        stop(journal, clock, end, alive)


def stop(journal: Journal, clock: Clock, end: End, placements: list[str]) -> None:
    """Records that the execution is done with those of `placements` that did not fail."""
    journal.write(
        Stopped,
        placements=tuple(text for text in placements if text not in journal.failed),
        rounds=end.rounds,
        reason=end.reason,
        half_widths=end.half_widths,
        cap_s=clock.cap_s,
        measuring_s=round(clock.measuring_s, 3),
        wall_s=round(time.monotonic() - clock.began, 3),
    )


def _build(study: StudySpec, work: Work, journal: Journal, device: torch.device, make_bench: MakeBench) -> Bench | None:
    """The bench, or None where the step cannot even be built: then no placement can be measured."""
    journal.starting("build")
    try:
        return make_bench(study.controls, device, work.placements if work.turn is None else (work.turn.placement,))
    except SpecError:
        raise
    except (Exception, SystemExit) as error:
        outcome, reason = outcome_of(error)
        with suppress(OSError):  # the log's disk may be full
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
