"""Real services that tests start and stop on 127.0.0.1: a PostgreSQL cluster and MLflow servers."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.track.environment import UI_ONLY

REQUIRED_VARIABLE = "BOUNDARY_BENCH_SERVICES"
"""`required`, as CI sets it once `.ci/services` has installed them: what is missing then fails, and does not skip."""
START_S = 120
STOP_S = 30
DEBIAN_PROGRAMS = Path("/usr/lib/postgresql")
OWNERS = ("postgres", "nobody")
"""Users to run PostgreSQL as where the tests run as root, which it refuses."""


def missing(what: str) -> None:
    """Ends the test: skipped, with what would install it, or failed where services are required."""
    told = f"{what} is not installed; `.ci/services` installs it on Debian"
    if os.environ.get(REQUIRED_VARIABLE) == "required":
        pytest.fail(told)
    pytest.skip(told)


@dataclass(frozen=True, kw_only=True)
class Postgres:
    port: int
    user: str
    password: str

    def uri(self, database: str) -> str:
        """Without the password, which the environment has."""
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{database}"

    @property
    def environment(self) -> dict[str, str]:
        return {"PGPASSWORD": self.password}

    def create(self, database: str) -> str:
        """Makes an empty database. Returns its URI."""
        self.query("postgres", f'CREATE DATABASE "{database}"')
        return self.uri(database)

    def query(self, database: str, statement: str) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.uri(database), password=self.password, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def postgres_cluster() -> Iterator[Postgres]:
    """A cluster of its own in a temporary folder, reached over 127.0.0.1 with a password alone."""
    initdb, server = _postgres_program("initdb"), _postgres_program("postgres")
    account = _account()
    # Not pytest's folder, which no other user may enter.
    folder = Path(tempfile.mkdtemp(prefix="boundary-bench-postgres-"))
    cluster = Postgres(port=free_port(), user="bench", password=secrets.token_hex(8))
    password_file, log = folder / "password", folder / "log"
    password_file.write_text(cluster.password)
    log.touch()
    if account is not None:
        for path in (folder, password_file, log):
            shutil.chown(path, account.pw_name)
    as_account = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    try:
        made = subprocess.run(
            [
                *(initdb, "--pgdata", folder / "data", "--username", cluster.user, "--auth", "scram-sha-256"),
                *("--pwfile", password_file, "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
            ],
            **as_account,
            cwd="/",
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        with log.open("ab") as output:
            process = subprocess.Popen(
                [server, "-D", folder / "data", "-h", "127.0.0.1", "-p", str(cluster.port), "-k", "", "-F"],
                **as_account,
                cwd="/",
                stdout=output,
                stderr=output,
            )
        try:
            _wait_for_postgres(cluster, process, log)
            yield cluster
        finally:
            process.send_signal(signal.SIGINT)  # disconnects its clients
            process.wait(timeout=STOP_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def mlflow_server(
    store: str, folder: Path, *, environment: Mapping[str, str] | None = None, workers: int = 1, options: str = ""
) -> Iterator[str]:
    """`mlflow server` as docs/server.md starts it, its artifacts and log in `folder`. Yields its URL."""
    port = free_port()
    command = f"-m mlflow server --host 127.0.0.1 --port {port} --workers {workers} {options}"
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command.split(), "--artifacts-destination", str(folder / "served")],
            stdout=output,
            stderr=output,
            cwd=folder,
            env=os.environ | UI_ONLY | {"MLFLOW_BACKEND_STORE_URI": store} | dict(environment or {}),
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for_http(f"{url}/health", process, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(timeout=STOP_S)
        finally:
            _end_group(process.pid)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _postgres_program(name: str) -> Path:
    """Debian keeps the server's programs off the PATH, a folder a version; the newest is taken."""
    versions = sorted(DEBIAN_PROGRAMS.glob(f"*/bin/{name}"), key=lambda path: float(path.parents[1].name))
    found = versions[-1] if versions else shutil.which(name)
    if found is None:
        missing("PostgreSQL (package postgresql)")
    return Path(str(found))


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next((known[name] for name in OWNERS if name in known), None)


def _wait_for_postgres(cluster: Postgres, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            cluster.query("postgres", "SELECT 1")
            return
        except psycopg.OperationalError:
            time.sleep(0.1)  # a real server, which cannot be told to be up
    pytest.fail(f"PostgreSQL did not come up:\n{log.read_text()[-2000:]}")


def _wait_for_http(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)  # a real server, which cannot be told to be up
    pytest.fail(f"the MLflow server did not come up:\n{log.read_text()[-2000:]}")


def _end_group(group: int) -> None:
    """Workers that outlive the server that started them."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
