"""Running a capacity search: audits, plans (once the size of `none` is found), sizes, times; then the answer.

What is in the directory's records is not asked again, so the same command goes on after a kill at any moment, and an
answer can be read from what is there at any time.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.capacity.axis import sizes_of
from bench.capacity.placing import joined_options
from bench.capacity.store import (
    SPEC_FILE,
    CapacityWriter,
    capacity_path,
    read_capacity_records,
    read_spec,
    write_answer,
    write_spec,
)
from bench.capacity.summary import summarise
from bench.capacity.types import DEVICE, Answer, CapacitySpec
from bench.placement import NONE
from bench.placement.generators import NONE_FAMILY
from bench.records import PLAIN, CannotWriteError, PlanRequest, make_directory
from bench.records.lock import StudyBusyError, study_lock
from bench.spec import PlacementEntry
from bench.study.capacity_audit import audit_all
from bench.study.capacity_plan import plan_all
from bench.study.capacity_search import search_all
from bench.study.capacity_session import Session
from bench.study.capacity_time import time_all
from bench.study.device_lock import hold_device
from bench.study.progress import Watch
from bench.study.supervise import WorkerError


def run_capacity(spec: CapacitySpec, results: Path, watch: Watch, plan: PlanRequest | None = None) -> Path:
    """Finds out what `results/<name>-capacity-<short key>` still lacks, writes `answer.json` and returns that folder.
    Waits while another study measures on the same device.

    Args:
        plan: placements to plan, beside those of the spec.

    Raises:
        WorkerError: a worker gave up for a reason that is no placement's, or the device stays busy. What was found
            is kept.
        SpecError: the request does not fit the directory or the machine.
    """
    directory = capacity_path(results, spec)
    spec = _with_plain(spec)
    sizes_of(spec)  # refuses an axis without sizes before anything runs
    try:
        make_directory(directory)
        with study_lock(directory), hold_device(spec.controls, directory.name, watch):
            _run(directory, _joined(directory, spec), watch, plan or PlanRequest())
    except (StudyBusyError, CannotWriteError) as error:
        raise WorkerError(str(error)) from None
    return directory


def answer_of(directory: Path) -> Answer:
    """From the records as they are; it need not be finished.

    Raises:
        DamagedStudyError: there is no capacity search, or it cannot be read.
    """
    return summarise(read_spec(directory), read_capacity_records(directory))


def _run(directory: Path, spec: CapacitySpec, watch: Watch, plan: PlanRequest) -> None:
    write_spec(directory, spec)
    session = Session(directory, spec, CapacityWriter(directory), watch)
    try:
        audit_all(session)
        if plan.asks_for_any:
            search_all(session, [PLAIN])  # multiples are of its size
            plan_all(session, plan)
            audit_all(session)
        search_all(session, [entry.text for entry in session.spec.placements])
        time_all(session)
    finally:
        session.writer.close()
        write_answer(directory, summarise(session.spec, session.records))


def _joined(directory: Path, asked: CapacitySpec) -> CapacitySpec:
    """With the placements that were asked for before; a limit that is the device's own stays what it was then."""
    if not (directory / SPEC_FILE).exists():
        return asked
    there = read_spec(directory)
    known = {entry.text for entry in there.placements}
    placements = (*there.placements, *(entry for entry in asked.placements if entry.text not in known))
    limit = there.limit_bytes if asked.limit_source == DEVICE else asked.limit_bytes
    options = joined_options(there.placement_options, asked.placement_options)
    return dataclasses.replace(asked, placements=placements, placement_options=options, limit_bytes=limit)


def _with_plain(spec: CapacitySpec) -> CapacitySpec:
    """With `none`, which everything is relative to."""
    if any(entry.text == PLAIN for entry in spec.placements):
        return spec
    plain = PlacementEntry(text=NONE.text, id=NONE.id, generators=(NONE_FAMILY,))
    return dataclasses.replace(spec, placements=(plain, *spec.placements))
