"""How long reading and publishing take at scale. `python -m tests.scale` prints the figures on this machine.

Imports and the interpreter's start are not in them; the store is there and migrated before anything is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.cli.studies import find_study
from bench.frontier import Frontier, read_frontier
from bench.frontier.store import load_frontier
from bench.records import read_records, read_study
from bench.track import Published, default_tracking_uri, publish_study, published_frontier
from bench.track.connect import open_client
from tests.synthetic_studies import write_similar_studies, write_synthetic_study

RUN_TABLES = ("runs", "params", "metrics", "latest_metrics", "tags")
Figures = dict[str, float]
"""What was done → seconds."""


def time_reading(results: Path, num_studies: int) -> Figures:
    """One study's frontier among `num_studies` directories of 16 placements in 20 rounds."""
    template = write_synthetic_study(results, seed=0)
    directories = write_similar_studies(results, template, range(1, num_studies))
    wanted = directories[len(directories) // 2]
    figures: Figures = {}
    for what, name in {
        "its name": wanted.name,
        "its key": wanted.name.rpartition("-")[2],
        "no name (the newest)": None,
    }.items():
        with timed(figures, f"frontier of one of {num_studies} studies, by {what}"):
            assert load_frontier(find_study(name, results)).trials
    (wanted / "frontier.json").unlink()
    with timed(figures, f"frontier of one of {num_studies} studies, built from its records"):
        assert load_frontier(find_study(wanted.name, results)).trials
    return figures


def time_records(results: Path) -> Figures:
    """Reading the records of 100 placements in 20 rounds."""
    figures: Figures = {}
    directory = write_synthetic_study(results, seed=0, num_placements=100)
    with timed(figures, "records of 2000 time samples"):
        read_records(directory)
    return figures


def time_publishing(results: Path, num_placements: int) -> Figures:
    figures: Figures = {}
    directory = write_synthetic_study(results, seed=0, num_placements=num_placements, num_rounds=5)
    uri = make_store(results)
    for what in ("publishing", "publishing again"):
        with timed(figures, f"{what} a study of {num_placements} placements"):
            publish(directory, uri)
    return figures


def time_published(results: Path, num_studies: int) -> Figures:
    """One study's frontier out of a store of `num_studies` studies of 16 placements."""
    figures: Figures = {}
    directory = write_synthetic_study(results, seed=0)
    uri = make_store(results)
    published = publish(directory, uri)
    multiply_runs(results / "mlflow.db", num_studies - 1)
    with timed(figures, f"frontier of one of {num_studies} published studies, by run id"):
        frontier = published_frontier(published.parent_run_id, uri)
    assert frontier == read_frontier(directory)
    other = write_synthetic_study(results, seed=1)
    with timed(figures, f"publishing a study of 16 placements beside {num_studies} others"):
        publish(other, uri)
    return figures


def make_store(results: Path) -> str:
    uri = default_tracking_uri(results)
    with open_client(uri):
        return uri


def publish(directory: Path, uri: str) -> Published:
    frontier: Frontier = read_frontier(directory)
    return publish_study(directory, read_study(directory), frontier, uri)


def multiply_runs(database: Path, times: int) -> None:
    """Every run of the store `times` more, under run ids of their own: rows as publishing leaves them, thousands a
    second. Copies have no artifacts."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        columns = {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in RUN_TABLES}
        connection.execute("CREATE TEMP TABLE copies AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                           f"FROM n WHERE i < {times}) SELECT printf('%08x', i) AS head FROM n")  # fmt: skip
        for table in RUN_TABLES:
            connection.execute(f"CREATE TEMP TABLE old_{table} AS SELECT * FROM {table}")
        for table, names in columns.items():
            # The first 8 of the 32 random digits of an id tell copies apart, also where a child names its parent.
            values = ", ".join(
                f"copies.head || substr(old.{name}, 9)"
                if name == "run_uuid"
                else "CASE old.key WHEN 'mlflow.parentRunId' THEN copies.head || substr(old.value, 9) "
                "WHEN 'boundary_bench.study' THEN copies.head || substr(old.value, 9) ELSE old.value END"
                if (table, name) == ("tags", "value")
                else f"old.{name}"
                for name in names
            )
            connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM old_{table} AS old, copies"
            )


@contextlib.contextmanager
def timed(figures: Figures, what: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    figures[what] = time.perf_counter() - begun


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="boundary-bench-scale-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_all(num_studies: int, num_placements: int) -> Figures:
    figures: Figures = {}
    with scratch() as folder:
        figures |= time_reading(folder, num_studies)
    with scratch() as folder:
        figures |= time_records(folder)
    with scratch() as folder:
        figures |= time_publishing(folder, num_placements)
    with scratch() as folder:
        figures |= time_published(folder, num_studies)
    return figures


def show(figures: Mapping[str, float]) -> None:
    for what, seconds in figures.items():
        print(f"{seconds:8.3f} s  {what}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--placements", type=int, default=200)
    options = parser.parse_args()
    show(measure_all(options.studies, options.placements))
