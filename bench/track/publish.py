"""Publishing a study: one writer, after measuring, and as often as one likes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.frontier.types import Frontier
from bench.records import AuditRecord, read_records
from bench.spec import StudySpec
from bench.track.connect import open_client
from bench.track.content import RunContent, storable
from bench.track.errors import TrackError
from bench.track.experiment import experiment_name, find_or_create
from bench.track.intake import check_directory
from bench.track.lock import exclusive
from bench.track.placement_run import placement_content
from bench.track.secrets import without_password
from bench.track.study_run import study_content
from bench.track.sync import CREATED, UNCHANGED, UPDATED, fill, find_runs, first_by_tag, keep_or_create
from bench.track.tags import (
    KIND,
    PENDING,
    PLACEMENT_ID,
    PLACEMENT_KIND,
    STUDY_IDENTITY,
    STUDY_KIND,
    study_identity,
)
from bench.track.times import StudyTimes, read_times
from bench.track.uri import artifact_root

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

PUBLISH_WAIT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Published:
    experiment_name: str
    experiment_id: str
    parent_run_id: str
    created: int
    """Child runs, one a placement."""
    updated: int
    unchanged: int
    removed: int
    """Child runs of placements that the study no longer has, or has not measured any more; they are in MLflow's bin."""
    tracking_uri: str
    """Without a password."""


def publish_study(directory: Path, study: StudySpec, frontier: Frontier, tracking_uri: str) -> Published:
    """Brings the store to what the study directory says; a second time changes nothing.

    Raises:
        UnfitStudyError: the directory holds what no study of ours does.
        TrackError: the store is of no usable kind, down, locked or refuses. The study directory is left as it is.
    """
    check_directory(directory)
    try:
        with (
            exclusive(directory, wait_s=PUBLISH_WAIT_S, holder="another publishing of this study"),
            open_client(tracking_uri) as client,
        ):
            return _publish(client, directory, study, frontier, tracking_uri)
    except TrackError as error:
        raise TrackError(
            f"{error}. The results are safe in {directory}; once that is mended, publish them with "
            f"`python -m bench publish study={shlex.quote(str(directory))}`"
        ) from error


def _publish(
    client: MlflowClient, directory: Path, study: StudySpec, frontier: Frontier, tracking_uri: str
) -> Published:
    times = read_times(directory)
    identity = study_identity(frontier.study, frontier.key, times.origin)
    name = experiment_name(frontier.model, frontier.device)
    experiment_id = find_or_create(client, name, artifact_root(tracking_uri, directory.parent))
    runs = find_runs(client, experiment_id, STUDY_IDENTITY, identity)

    parents = [run for run in runs if run.data.tags.get(KIND) == STUDY_KIND]
    parent, whole = _parent(client, experiment_id, parents, directory, study, frontier, times, identity)
    parent_run_id = parent.info.run_id
    children = [run for run in runs if run.data.tags.get(KIND) == PLACEMENT_KIND]
    audits = {record.placement: record for record in read_records(directory).of(AuditRecord)}
    changes = _publish_placements(
        client, experiment_id, children, study, frontier, times, audits, identity, parent_run_id
    )
    # Last, so that a parent that claims to be whole has all its children.
    fill(client, parent, whole)
    return Published(
        experiment_name=name,
        experiment_id=experiment_id,
        parent_run_id=parent_run_id,
        created=changes[CREATED],
        updated=changes[UPDATED],
        unchanged=changes[UNCHANGED],
        removed=changes["removed"],
        tracking_uri=without_password(tracking_uri),
    )


def _parent(
    client: MlflowClient,
    experiment_id: str,
    parents: list[Run],
    directory: Path,
    study: StudySpec,
    frontier: Frontier,
    times: StudyTimes,
    identity: str,
) -> tuple[Run, RunContent]:
    """The parent run, and what it is to hold: its description shows a figure by the id of the run itself."""

    def content(run_id: str | None) -> RunContent:
        whole = study_content(
            directory, study, frontier, times, identity=identity, experiment_id=experiment_id, run_id=run_id
        )
        return storable(whole)

    parent = keep_or_create(client, experiment_id, parents[0] if parents else None, content(None))
    return parent, content(parent.info.run_id)


def _publish_placements(
    client: MlflowClient,
    experiment_id: str,
    children: list[Run],
    study: StudySpec,
    frontier: Frontier,
    times: StudyTimes,
    audits: Mapping[str, AuditRecord],
    identity: str,
    parent_run_id: str,
) -> Counter[str]:
    existing = first_by_tag(children, PLACEMENT_ID)
    changes: Counter[str] = Counter()
    wanted = {trial.id: trial for trial in frontier.trials if trial.outcome != PENDING}
    for trial in wanted.values():
        content = storable(
            placement_content(
                trial,
                study,
                frontier,
                times,
                identity=identity,
                parent_run_id=parent_run_id,
                audit=audits.get(trial.placement),
            )
        )
        before = existing.get(trial.id)
        changed = fill(client, keep_or_create(client, experiment_id, before, content), content)
        changes[CREATED if before is None else UPDATED if changed else UNCHANGED] += 1
    for run in children:
        placement_id = run.data.tags.get(PLACEMENT_ID, "")
        if placement_id not in wanted or run is not existing[placement_id]:
            client.delete_run(run.info.run_id)
            changes["removed"] += 1
    return changes
