"""A parent run with a run under it a placement: one writer, and as often as one likes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.track.connect import open_client
from bench.track.content import RunContent, storable
from bench.track.errors import TrackError
from bench.track.experiment import find_or_create
from bench.track.intake import check_directory
from bench.track.lock import exclusive
from bench.track.secrets import without_password
from bench.track.sync import CREATED, UNCHANGED, UPDATED, fill, find_runs, first_by_tag, keep_or_create
from bench.track.tags import KIND, PLACEMENT_ID
from bench.track.uri import artifact_root

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

PUBLISH_WAIT_S = 30.0
REMOVED = "removed"


@dataclass(frozen=True, kw_only=True)
class Family:
    """What the store is to hold of one directory."""

    experiment: str
    identity_tag: str
    identity: str
    """Value of the tag, in all its runs and in no others."""
    parent_kind: str
    child_kind: str
    parent: Callable[[str, str | None], RunContent]
    """(experiment's id, the run's own id), for its links and figures; its own is None until there is one."""
    children: Mapping[str, Callable[[str], RunContent]]
    """Placement id → of the parent's run id, the content of the placement's run."""
    prepare: Callable[[MlflowClient, str], None] | None = None
    """Done to the experiment (its id) before."""


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
    """Child runs of placements that are gone, or not measured any more; they are in MLflow's bin."""
    tracking_uri: str
    """Without a password."""


def publish_family(directory: Path, read: Callable[[], Family], tracking_uri: str, *, what: str) -> Published:
    """Brings the store to what the directory says; a second time changes nothing.

    Args:
        read: makes the family from the directory, once nobody else is publishing it.
        what: the directory in an error's words (`study`).

    Raises:
        UnfitStudyError: the directory holds what none of ours does, such as links.
        TrackError: the store is of no usable kind, down, locked or refuses. The directory is left as it is.
    """
    check_directory(directory)
    try:
        with (
            exclusive(directory, wait_s=PUBLISH_WAIT_S, holder=f"another publishing of this {what}"),
            open_client(tracking_uri) as client,
        ):
            return _publish(client, directory, read(), tracking_uri)
    except TrackError as error:
        raise TrackError(
            f"{error}. The results are safe in {directory}; once that is mended, publish them with "
            f"`python -m bench publish study={shlex.quote(str(directory))}`"
        ) from error


def _publish(client: MlflowClient, directory: Path, family: Family, tracking_uri: str) -> Published:
    experiment_id = find_or_create(client, family.experiment, artifact_root(tracking_uri, directory.parent))
    if family.prepare is not None:
        family.prepare(client, experiment_id)
    runs = find_runs(client, experiment_id, family.identity_tag, family.identity)
    parents = [run for run in runs if run.data.tags.get(KIND) == family.parent_kind]
    first = storable(family.parent(experiment_id, None))
    parent = keep_or_create(client, experiment_id, parents[0] if parents else None, first)
    children = [run for run in runs if run.data.tags.get(KIND) == family.child_kind]
    changes = _publish_children(client, experiment_id, children, family.children, parent.info.run_id)
    # Last, so that a parent that claims to be whole has all its children.
    fill(client, parent, storable(family.parent(experiment_id, parent.info.run_id)))
    return Published(
        experiment_name=family.experiment,
        experiment_id=experiment_id,
        parent_run_id=parent.info.run_id,
        created=changes[CREATED],
        updated=changes[UPDATED],
        unchanged=changes[UNCHANGED],
        removed=changes[REMOVED],
        tracking_uri=without_password(tracking_uri),
    )


def _publish_children(
    client: MlflowClient,
    experiment_id: str,
    children: list[Run],
    wanted: Mapping[str, Callable[[str], RunContent]],
    parent_run_id: str,
) -> Counter[str]:
    existing = first_by_tag(children, PLACEMENT_ID)
    changes: Counter[str] = Counter()
    for placement_id, content_under in wanted.items():
        content = storable(content_under(parent_run_id))
        before = existing.get(placement_id)
        changed = fill(client, keep_or_create(client, experiment_id, before, content), content)
        changes[CREATED if before is None else UPDATED if changed else UNCHANGED] += 1
    for run in children:
        placement_id = run.data.tags.get(PLACEMENT_ID, "")
        if placement_id not in wanted or run is not existing[placement_id]:
            client.delete_run(run.info.run_id)
            changes[REMOVED] += 1
    return changes
