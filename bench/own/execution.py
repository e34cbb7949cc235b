"""An execution in the process that asked for it: what a worker does, around a step that is there already."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.measure import environment_record
from bench.own.step import OwnStep
from bench.records import (
    ENVIRONMENT_FILE,
    PLAIN,
    ExecutionStarted,
    Record,
    RecordWriter,
    Work,
    execution_cap_s,
    next_work,
    read_records,
    read_study,
    write_json,
)
from bench.spec import StudySpec
from bench.study import Progress
from bench.study.progress import ProgressTracker, Watch
from bench.worker.bench import Bench
from bench.worker.effect import OtherStepError, check_losses
from bench.worker.guard import FreshProcessNeededError
from bench.worker.journal import Journal, MeasuredBeforeError
from bench.worker.rounds import Clock
from bench.worker.run import measure_work


class FreshProcessError(RuntimeError):
    """This process cannot measure on. What was measured is kept; running the script again goes on from there."""


def run_here(
    directory: Path,
    study: StudySpec,
    step: OwnStep,
    put_back: Callable[[], None],
    plain_loss: float | None,
    watch: Watch,
) -> None:
    """Measures what the study lacks. The caller holds the study's lock.

    Args:
        plain_loss: of the plain step from the state that `put_back` restores; None where it is not known.
        put_back: puts model, optimizer and the rest back to what they were before.

    Raises:
        FreshProcessError: a failure left this process in disorder.
    """
    tracker = ProgressTracker(study, read_records(directory), watch)
    environment = environment_record(step.device)
    write_json(directory / ENVIRONMENT_FILE, environment)
    with _collected_between_samples():
        while (work := next_work(study, read_records(directory))) is not None:
            put_back()
            clock = Clock(began=time.monotonic(), already_spent_s=work.spent_s, cap_s=execution_cap_s(study))
            with closing(_Watched(directory, tracker)) as writer:
                journal = Journal(writer, work.execution, work.missing)
                journal.write(ExecutionStarted, placements=work.placements, environment=environment)
                try:
                    bench = Bench(study.controls, step.device, work.placements, step)
                    measure_work(study, work, journal, clock, bench)
                except FreshProcessNeededError as error:
                    put_back()
                    _go_on(error, journal, step, work, plain_loss)
                except MeasuredBeforeError as error:
                    raise FreshProcessError(f"{error}; run the script again") from None
            study = read_study(directory)  # the gate may have added twins
            tracker.extend(study)


def _go_on(
    error: FreshProcessNeededError, journal: Journal, step: OwnStep, work: Work, plain_loss: float | None
) -> None:
    """There is no fresh process to be had here. This one will do if the plain step still gives the loss that it gave at
    first; where that is not known, or the failure is the reference's, it is not tried."""
    if plain_loss is None or not journal.failed or {PLAIN, work.placements[0]} & journal.failed:
        raise FreshProcessError(f"measuring cannot go on in this process {error}; run the script again") from None
    try:
        check_losses([float(step.run())], [plain_loss], step.precision)
    except OtherStepError:
        raise FreshProcessError(
            f"the plain step is not what it was {error}: what nobody puts back has changed; run the script again"
        ) from None


class _Watched(RecordWriter):
    """Tells whoever watches of every record that is written."""

    def __init__(self, directory: Path, tracker: ProgressTracker) -> None:
        super().__init__(directory)
        self._tracker = tracker

    def append_all(self, records: Iterable[Record]) -> None:
        written = list(records)
        super().append_all(written)
        for record in written:
            self._tracker.see(record)


@contextmanager
def _collected_between_samples() -> Iterator[None]:
    """Garbage is collected between samples, never inside one; afterwards as it was before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def print_progress() -> Watch:
    """A line on stderr at each tenth of the way, and each failure when it comes."""
    last = -1

    def watch(event: Progress) -> None:
        nonlocal last
        tenth = 10 * event.done // max(event.total, 1)
        if event.message:
            print(event.message, file=sys.stderr)
        elif tenth > last:
            last = tenth
            left = "" if event.seconds_left is None else f", at most {event.seconds_left:.0f} s left"
            print(f"{event.done}/{event.total}{left}: {event.label}", file=sys.stderr)

    return watch
