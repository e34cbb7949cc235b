"""A capacity directory as an MLflow run, with a run under it a placement, in the experiment of the model and device."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.capacity.store import SPEC_FILE, CapacityRecords, read_capacity_records
from bench.capacity.types import UNFINISHED, Answer
from bench.track.capacity_content import (
    CAPACITY_IDENTITY,
    CAPACITY_KIND,
    REACHING_KIND,
    capacity_content,
    id_of,
    reaching_content,
)
from bench.track.capacity_view import put_capacity_view
from bench.track.connect import open_client
from bench.track.content import RunContent, storable
from bench.track.errors import TrackError
from bench.track.experiment import experiment_name, find_or_create
from bench.track.intake import check_directory
from bench.track.lock import exclusive
from bench.track.secrets import without_password
from bench.track.sync import CREATED, UNCHANGED, UPDATED, fill, find_runs, first_by_tag, keep_or_create
from bench.track.tags import KIND, PLACEMENT_ID
from bench.track.times import LATEST_S, Span
from bench.track.uri import artifact_root

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

PUBLISH_WAIT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class PublishedCapacity:
    experiment_name: str
    experiment_id: str
    parent_run_id: str
    created: int
    """Child runs, one a placement."""
    updated: int
    unchanged: int
    removed: int
    """Child runs of placements that the capacity no longer has; they are in MLflow's bin."""
    tracking_uri: str
    """Without a password."""


@dataclass(frozen=True, kw_only=True)
class CapacityTimes:
    origin: str
    """Of the first record: tells two searches with equal names and keys apart on a server that several people share."""
    capacity: Span
    placements: dict[str, Span]


def publish_capacity(directory: Path, answer: Answer, tracking_uri: str) -> PublishedCapacity:
    """Brings the store to what the directory says; a second time changes nothing.

    Raises:
        UnfitStudyError: the directory holds what none of ours does, such as links.
        TrackError: the store is of no usable kind, down, locked or refuses. The directory is left as it is.
    """
    check_directory(directory)
    try:
        with (
            exclusive(directory, wait_s=PUBLISH_WAIT_S, holder="another publishing of this capacity"),
            open_client(tracking_uri) as client,
        ):
            return _publish(client, directory, answer, tracking_uri)
    except TrackError as error:
        raise TrackError(
            f"{error}. The results are safe in {directory}; once that is mended, publish them with "
            f"`python -m bench publish study={shlex.quote(str(directory))}`"
        ) from error


def capacity_identity(name: str, key: str, origin: str) -> str:
    """Plain hex over all that makes a capacity itself, safe to search for whatever characters its name has."""
    return hashlib.sha256(json.dumps([name, key, origin]).encode()).hexdigest()[:32]


def read_capacity_times(directory: Path) -> CapacityTimes:
    """When it was searched, from its records: publishing again must give the same times, whenever it is done."""
    records = read_capacity_records(directory)
    timed = [record for record in records.entries if 0 < record.unix_time_s < LATEST_S]
    placements: dict[str, list[float]] = {}
    for record in timed:
        placement = getattr(record, "placement", None)
        if placement is not None:
            placements.setdefault(placement, []).append(record.unix_time_s)
    times = [record.unix_time_s for record in timed] or [(directory / SPEC_FILE).stat().st_mtime]
    return CapacityTimes(
        origin=_origin(records),
        capacity=_span(times),
        placements={text: _span(of_placement) for text, of_placement in placements.items()},
    )


def _publish(client: MlflowClient, directory: Path, answer: Answer, tracking_uri: str) -> PublishedCapacity:
    controls = answer.spec.controls
    device = controls.facts.device_name if controls.facts is not None else controls.device.kind
    times = read_capacity_times(directory)
    identity = capacity_identity(directory.name, answer.spec.key, times.origin)
    name = experiment_name(controls.model.name, device)
    experiment_id = find_or_create(client, name, artifact_root(tracking_uri, directory.parent))
    put_capacity_view(client, experiment_id)
    runs = find_runs(client, experiment_id, CAPACITY_IDENTITY, identity)
    parents = [run for run in runs if run.data.tags.get(KIND) == CAPACITY_KIND]

    def content(run_id: str | None) -> RunContent:
        return storable(
            capacity_content(
                directory, answer, times.capacity, identity=identity, experiment_id=experiment_id, run_id=run_id
            )
        )

    parent = keep_or_create(client, experiment_id, parents[0] if parents else None, content(None))
    parent_run_id = parent.info.run_id
    children = [run for run in runs if run.data.tags.get(KIND) == REACHING_KIND]
    changes = _publish_placements(
        client, experiment_id, children, directory, answer, times, identity=identity, parent_run_id=parent_run_id
    )
    # Last, so that a parent that claims to be whole has all its children.
    fill(client, parent, content(parent_run_id))
    return PublishedCapacity(
        experiment_name=name,
        experiment_id=experiment_id,
        parent_run_id=parent_run_id,
        created=changes[CREATED],
        updated=changes[UPDATED],
        unchanged=changes[UNCHANGED],
        removed=changes["removed"],
        tracking_uri=without_password(tracking_uri),
    )


def _publish_placements(
    client: MlflowClient,
    experiment_id: str,
    children: list[Run],
    directory: Path,
    answer: Answer,
    times: CapacityTimes,
    *,
    identity: str,
    parent_run_id: str,
) -> Counter[str]:
    existing = first_by_tag(children, PLACEMENT_ID)
    changes: Counter[str] = Counter()
    # A placement that was not begun yet has nothing to show.
    wanted = {id_of(answer, row.placement): row for row in answer.rows if row.largest or row.ended != UNFINISHED}
    for placement_id, row in wanted.items():
        span = times.placements.get(row.placement, times.capacity)
        content = storable(
            reaching_content(row, answer, directory, span, identity=identity, parent_run_id=parent_run_id)
        )
        before = existing.get(placement_id)
        changed = fill(client, keep_or_create(client, experiment_id, before, content), content)
        changes[CREATED if before is None else UPDATED if changed else UNCHANGED] += 1
    for run in children:
        placement_id = run.data.tags.get(PLACEMENT_ID, "")
        if placement_id not in wanted or run is not existing[placement_id]:
            client.delete_run(run.info.run_id)
            changes["removed"] += 1
    return changes


def _origin(records: CapacityRecords) -> str:
    return repr(records.entries[0].unix_time_s) if records.entries else ""


def _span(times: list[float]) -> Span:
    return Span(start_ms=round(min(times) * 1000), end_ms=round(max(times) * 1000))
