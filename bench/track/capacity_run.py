"""A capacity directory as an MLflow run, with a run under it a placement, in the experiment of the model and device."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

from bench.capacity.store import SPEC_FILE, read_capacity_records
from bench.capacity.types import UNFINISHED, Answer, Capacity
from bench.track.capacity_content import (
    CAPACITY_IDENTITY,
    CAPACITY_KIND,
    REACHING_KIND,
    capacity_content,
    id_of,
    reaching_content,
)
from bench.track.capacity_view import put_capacity_view
from bench.track.content import RunContent
from bench.track.experiment import experiment_name
from bench.track.family import Family, Published, publish_family
from bench.track.times import Times, times_of


def publish_capacity(directory: Path, answer: Answer, tracking_uri: str) -> Published:
    """Brings the store to what the directory says; a second time changes nothing.

    Raises:
        UnfitStudyError, TrackError: as `publish_family` does.
    """
    return publish_family(directory, partial(_family, directory, answer), tracking_uri, what="capacity")


def capacity_identity(name: str, key: str, origin: str) -> str:
    """Plain hex over all that makes a capacity itself, safe to search for whatever characters its name has."""
    return hashlib.sha256(json.dumps([name, key, origin]).encode()).hexdigest()[:32]


def read_capacity_times(directory: Path) -> Times:
    """Its origin is the time of its first record."""
    entries = read_capacity_records(directory).entries
    origin = repr(entries[0].unix_time_s) if entries else ""
    return times_of(entries, origin=origin, dated_by=directory / SPEC_FILE)


def _family(directory: Path, answer: Answer) -> Family:
    controls = answer.spec.controls
    device = controls.facts.device_name if controls.facts is not None else controls.device.kind
    times = read_capacity_times(directory)
    identity = capacity_identity(directory.name, answer.spec.key, times.origin)

    def parent(experiment_id: str, run_id: str | None) -> RunContent:
        return capacity_content(
            directory, answer, times.whole, identity=identity, experiment_id=experiment_id, run_id=run_id
        )

    def child(row: Capacity, parent_run_id: str) -> RunContent:
        span = times.placements.get(row.placement, times.whole)
        return reaching_content(row, answer, directory, span, identity=identity, parent_run_id=parent_run_id)

    return Family(
        experiment=experiment_name(controls.model.name, device),
        identity_tag=CAPACITY_IDENTITY,
        identity=identity,
        parent_kind=CAPACITY_KIND,
        child_kind=REACHING_KIND,
        parent=parent,
        # A placement that was not begun yet has nothing to show.
        children={
            id_of(answer, row.placement): partial(child, row)
            for row in answer.rows
            if row.largest or row.ended != UNFINISHED
        },
        prepare=put_capacity_view,
    )
