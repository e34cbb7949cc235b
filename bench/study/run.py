"""Running a study: what is there already is kept, what is missing is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from bench.placement import NONE
from bench.placement.generators import NONE_FAMILY
from bench.records import (
    PLAIN,
    CannotWriteError,
    make_directory,
    next_work,
    read_records,
    read_study,
    study_path,
    write_study,
)
from bench.records.directory import STUDY_FILE
from bench.records.lock import StudyBusyError, study_lock
from bench.spec import OFF, PlacementEntry, SpecError, StudySpec
from bench.study.device_lock import device_lock
from bench.study.forecasting import forecast_study, unforecast
from bench.study.progress import ProgressTracker, Watch
from bench.study.supervise import WorkerError
from bench.study.telemetry import recording, take_stock
from bench.study.worker_process import WORKER, Attempt, run_worker


def run_study(study: StudySpec, results: Path, watch: Watch, worker: str = WORKER, forecast: str = OFF) -> Path:
    """Measures what `results/<name>-<short key>` still lacks and returns that directory. A study that is there is
    extended by placements it does not have; one that was interrupted goes on. Waits while another study measures on the
    same device; rounds during which the hardware was slowed down are discarded and measured again. `worker` is the
    module that measures. With `forecast`, one of `bench.study.forecasting.METHODS`, the peaks of what is to be measured
    are forecast first: on the same cores, so not while anything is timed.

    Raises:
        WorkerError: a worker gave up for a reason that is no placement's, or the device stays busy; what was measured
            stays.
        SpecError: the request does not fit the directory or the machine.
    """
    directory = study_path(results, study)
    study = _with_plain(study)
    try:
        make_directory(directory)
        with study_lock(directory):
            if (directory / STUDY_FILE).exists():
                study = extend(read_study(directory), study)
            write_study(directory, study)
    except (StudyBusyError, CannotWriteError) as error:
        raise WorkerError(str(error)) from None
    records = read_records(directory)
    if next_work(study, records) is not None or (forecast != OFF and unforecast(study, records.forecasts)):
        with device_lock(study, directory.name, watch) as problem:
            forecast_study(directory, study, watch, forecast)
            _measure(directory, study, watch, () if problem is None else (problem,), worker)
    return directory


def _measure(directory: Path, study: StudySpec, watch: Watch, problems: Sequence[str], worker: str) -> None:
    """Runs workers until nothing is missing; `problems` are noted with the telemetry's."""
    records = read_records(directory)  # another process may have measured while this one waited for the device
    tracker = ProgressTracker(study, records, watch)
    killed: set[Attempt] = set()
    while (work := next_work(study, records)) is not None:
        try:
            with recording(directory, study.controls, problems):
                run_worker(directory, study, work, tracker, killed, worker)
        finally:
            discarded = take_stock(directory, study.controls.protocol.rounds_max)
        for record in discarded:
            tracker.see(record)
        study = read_study(directory)  # the gate may have added twins
        tracker.extend(study)
        after = read_records(directory)
        if len(after.entries) == len(records.entries):
            raise WorkerError(f"a worker ended without measuring anything; see {directory}")
        records = after


def extend(there: StudySpec, asked: StudySpec) -> StudySpec:
    """The study with the placements of both, in the order in which they came.

    Raises:
        SpecError: their control keys differ.
    """
    if there.key != asked.key:
        raise SpecError(f"study {there.name}: its control key is {there.key}, asked for is {asked.key}")
    labels: dict[str, PlacementEntry] = {entry.text: entry for entry in there.placements}
    for entry in asked.placements:
        known = labels.get(entry.text)
        generators = tuple(dict.fromkeys((*(known.generators if known else ()), *entry.generators)))
        labels[entry.text] = dataclasses.replace(
            entry, generators=generators, twin_of=entry.twin_of or (known.twin_of if known else None)
        )
    return dataclasses.replace(asked, placements=tuple(labels.values()))


def _with_plain(study: StudySpec) -> StudySpec:
    """With `none`, which every ratio is paired with where it fits."""
    if any(entry.text == PLAIN for entry in study.placements):
        return study
    plain = PlacementEntry(text=NONE.text, id=NONE.id, generators=(NONE_FAMILY,))
    return dataclasses.replace(study, placements=(plain, *study.placements))
