"""Reading and publishing at scale: that it works with many studies, and, with `-m slow`, how long it takes.

Bounds are several times what a quiet laptop needs, so that only another order of growth can break them; the figures
are printed with `-s`, and by `python -m tests.scale`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli.studies import find_study
from bench.frontier.store import load_frontier
from bench.records import read_study
from bench.spec import SpecError
from bench.track.connect import open_client
from tests import scale
from tests.synthetic_studies import write_similar_studies, write_synthetic_study


def test_every_study_among_many_is_found_by_its_key_and_holds_its_own_frontier(tmp_path: Path) -> None:
    template = write_synthetic_study(tmp_path, seed=0, num_placements=3, num_rounds=4)
    directories = [template, *write_similar_studies(tmp_path, template, range(1, 60))]
    assert len({directory.name for directory in directories}) == 60
    for directory in directories:
        found = find_study(directory.name.rpartition("-")[2], tmp_path)
        assert found == directory
        assert load_frontier(found).key == read_study(directory).key


def test_a_beginning_that_many_studies_share_is_refused_without_naming_all(tmp_path: Path) -> None:
    template = write_synthetic_study(tmp_path, seed=0, num_placements=2, num_rounds=3)
    write_similar_studies(tmp_path, template, range(1, 30))
    with pytest.raises(SpecError, match=r"study: 'gpt2' may be gpt2-\w+, .* and 22 more; say which"):
        find_study("gpt2", tmp_path)


def test_copied_runs_are_studies_of_their_own(tmp_path: Path) -> None:
    uri = scale.make_store(tmp_path)
    published = scale.publish(write_synthetic_study(tmp_path, seed=0, num_placements=2, num_rounds=3), uri)
    scale.multiply_runs(tmp_path / "mlflow.db", 4)
    with open_client(uri) as client:
        runs = client.search_runs([published.experiment_id])
    identities = {run.data.tags["boundary_bench.study"] for run in runs}
    parents = {run.info.run_id for run in runs if "mlflow.parentRunId" not in run.data.tags}
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert (len(runs), len(identities), len(parents)) == (15, 5, 5)
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == parents
    assert all(run.data.params and run.data.metrics for run in children)


@pytest.mark.slow
def test_reading_one_study_does_not_wait_for_2000_others(tmp_path: Path) -> None:
    figures = scale.time_reading(tmp_path, 2000)
    scale.show(figures)
    assert max(figures.values()) < 2.0


@pytest.mark.slow
def test_2000_samples_are_read_at_once(tmp_path: Path) -> None:
    figures = scale.time_records(tmp_path)
    scale.show(figures)
    assert max(figures.values()) < 1.0


@pytest.mark.slow
def test_200_placements_are_published_while_one_waits(tmp_path: Path) -> None:
    figures = scale.time_publishing(tmp_path, 200)
    scale.show(figures)
    assert max(figures.values()) < 60.0


@pytest.mark.slow
def test_a_store_of_2000_studies_is_as_quick(tmp_path: Path) -> None:
    figures = scale.time_published(tmp_path, 2000)
    scale.show(figures)
    assert max(figures.values()) < 30.0
