"""One client of one store: MLflow is imported here and nowhere else, and a store that is down is told soon."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from bench.track.environment import (
    FIRST_CONTACT,
    WHILE_PUBLISHING,
    disable_telemetry,
    environment_defaults,
    quiet_loggers,
)
from bench.track.errors import TrackError
from bench.track.lock import exclusive
from bench.track.secrets import without_password, without_secrets
from bench.track.sqlite import one_use
from bench.track.uri import DATABASE_SCHEMES, sqlite_file, store_scheme

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

CREATION_WAIT_S = 30.0
MIGRATION_WAIT_S = 120
LOCKED_WAIT_S = 8.0
CONNECT_TIMEOUT_S = 5
CREATION_LOCK = 0x626F756E64617279
"""Number of a PostgreSQL advisory lock: "boundary" in ASCII."""
HINTS = {
    "error code 401": "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
    "error code 403": "this user may not write there; ask whoever runs the server",
    "password authentication failed": "set PGPASSWORD, or write the password into ~/.pgpass",
    "no password supplied": "set PGPASSWORD, or write the password into ~/.pgpass",
    "No module named 'psycopg": "install the driver: pip install 'psycopg[binary]'",
}
"""What to do about an error that says this."""


@contextmanager
def open_client(uri: str, *, only_reads: bool = False) -> Iterator[MlflowClient]:
    """A client of the store at `uri`, which answered once; `only_reads` spares the preparations for writing.

    Raises:
        TrackError: the store is of no usable kind, or does not answer, is locked or refuses; also when it fails so
            while the caller uses the client.
    """
    scheme = store_scheme(uri)
    import_mlflow()
    with _told_as_track_error(uri), quiet_loggers():
        with environment_defaults(FIRST_CONTACT):
            client = _sqlite_client(uri) if scheme == "sqlite" else _client(uri, scheme)
        with environment_defaults(WHILE_PUBLISHING), _one_use(client, uri, scheme, only_reads):
            yield client


def import_mlflow() -> None:
    """Imports what publishing needs of MLflow, without telemetry and without its import-time deprecations."""
    disable_telemetry()
    with warnings.catch_warnings():
        # SQLAlchemy 2.1 deprecates the `noload` that MLflow's tables are declared with; nothing a user can act on.
        warnings.simplefilter("ignore", DeprecationWarning)
        import mlflow.store.tracking.sqlalchemy_store
        import mlflow.tracking  # noqa: F401


def _client(uri: str, scheme: str) -> MlflowClient:
    from mlflow.tracking import MlflowClient

    guard = _connected_once(uri, scheme) if scheme in DATABASE_SCHEMES and scheme != "sqlite" else nullcontext()
    with guard:
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
    return client


def _sqlite_client(uri: str) -> MlflowClient:
    """Two first users of one file would race in its migration, so the first contact is made one at a time."""
    database = sqlite_file(uri)
    if database is None:
        return _client(uri, "sqlite")
    database.parent.mkdir(parents=True, exist_ok=True)
    guard = exclusive(
        database.with_name(f".{database.name}.lock"), wait_s=CREATION_WAIT_S, holder="another process that opens it"
    )
    with guard:
        _write_lock_once(database)
        return _client(uri, "sqlite")


def _one_use(client: MlflowClient, uri: str, scheme: str, only_reads: bool) -> AbstractContextManager[None]:
    database = sqlite_file(uri) if scheme == "sqlite" else None
    if database is None:
        return nullcontext()
    return one_use(client._tracking_client.store.engine, database, only_reads=only_reads)


def _write_lock_once(database: Path) -> None:
    """MLflow tries ten times, for minutes, to open a database that is locked or none; SQLite says so at once."""
    connection = sqlite3.connect(database, timeout=LOCKED_WAIT_S, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@contextmanager
def _connected_once(uri: str, scheme: str) -> Iterator[None]:
    """MLflow tries ten times, for minutes, to reach a database server that is down; this tells it soon.

    On PostgreSQL a lock is held meanwhile: several first users of an empty database would race in its migration, and
    MLflow's own guard, a file in the temporary directory, is seen on one machine alone.
    """
    import sqlalchemy

    limit = {"connect_timeout": CONNECT_TIMEOUT_S} if scheme in ("postgresql", "mysql") else {}
    engine = sqlalchemy.create_engine(uri, connect_args=limit)
    try:
        with engine.connect() as connection:
            if scheme == "postgresql":
                connection.execute(sqlalchemy.text(f"SET lock_timeout = '{MIGRATION_WAIT_S}s'"))
                connection.execute(sqlalchemy.text(f"SELECT pg_advisory_lock({CREATION_LOCK})"))
            yield
    finally:
        engine.dispose()


@contextmanager
def _told_as_track_error(uri: str) -> Iterator[None]:
    import requests
    import sqlalchemy.exc
    from mlflow.exceptions import MlflowException

    try:
        yield
    except TrackError as error:
        raise TrackError(f"MLflow store {without_password(uri)}: {error}") from error
    except (
        MlflowException,
        sqlalchemy.exc.SQLAlchemyError,
        sqlite3.Error,
        requests.RequestException,
        OSError,
        # A database driver or an object store's library that is not installed.
        ImportError,
    ) as error:
        what = without_secrets(_first_line(error), uri)
        hints = [f" ({hint})" for said, hint in HINTS.items() if said in str(error)]
        raise TrackError(f"MLflow store {without_password(uri)}: {what}{''.join(hints)}") from error


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
