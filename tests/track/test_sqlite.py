"""A SQLite store while it is published to, and how it is left."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from bench.track import TrackError, default_tracking_uri, publish_study
from bench.track.connect import open_client
from tests.track.stores import children_of, rows
from tests.track.synthetic import make_all, ok_trials


def journal_of(database: Path) -> str:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_a_published_store_is_one_file_in_the_mode_it_was_in(results: Path) -> None:
    database = results / "mlflow.db"
    publish_study(*make_all(results, ok_trials(2)), default_tracking_uri(results))
    assert journal_of(database) == "delete"
    assert [path.name for path in results.glob("mlflow.db*")] == ["mlflow.db"]


def test_a_store_that_its_owner_gave_a_log_keeps_it(results: Path) -> None:
    database = results / "mlflow.db"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    publish_study(*make_all(results, ok_trials(1)), default_tracking_uri(results))
    assert journal_of(database) == "wal"


def test_a_reader_that_has_the_file_open_is_not_in_the_way(results: Path) -> None:
    """As MLflow's UI is."""
    with contextlib.closing(sqlite3.connect(results / "mlflow.db", isolation_level=None)) as reader:
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (0,)
        published = publish_study(*make_all(results, ok_trials(2)), default_tracking_uri(results))
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (3,)
    assert set(children_of(published)) == {"id000000", "id000001"}


def test_what_was_published_survives_the_log(results: Path) -> None:
    publish_study(*make_all(results, ok_trials(3)), default_tracking_uri(results))
    assert len(rows(results / "mlflow.db")["runs"]) == 4


def test_a_store_replaced_while_it_is_written_to_is_told(results: Path) -> None:
    def use_while_it_is_replaced() -> None:
        with open_client(default_tracking_uri(results)):
            (results / "other.db").write_bytes(database.read_bytes())
            (results / "other.db").replace(database)

    database = results / "mlflow.db"
    with pytest.raises(TrackError, match="was deleted or replaced while it was written to"):
        use_while_it_is_replaced()
