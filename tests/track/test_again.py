"""Publishing again: nothing is written twice, and what changed is changed in place."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.track import Published, TrackError, default_tracking_uri, publish_study
from bench.track.connect import import_mlflow
from tests.track.stores import artifact_path, artifact_state, children_of, client_of, parent_of, rows
from tests.track.synthetic import failed_trial, make_all, off_frontier, ok_trial, ok_trials


def publish(results: Path, trials: tuple) -> Published:
    return publish_study(*make_all(results, trials), default_tracking_uri(results))


def test_publishing_twice_changes_no_row_and_no_artifact(results: Path) -> None:
    trials = (*ok_trials(), failed_trial("transformer.h.7", 7), failed_trial("x" * 7000, 8, reason="r" * 9000))
    first = publish(results, trials)
    database, artifacts = rows(results / "mlflow.db"), artifact_state(results / "mlartifacts")
    second = publish(results, trials)
    assert rows(results / "mlflow.db") == database
    assert artifact_state(results / "mlartifacts") == artifacts
    assert (second.created, second.updated, second.unchanged) == (0, 0, 6)
    assert second.parent_run_id == first.parent_run_id


def test_an_extended_study_gains_children_and_renews_its_parent(results: Path) -> None:
    first = publish(results, ok_trials(3))
    second = publish(results, ok_trials(4))
    assert (second.created, second.updated, second.unchanged) == (1, 0, 3)
    assert second.parent_run_id == first.parent_run_id
    parent = parent_of(second)
    assert parent.data.metrics["frontier/points"] == 4.0
    assert "h.0..11:each" in artifact_path(parent, "frontier.csv").read_text()
    assert "h.0..11:each" in parent.data.tags["mlflow.note.content"]


def test_a_changed_metric_is_shown_at_its_newest_value_and_others_get_no_history(results: Path) -> None:
    trials = ok_trials(2)
    first = publish(results, trials)
    run_id = children_of(first)["id000001"].info.run_id
    publish(results, (trials[0], replace(off_frontier(trials[1]), time_ratio=2.0)))
    run = children_of(first)["id000001"]
    assert run.info.run_id == run_id
    assert run.data.metrics["time/ratio"] == 2.0
    assert run.data.tags["on_frontier"] == "false"
    client = client_of(first.tracking_uri)
    assert [m.value for m in client.get_metric_history(run_id, "time/step_time_ms")] == [1050.0, 2000.0]
    assert len(client.get_metric_history(run_id, "memory/peak_allocated_bytes")) == 1
    steps = {metric.step for metric in client.get_metric_history(run_id, "time/step_time_ms")}
    assert steps == {0}, "of several steps, the UI would draw a line over steps and not a bar a run"


def test_a_failed_placement_that_is_measured_later_loses_its_reason(results: Path) -> None:
    publish(results, (*ok_trials(1), failed_trial("transformer.h.7", 7)))
    run = children_of(publish(results, (*ok_trials(1), ok_trial("transformer.h.7", 7))))["id000007"]
    assert run.info.status == "FINISHED"
    assert run.data.metrics["time/ratio"] == pytest.approx(1.35)
    assert "reason" not in run.data.tags


def test_a_measured_placement_that_turns_out_invalid_keeps_no_metric(results: Path) -> None:
    """MLflow takes no metric back, so the run is replaced."""
    publish(results, (*ok_trials(1), ok_trial("transformer.h.7", 7)))
    second = publish(results, (*ok_trials(1), failed_trial("transformer.h.7", 7, "invalid", "gradients differ")))
    assert children_of(second)["id000007"].data.metrics == {}
    assert (second.created, second.updated, second.unchanged) == (0, 1, 1)


def test_a_study_that_loses_its_hypervolume_keeps_its_children(results: Path) -> None:
    """The parent is replaced, and the children follow it."""
    first = publish(results, ok_trials(1))
    second = publish(results, (failed_trial("none", 0, "invalid", "gradients differ"),))
    assert second.parent_run_id != first.parent_run_id
    assert set(children_of(second)) == {"id000000"}
    assert "frontier/hypervolume" not in parent_of(second).data.metrics


def test_a_placement_that_is_to_be_measured_anew_leaves_no_stale_run(results: Path) -> None:
    publish(results, (*ok_trials(1), failed_trial("transformer.h.7", 7)))
    second = publish(results, (*ok_trials(1), failed_trial("transformer.h.7", 7, "pending", "")))
    assert set(children_of(second)) == {"id000000"}
    assert second.removed == 1


def test_runs_deleted_in_the_ui_come_back(results: Path) -> None:
    first = publish(results, ok_trials(2))
    client_of(first.tracking_uri).delete_run(children_of(first)["id000001"].info.run_id)
    assert publish(results, ok_trials(2)).created == 1


def test_a_run_renamed_in_the_ui_keeps_its_name(results: Path) -> None:
    first = publish(results, ok_trials(2))
    run_id = children_of(first)["id000001"].info.run_id
    client_of(first.tracking_uri).update_run(run_id, name="my favourite")
    publish(results, (ok_trials(1)[0], replace(ok_trials(2)[1], step_time_ms=1.0)))
    assert client_of(first.tracking_uri).get_run(run_id).info.run_name == "my favourite"


def test_a_publishing_that_died_is_finished_by_the_next(results: Path) -> None:
    first = publish(results, ok_trials(2))
    client = client_of(first.tracking_uri)
    run_id = children_of(first)["id000001"].info.run_id
    client.delete_tag(run_id, "boundary_bench.content")
    client.update_run(run_id, status="RUNNING")
    before = rows(results / "mlflow.db")
    second = publish(results, ok_trials(2))
    assert (second.created, second.updated, second.unchanged) == (0, 1, 1)
    assert client.get_run(run_id).info.status == "FINISHED"
    assert rows(results / "mlflow.db")["metrics"] == before["metrics"]


@pytest.mark.parametrize("call", ["create_run", "log_batch", "set_terminated"])
@pytest.mark.parametrize("survived", [0, 2, 3])
def test_a_publishing_that_died_anywhere_is_finished_by_the_next_and_loses_nothing(
    results: Path, monkeypatch: pytest.MonkeyPatch, call: str, survived: int
) -> None:
    trials = (*ok_trials(2), failed_trial("transformer.h.7", 7))
    everything = make_all(results, trials)
    with monkeypatch.context() as dying:
        die_after(dying, call, survived)
        with pytest.raises(TrackError, match="results are safe"):
            publish_study(*everything, default_tracking_uri(results))
    published = publish_study(*everything, default_tracking_uri(results))
    parent, children = parent_of(published), children_of(published)
    assert (parent.info.status, parent.data.metrics["frontier/points"]) == ("FAILED", 2.0)
    assert {name: run.info.status for name, run in children.items()} == {
        "id000000": "FINISHED",
        "id000001": "FINISHED",
        "id000007": "FAILED",
    }
    assert children["id000001"].data.metrics["time/ratio"] == pytest.approx(1.05)
    assert children["id000001"].data.params["placement"] == trials[1].placement
    before = rows(results / "mlflow.db")
    assert publish_study(*everything, default_tracking_uri(results)).unchanged == 3
    assert rows(results / "mlflow.db") == before


def die_after(monkeypatch: pytest.MonkeyPatch, call: str, survived: int) -> None:
    """MLflow's own client, whose `call` fails once it has been made `survived` times."""
    import_mlflow()
    from mlflow.tracking import MlflowClient

    real, made = getattr(MlflowClient, call), itertools.count()

    def dying(*arguments: Any, **named: Any) -> Any:
        if next(made) >= survived:
            raise OSError("the machine went down")
        return real(*arguments, **named)

    monkeypatch.setattr(MlflowClient, call, dying)


def test_a_replotted_figure_replaces_the_old_one(results: Path) -> None:
    directory, study, frontier = make_all(results, ok_trials(1))
    publish_study(directory, study, frontier, default_tracking_uri(results))
    (directory / "plots" / "frontier.svg").write_text("<svg>new</svg>")
    published = publish_study(directory, study, frontier, default_tracking_uri(results))
    assert artifact_path(parent_of(published), "plots/frontier.svg").read_text() == "<svg>new</svg>"
