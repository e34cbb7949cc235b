"""A server that several people share: PostgreSQL from Debian's packages, a real MLflow server, several writers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.track import TrackError, open_ui_command, publish_study
from tests.track.services import Postgres, mlflow_server
from tests.track.stores import client_of
from tests.track.synthetic import make_all, ok_trials
from tests.track.test_server import assert_nowhere

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
NUM_WRITERS, NUM_RUNS = 4, 50
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from bench.track import publish_study
from bench.track.connect import import_mlflow
from tests.track.synthetic import make_all, ok_trials
results, number, uri = Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
directory, study, frontier = make_all(results / f"writer{number}", ok_trials(int(sys.argv[5])))
samples = directory / "samples.jsonl"
samples.write_text(samples.read_text().replace("feed0123", f"feed000{number}"))
import_mlflow()
print("ready", flush=True)
sys.stdin.readline()
published = publish_study(directory, study, frontier, uri)
print(published.created, published.unchanged)
"""


@pytest.fixture
def database(postgres: Postgres, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """URI of an empty database; the password is in the environment, as on a person's machine."""
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    return postgres.create(f"test{abs(hash(request.node.nodeid)):x}")


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[str]:
    with mlflow_server(database, tmp_path, workers=2) as url:
        yield url


def test_four_writers_of_fifty_runs_each_lose_nothing_on_a_server(
    server: str, database: str, postgres: Postgres, tmp_path: Path
) -> None:
    assert write_at_once(server, tmp_path) == [(NUM_RUNS - 1, 0)] * NUM_WRITERS
    check_all_there(server, database, postgres)
    for number in range(NUM_WRITERS):
        artifacts = {file.path for file in client_of(server).list_artifacts(parents(server)[number].info.run_id)}
        assert {"frontier.json", "study.json", "plots"} <= artifacts
    before = count_rows(database, postgres)
    assert write_at_once(server, tmp_path) == [(0, NUM_RUNS - 1)] * NUM_WRITERS
    assert count_rows(database, postgres) == before


def test_four_writers_of_fifty_runs_each_lose_nothing_without_a_server(
    database: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Each speaks to PostgreSQL itself, the very first of them to an empty database that has to be set up."""
    assert write_at_once(database, tmp_path) == [(NUM_RUNS - 1, 0)] * NUM_WRITERS
    check_all_there(database, database, postgres)


def test_a_wrong_password_is_told_soon_with_what_to_set_and_without_itself(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong-horse-battery")
    with pytest.raises(TrackError, match=r"password authentication failed for user .*set PGPASSWORD") as error:
        publish_study(*make_all(tmp_path, ok_trials(1)), database)
    assert "horse" not in str(error.value)


def test_the_password_is_in_nothing_that_publishing_writes(
    server: str, database: str, postgres: Postgres, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither that of the server's database, nor one in the address that a person publishes to."""
    with_password = database.replace("bench@", f"bench:{postgres.password}@")
    publish_study(*make_all(tmp_path / "one", ok_trials(2)), server)
    published = publish_study(*make_all(tmp_path / "two", ok_trials(2)), with_password)
    assert postgres.password not in published.tracking_uri
    assert postgres.password not in open_ui_command(with_password)
    assert postgres.password not in capfd.readouterr().out
    assert_nowhere(postgres.password, tmp_path)
    tables = [str(row[0]) for row in postgres.query(name_of(database), TABLES)]
    assert {"runs", "tags", "params"} <= set(tables)
    for table in tables:
        assert postgres.password not in str(postgres.query(name_of(database), f'SELECT * FROM "{table}"'))


def test_the_services_listen_on_this_machine_alone(server: str, postgres: Postgres) -> None:
    """As they were started by the commands of docs/server.md: every listening socket of theirs is on 127.0.0.1."""
    ports = {int(server.rpartition(":")[2]), postgres.port}
    addresses = {
        (int(port, 16), address)
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        for address, port in [line.split()[1].split(":")]
        if line.split()[3] == "0A" and int(port, 16) in ports
    }
    assert addresses == {(port, "0100007F") for port in ports}


TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"


def write_at_once(uri: str, folder: Path) -> list[tuple[int, int]]:
    """Four processes publish a study of 49 placements each, all begun at one moment. Returns (created, unchanged)."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WRITER, ROOT, folder, str(number), uri, str(NUM_RUNS - 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for number in range(NUM_WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n", writer.communicate()[1]
    outputs = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        out, errors = writer.communicate(timeout=600)
        assert errors == "", "nothing else is on the terminal"
        created, unchanged = map(int, out.split())
        outputs.append((created, unchanged))
    return outputs


def check_all_there(uri: str, database: str, postgres: Postgres) -> None:
    """Every run, param and metric of every writer, once, by what the records say."""
    client = client_of(uri)
    studies = parents(uri)
    assert len(studies) == NUM_WRITERS
    expected = {trial.id: trial for trial in ok_trials(NUM_RUNS - 1)}
    for study in studies:
        runs = client.search_runs(
            [study.info.experiment_id], f"tags.`mlflow.parentRunId` = '{study.info.run_id}'", max_results=1000
        )
        by_id = {run.data.tags["placement_id"]: run for run in runs}
        assert len(runs) == len(by_id) == NUM_RUNS - 1
        for identifier, trial in expected.items():
            run = by_id[identifier]
            assert run.info.status == "FINISHED"
            assert run.data.params["placement"] == trial.placement
            assert run.data.metrics["time/step_time_ms"] == pytest.approx(trial.step_time_ms)
            assert run.data.metrics["memory/peak_allocated_bytes"] == trial.peak_allocated_bytes
    [(num_runs,)] = postgres.query(name_of(database), "SELECT count(*) FROM runs")
    assert num_runs == NUM_WRITERS * NUM_RUNS
    [(num_experiments,)] = postgres.query(
        name_of(database), "SELECT count(*) FROM experiments WHERE name LIKE 'gpt2/%'"
    )
    assert num_experiments == 1


def parents(uri: str) -> list:
    client = client_of(uri)
    [experiment] = [found for found in client.search_experiments() if found.name.startswith("gpt2/")]
    return client.search_runs([experiment.experiment_id], "tags.`boundary_bench.kind` = 'study'")


def count_rows(database: str, postgres: Postgres) -> dict[str, object]:
    tables = ("runs", "metrics", "latest_metrics", "params", "tags", "experiment_tags")
    return {name: postgres.query(name_of(database), f"SELECT count(*) FROM {name}")[0][0] for name in tables}


def name_of(database: str) -> str:
    return database.rpartition("/")[2]
