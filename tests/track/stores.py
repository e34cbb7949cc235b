"""Looking into a store as it is on disk, past MLflow's client."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from bench.track import Published
from bench.track.connect import import_mlflow

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

TABLES = ("experiments", "experiment_tags", "runs", "metrics", "latest_metrics", "params", "tags")


def rows(database: Path) -> dict[str, list[str]]:
    """Table → every row of it, whole, so that equality means that nothing was written."""
    connection = sqlite3.connect(database)
    try:
        return {table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}"))) for table in TABLES}
    finally:
        connection.close()


def artifact_state(root: Path) -> dict[str, tuple[int, str]]:
    """Artifact → modification time and digest, so that equality means that nothing was uploaded."""
    return {
        path.relative_to(root).as_posix(): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def client_of(uri: str) -> MlflowClient:
    import_mlflow()
    from mlflow.tracking import MlflowClient

    return MlflowClient(uri)


def parent_of(published: Published) -> Run:
    return client_of(published.tracking_uri).get_run(published.parent_run_id)


def children_of(published: Published) -> dict[str, Run]:
    """Placement id → run."""
    runs = client_of(published.tracking_uri).search_runs(
        [published.experiment_id], f"tags.`mlflow.parentRunId` = '{published.parent_run_id}'", max_results=1000
    )
    assert len({run.data.tags["placement_id"] for run in runs}) == len(runs)
    return {run.data.tags["placement_id"]: run for run in runs}


def artifact_path(run: Run, name: str) -> Path:
    from mlflow.utils.file_utils import local_file_uri_to_path

    return Path(local_file_uri_to_path(run.info.artifact_uri)) / name
