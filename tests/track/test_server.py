"""The same through a real MLflow server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.track import TrackError, publish_study
from tests.track.services import mlflow_server
from tests.track.stores import children_of, client_of, parent_of, rows
from tests.track.synthetic import failed_trial, make_all, ok_trials

pytestmark = pytest.mark.slow


@pytest.fixture
def server(results: Path) -> Iterator[str]:
    with mlflow_server(f"sqlite:///{results}/mlflow.db", results) as url:
        yield url


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


def test_a_server_with_accounts_takes_them_from_the_environment_and_nothing_keeps_the_password(
    results: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flask_wtf", reason="MLflow's accounts need Flask-WTF: pip install 'mlflow[auth]'")
    settings = results / "auth.ini"
    settings.write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{results}/auth.db\nadmin_username = ada\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    environment = {
        "MLFLOW_AUTH_CONFIG_PATH": str(settings),
        "MLFLOW_AUTH_ADMIN_PASSWORD": "correct-horse-battery",
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "for-this-test",
    }
    everything = make_all(results, ok_trials(2))
    store = f"sqlite:///{results}/mlflow.db"
    with mlflow_server(store, results, environment=environment, options="--app-name basic-auth") as url:
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong-horse-battery")
        with pytest.raises(TrackError, match="set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD") as error:
            publish_study(*everything, url)
        assert "horse" not in str(error.value)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "correct-horse-battery")
        published = publish_study(*everything, url)
        assert len(children_of(published)) == 2
    assert capfd.readouterr() == ("", "")
    assert_nowhere("correct-horse-battery", results)


def assert_nowhere(secret: str, folder: Path) -> None:
    """No file below `folder` holds `secret`: database, artifacts, study directory, the server's log."""
    holders = [
        Path(parent) / name
        for parent, _, names in os.walk(folder)
        for name in names
        if secret.encode() in (Path(parent) / name).read_bytes()
    ]
    assert holders == []
