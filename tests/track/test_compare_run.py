"""A comparison as a run of MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.compare import Comparison, compare, write_comparison
from bench.report.compare_plot import write_comparison_plots
from bench.track import TrackError, default_tracking_uri
from bench.track.compare_run import PublishedComparison, describe_comparison, publish_comparison
from tests.compare.studies import failed, longer_sequences, measured, published, with_torch, write_measured
from tests.track.stores import artifact_path, artifact_state, client_of, rows

COSTLY = {"none": (1.0, 1000), "blocks.0": (1.2, 700), "blocks.0..1:each": (1.45, 500)}


def make(results: Path, *, name: str = "toy-vs-toy") -> tuple[Path, Comparison, list[Path | None]]:
    """A folder of a comparison of two studies under `results`, plots and all."""
    both = [measured(seed=1), measured(COSTLY, seed=2, controls=with_torch("2.14.0"))]
    comparison = compare(both, name)
    directory = results / "comparisons" / name
    write_comparison(directory, comparison)
    write_comparison_plots(directory, comparison)
    return directory, comparison, [write_measured(results, one) for one in both]


@pytest.fixture
def told(results: Path) -> PublishedComparison:
    return publish_comparison(*make(results), default_tracking_uri(results))


def test_it_is_one_run_in_an_experiment_of_comparisons(told: PublishedComparison) -> None:
    client = client_of(told.tracking_uri)
    run = client.get_run(told.run_id)
    assert (told.experiment_name, run.info.run_name, run.info.status) == ("comparisons", "toy-vs-toy", "FINISHED")
    assert run.data.tags["boundary_bench.kind"] == "comparison"
    assert run.data.tags["like_for_like"] == "yes"
    assert run.data.tags["study.A"] == run.data.tags["baseline"] == run.data.params["baseline"]


def test_figures_tables_and_the_comparison_are_artifacts(told: PublishedComparison) -> None:
    run = client_of(told.tracking_uri).get_run(told.run_id)
    for name in ("comparison.json", "comparison.csv", "plots/frontiers.png", "plots/ratios.svg"):
        assert artifact_path(run, name).stat().st_size > 0


def test_indicators_and_ratios_at_budgets_are_metrics(told: PublishedComparison) -> None:
    metrics = client_of(told.tracking_uri).get_run(told.run_id).data.metrics
    assert metrics["relative/B_time_ratio_at_60"] == pytest.approx(1.45 / 1.3, rel=0.02)
    assert metrics["relative/B_hypervolume_ratio_low"] < metrics["relative/B_hypervolume_ratio"] < 1
    assert metrics["absolute/B_epsilon"] > 1
    assert "relative/B_time_ratio_at_40" not in metrics  # nothing fits: absent, and not 0


def test_the_description_shows_studies_figures_budgets_and_what_differs(told: PublishedComparison) -> None:
    note = client_of(told.tracking_uri).get_run(told.run_id).data.tags["mlflow.note.content"]
    assert f"run_uuid={told.run_id}" in note
    assert "| relative: 60 % of none | 1.1" in note
    assert "slower" in note
    assert "torch 2.13.0 → 2.14.0" in note


def test_publishing_again_changes_nothing(results: Path) -> None:
    made, uri = make(results), default_tracking_uri(results)
    first = publish_comparison(*made, uri)
    before = rows(results / "mlflow.db"), artifact_state(results / "mlartifacts")
    again = publish_comparison(*made, uri)
    assert (again.run_id, again.changed) == (first.run_id, False)
    assert (rows(results / "mlflow.db"), artifact_state(results / "mlartifacts")) == before


def test_a_comparison_that_comes_out_otherwise_is_the_same_run(results: Path) -> None:
    directory, comparison, studies = make(results)
    first = publish_comparison(directory, comparison, studies, default_tracking_uri(results))
    other = compare([measured(seed=1), measured(COSTLY, seed=5, controls=with_torch("2.14.0"))], comparison.name)
    write_comparison(directory, other)
    again = publish_comparison(directory, other, studies, default_tracking_uri(results))
    assert (again.run_id, again.changed) == (first.run_id, True)


def test_one_without_study_directories_is_published_and_again_the_same(results: Path) -> None:
    directory, _, _ = make(results)
    alone = compare([published(seed=1), published(COSTLY, seed=2)], "alone")
    first = publish_comparison(directory, alone, [None, None], default_tracking_uri(results))
    (directory / "comparison.csv").touch()
    again = publish_comparison(directory, alone, [None, None], default_tracking_uri(results))
    assert (again.run_id, again.changed) == (first.run_id, False)


def test_absolute_metrics_of_another_job_are_left_out(results: Path) -> None:
    directory, _, _ = make(results)
    other = compare([measured(seed=1), measured(seed=2, controls=longer_sequences(512))], "other")
    told = publish_comparison(directory, other, [None, None], default_tracking_uri(results))
    data = client_of(told.tracking_uri).get_run(told.run_id).data
    assert not any(name.startswith("absolute/") for name in data.metrics)
    assert data.tags["like_for_like"] == "not B"


def test_nothing_measured_logs_no_metric_of_it(results: Path) -> None:
    directory, _, _ = make(results)
    nothing = compare([failed(), failed()], "no")
    told = publish_comparison(directory, nothing, [None, None], default_tracking_uri(results))
    assert client_of(told.tracking_uri).get_run(told.run_id).data.metrics == {}


def test_a_description_that_is_too_long_says_where_the_rest_is() -> None:
    many = compare([measured(seed=seed) for seed in range(30)], "many")
    note = describe_comparison(many, {}, None, limit=3000)
    assert len(note) <= 3000
    assert note.endswith("The rest is in the artifact `comparison.csv`.")


def test_a_deleted_experiment_says_how_to_bring_it_back(results: Path) -> None:
    made, uri = make(results), default_tracking_uri(results)
    client_of(uri).delete_experiment(publish_comparison(*made, uri).experiment_id)
    with pytest.raises(TrackError, match=r"mlflow experiments restore.*The comparison is safe in"):
        publish_comparison(*made, uri)
