"""Running a study: what is there already is kept, what is missing is measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.placement import NONE
from bench.placement.generators import NONE_FAMILY
from bench.records import PLAIN, next_work, read_records, read_study, study_path, write_study
from bench.records.directory import STUDY_FILE
from bench.records.lock import StudyBusyError, study_lock
from bench.spec import PlacementEntry, SpecError, StudySpec
from bench.study.progress import ProgressTracker, Watch
from bench.study.worker_process import Attempt, WorkerError, run_worker


def run_study(study: StudySpec, results: Path, watch: Watch) -> Path:
    """Measures what `results/<name>-<short key>` still lacks and returns that directory. A study that is there is
    extended by placements it does not have; one that was interrupted goes on.

    Raises:
        WorkerError: a worker gave up for a reason that is no placement's; what was measured stays.
        SpecError: the request does not fit the directory or the machine.
    """
    directory = study_path(results, study)
    study = _with_plain(study)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with study_lock(directory):
            if (directory / STUDY_FILE).exists():
                study = extend(read_study(directory), study)
            write_study(directory, study)
    except StudyBusyError as error:
        raise WorkerError(str(error)) from None
    records = read_records(directory)
    tracker = ProgressTracker(study, records, watch)
    killed: set[Attempt] = set()
    while (work := next_work(study, records)) is not None:
        run_worker(directory, study, work, tracker, killed)
        after = read_records(directory)
        if len(after.entries) == len(records.entries):
            raise WorkerError(f"a worker ended without measuring anything; see {directory}")
        records = after
    return directory


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
        labels[entry.text] = dataclasses.replace(entry, generators=generators)
    return dataclasses.replace(asked, placements=tuple(labels.values()))


def _with_plain(study: StudySpec) -> StudySpec:
    """With `none`, which every ratio is paired with where it fits."""
    if any(entry.text == PLAIN for entry in study.placements):
        return study
    plain = PlacementEntry(text=NONE.text, id=NONE.id, generators=(NONE_FAMILY,))
    return dataclasses.replace(study, placements=(plain, *study.placements))
