"""Which store is used, who may write to it at once, and what is said when it does not answer."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.track import TrackError, default_tracking_uri, open_ui_command, publish_study
from bench.track.connect import import_mlflow
from tests.track.stores import artifact_path, children_of, client_of, parent_of
from tests.track.synthetic import make_all, ok_trials

ROOT = Path(__file__).parents[2]


def test_the_default_store_is_a_sqlite_file_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_tracking_uri(Path("results")) == f"sqlite:///{tmp_path}/results/mlflow.db"


def test_mlflow_tracking_uri_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5001")
    assert default_tracking_uri(tmp_path) == "http://127.0.0.1:5001"


def test_nothing_depends_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, elsewhere = tmp_path / "my results #1", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    directory, study, frontier = make_all(results, ok_trials(1))
    uri = default_tracking_uri(Path("my results #1"))
    monkeypatch.chdir(elsewhere)
    published = publish_study(directory, study, frontier, uri)
    assert artifact_path(parent_of(published), "study.json").is_relative_to(results / "mlartifacts")
    assert artifact_path(parent_of(published), "study.json").is_file()
    assert list(elsewhere.iterdir()) == []
    assert publish_study(directory, study, frontier, uri).unchanged == 1


def test_two_first_users_of_one_sqlite_file_lose_nothing(tmp_path: Path) -> None:
    """Each of two processes publishes a study of its own into a file that does not exist yet."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from tests.track.synthetic import make_all, ok_trials\n"
        "from bench.track import default_tracking_uri, publish_study\n"
        "results = Path(sys.argv[1]).parent\n"
        "everything = make_all(results, ok_trials(20), model=Path(sys.argv[1]).name)\n"
        "print(publish_study(*everything, default_tracking_uri(results)).created)\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, str(tmp_path / model), str(ROOT)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # MLflow guards the creation by a file in the temporary directory, which two users need not share.
            env=os.environ | {"TMPDIR": str(_folder(tmp_path / f"tmp-{model}"))},
        )
        for model in ("gpt2", "t5")
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert outputs == [("20\n", ""), ("20\n", "")], "nothing else is on the terminal either"
    client = client_of(default_tracking_uri(tmp_path))
    names = [experiment.name for experiment in client.search_experiments() if "/" in experiment.name]
    assert len(names) == 2
    for name in names:
        experiment = client.get_experiment_by_name(name)
        assert len(client.search_runs([experiment.experiment_id])) == 21


def test_a_server_that_is_down_is_told_soon_and_says_that_results_are_safe(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        uri = f"http://user:hunter2@127.0.0.1:{closed.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(TrackError) as error:
            publish_study(*make_all(tmp_path, ok_trials(1)), uri)
    assert time.monotonic() - begun < 15
    message = str(error.value)
    assert "http://user:***@127.0.0.1" in message
    assert "hunter2" not in message
    assert "results are safe in" in message
    assert f"python -m bench publish study={tmp_path}" in message


def test_a_server_that_never_answers_is_given_up_soon(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        with pytest.raises(TrackError, match="results are safe"):
            publish_study(*make_all(tmp_path, ok_trials(1)), f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert time.monotonic() - begun < 15


def test_http_limits_of_the_user_are_kept_and_ours_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackError):
        publish_study(*make_all(tmp_path, ok_trials(1)), "http://127.0.0.1:9")
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0"
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ


def test_a_locked_sqlite_file_is_told_soon(tmp_path: Path) -> None:
    everything = make_all(tmp_path, ok_trials(1))
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        with pytest.raises(TrackError, match=r"database is locked.*results are safe"):
            publish_study(*everything, default_tracking_uri(tmp_path))
    assert time.monotonic() - begun < 15


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    everything = make_all(tmp_path, ok_trials(1))
    (tmp_path / "mlflow.db").write_text("this is no database " * 100)
    with pytest.raises(TrackError, match="not a database"):
        publish_study(*everything, default_tracking_uri(tmp_path))


def test_a_store_deleted_under_a_running_process_is_told_not_written_to(tmp_path: Path) -> None:
    everything = make_all(tmp_path, ok_trials(1))
    publish_study(*everything, default_tracking_uri(tmp_path))
    (tmp_path / "mlflow.db").unlink()
    with pytest.raises(TrackError, match="no such table"):
        publish_study(*everything, default_tracking_uri(tmp_path))


@pytest.mark.parametrize("uri", ["./mlruns", "file:///tmp/mlruns"])
def test_a_folder_as_store_is_refused_with_what_to_set_instead(tmp_path: Path, uri: str) -> None:
    with pytest.raises(TrackError, match=r"MLflow no longer keeps runs in folders\. Set MLFLOW_TRACKING_URI"):
        publish_study(*make_all(tmp_path, ok_trials(1)), uri)


def test_an_unknown_kind_of_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match="no tracking store that MLflow knows"):
        publish_study(*make_all(tmp_path, ok_trials(1)), "ftp://host/x")


def test_a_missing_study_directory_is_told(tmp_path: Path) -> None:
    _, study, frontier = make_all(tmp_path, ok_trials(1))
    with pytest.raises(TrackError, match="there is no such study directory"):
        publish_study(tmp_path / "absent", study, frontier, default_tracking_uri(tmp_path))


def test_a_measured_study_can_be_published_without_plots_and_tables(tmp_path: Path) -> None:
    directory, study, frontier = make_all(tmp_path, ok_trials(1))
    for path in [*directory.glob("plots/*"), *directory.glob("*.json*"), *directory.glob("*.csv")]:
        path.unlink()
    published = publish_study(directory, study, frontier, default_tracking_uri(tmp_path))
    assert set(children_of(published)) == {"id000000"}


def test_the_ui_line_binds_to_this_machine_and_sends_no_telemetry() -> None:
    line = open_ui_command("sqlite:////my results/mlflow.db", 5010)
    assert line.startswith("MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true ")
    assert line.endswith("mlflow ui --backend-store-uri 'sqlite:////my results/mlflow.db' --host 127.0.0.1 --port 5010")


def test_the_ui_line_never_shows_a_password() -> None:
    assert '--backend-store-uri "$MLFLOW_TRACKING_URI"' in open_ui_command("postgresql://me:hunter2@host/db")
    assert "hunter2" not in open_ui_command("https://me:hunter2@host")


def test_a_server_is_its_own_ui() -> None:
    assert open_ui_command("http://host:5000").endswith("-m webbrowser http://host:5000")


def test_publishing_imports_no_torch_and_importing_the_room_no_mlflow() -> None:
    script = (
        "import sys, bench.track; assert 'mlflow' not in sys.modules\n"
        "from bench.track.connect import import_mlflow; import_mlflow()\n"
        "import os; assert os.environ['DO_NOT_TRACK'] == os.environ['MLFLOW_DISABLE_TELEMETRY'] == 'true'\n"
        "import mlflow.telemetry.client as t; assert t.get_telemetry_client() is None\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=ROOT, check=True, timeout=60)


def test_importing_mlflow_twice_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    import_mlflow()
    import_mlflow()
    assert capsys.readouterr() == ("", "")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
