"""The same through a real MLflow server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.track import publish_study
from bench.track.environment import UI_ONLY
from tests.track.stores import children_of, client_of, parent_of, rows
from tests.track.synthetic import failed_trial, make_all, ok_trials

pytestmark = pytest.mark.slow

START_S = 120


@pytest.fixture
def server(results: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = (
        f"-m mlflow server --host 127.0.0.1 --port {port} --workers 1 "
        f"--backend-store-uri sqlite:///{results}/mlflow.db --artifacts-destination {results}/served"
    )
    process = subprocess.Popen(
        [sys.executable, *command.split()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | UI_ONLY,
    )
    try:
        wait_until_up(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)  # a real server, which cannot be told to be up
    pytest.fail("the server did not come up")


def test_a_server_takes_a_study_in_quietly_and_a_second_time_changes_nothing(
    results: Path, server: str, capfd: pytest.CaptureFixture[str]
) -> None:
    everything = make_all(results, (*ok_trials(), failed_trial("x" * 7000, 8)))
    first = publish_study(*everything, server)
    assert capfd.readouterr() == ("", "")
    assert len(children_of(first)) == 5
    artifacts = {file.path for file in client_of(server).list_artifacts(first.parent_run_id)}
    assert artifacts == {"environment.json", "frontier.csv", "frontier.json", "plots", "study.json"}
    assert parent_of(first).info.artifact_uri.startswith("mlflow-artifacts:/"), "the server decides where they are"
    before = rows(results / "mlflow.db")
    assert publish_study(*everything, server).unchanged == 5
    assert rows(results / "mlflow.db") == before
