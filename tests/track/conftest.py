from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.track.connect import open_client
from tests.track.services import Postgres, postgres_cluster


@pytest.fixture(autouse=True)
def no_user_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("MLFLOW_TRACKING_URI", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"),
        *("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "PGPASSWORD"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file without runs: MLflow takes more than a second to make one."""
    database = tmp_path_factory.mktemp("store") / "mlflow.db"
    with open_client(f"sqlite:///{database}"):
        return database


@pytest.fixture
def results(tmp_path: Path, empty_store: Path) -> Path:
    """A results folder whose default store is there and empty."""
    shutil.copyfile(empty_store, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running cluster."""
    with postgres_cluster() as cluster:
        yield cluster
