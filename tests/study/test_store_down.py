"""A store that does not answer: the command says so soon, exits with 1, and the study is as it was."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.records import RecordWriter, study_path, write_study
from tests.builders import make_records, make_study

SOON_S = 15.0
TIMES = {"none": [100.0, 101.0, 102.0], "blocks.0": [110.0, 112.0, 111.0]}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    study = make_study(("none", "blocks.0"))
    directory = study_path(tmp_path / "results", study)
    write_study(directory, study)
    RecordWriter(directory).append_all(make_records(TIMES, {"none": 900, "blocks.0": 800}).entries)
    return directory


@contextmanager
def server_that_is_down(_: Path) -> Iterator[str]:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens, and nobody else gets the port
        yield f"http://127.0.0.1:{closed.getsockname()[1]}"


@contextmanager
def locked_file(folder: Path) -> Iterator[str]:
    database = folder / "mlflow.db"
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield f"sqlite:///{database}"


@pytest.mark.parametrize("store", [server_that_is_down, locked_file])
def test_publishing_to_a_store_that_is_down_exits_1_and_loses_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: object
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".json", ".jsonl")}
    with store(tmp_path) as uri:  # type: ignore[operator]
        begun = time.monotonic()
        assert main(["publish", f"study={directory.name}", f"tracker.uri={uri}"]) == 1
        taken = time.monotonic() - begun
    said = capsys.readouterr().err
    assert "not published" in said
    assert uri in said
    assert f"The results are safe in {directory}" in said
    assert f"python -m bench publish study={directory}" in said
    assert {name: (directory / name).read_bytes() for name in before} == before
    assert taken < 4 * SOON_S, "it does not wait for a store without end"
