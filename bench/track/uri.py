"""Where tracking stores are: the default one, what kind a URI names, and the line that opens its UI."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from urllib.parse import urlsplit

from bench.track.environment import UI_ONLY
from bench.track.errors import TrackError
from bench.track.secrets import without_password

TRACKING_URI_VARIABLE = "MLFLOW_TRACKING_URI"
DATABASE_FILE = "mlflow.db"
ARTIFACTS_FOLDER = "mlartifacts"
SERVER_SCHEMES = ("http", "https", "databricks")
DATABASE_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql")


def default_tracking_uri(results: Path) -> str:
    """`MLFLOW_TRACKING_URI` when it is set, else a SQLite file in `results` by its absolute path."""
    return os.environ.get(TRACKING_URI_VARIABLE) or f"sqlite:///{results.resolve() / DATABASE_FILE}"


def open_ui_command(uri: str, port: int = 5000) -> str:
    """One shell line that opens the MLflow UI over the store, on 127.0.0.1 and without telemetry.

    A server is its own UI: for one, the line opens a browser there. A password in `uri` is never in the line.

    Raises:
        TrackError: `uri` names no store that MLflow has a UI for.
    """
    if store_scheme(uri) in SERVER_SCHEMES:
        return f"{_program('python')} -m webbrowser {shlex.quote(without_password(uri))}"
    given = shlex.quote(uri) if without_password(uri) == uri else f'"${TRACKING_URI_VARIABLE}"'
    settings = " ".join(f"{name}={value}" for name, value in UI_ONLY.items())
    return f"{settings} {_program('mlflow')} ui --backend-store-uri {given} --host 127.0.0.1 --port {port}"


def store_scheme(uri: str) -> str:
    """`http`, `sqlite`, `postgresql` …, without the driver.

    Raises:
        TrackError: the URI is a folder (MLflow has given file stores up) or of a kind that MLflow does not know.
    """
    scheme = "databricks" if uri == "databricks" else urlsplit(uri).scheme.split("+")[0]
    if scheme in SERVER_SCHEMES + DATABASE_SCHEMES:
        return scheme
    known = "sqlite:///…/mlflow.db, postgresql://…, mysql://…, mssql://…, http://… or https://…"
    if scheme in ("", "file"):
        raise TrackError(
            f"{uri!r} is a folder, and MLflow no longer keeps runs in folders. Set {TRACKING_URI_VARIABLE} to {known}, "
            f"or unset it for the default SQLite file"
        )
    raise TrackError(f"{without_password(uri)!r} is no tracking store that MLflow knows; there are {known}")


def sqlite_file(uri: str) -> Path | None:
    """The database file of a SQLite URI, absolute; None for any other store, and for one in memory."""
    if store_scheme(uri) != "sqlite":
        return None
    path = uri.partition(":///")[2].partition("?")[0]
    return Path(path).resolve() if path and path != ":memory:" else None


def artifact_root(uri: str, results: Path) -> Path | None:
    """Absolute folder of artifacts: beside a SQLite file, else in `results`; None where a server decides.

    MLflow's own default for a database is `./mlruns`, which moves with the working directory.
    """
    if store_scheme(uri) in SERVER_SCHEMES:
        return None
    database = sqlite_file(uri)
    return (database.parent if database else results.resolve()) / ARTIFACTS_FOLDER


def _program(name: str) -> str:
    """The program of the running Python's environment, which need not be on the PATH; relative when it is below."""
    beside = Path(sys.executable).with_name(name)
    if not beside.exists():
        return name
    below = beside.is_relative_to(Path.cwd())
    return shlex.quote(str(beside.relative_to(Path.cwd()) if below else beside))
