"""What a published study looks like in MLflow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.spec import ChainInfo
from bench.track import Published, default_tracking_uri, publish_study
from bench.track.description import describe
from bench.track.placement_run import shape_of_placement
from tests.track.stores import artifact_path, children_of, client_of, parent_of
from tests.track.synthetic import (
    FIRST_TIME_S,
    MIB,
    failed_trial,
    make_all,
    make_frontier,
    ok_trial,
    ok_trials,
    write_directory,
)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Four measured placements, one that ran out of memory, one that is pending."""
    results = tmp_path_factory.mktemp("results")
    trials = (*ok_trials(), failed_trial("transformer.h.7", 7), failed_trial("transformer.h.8", 8, "pending", ""))
    return publish_study(*make_all(results, trials), f"sqlite:///{results}/mlflow.db")


def test_an_experiment_is_a_model_and_a_device(published: Published) -> None:
    assert published.experiment_name == "gpt2/Test CPU @ 2.0GHz"


def test_a_parent_run_is_a_study_and_a_child_run_a_placement(published: Published) -> None:
    parent = parent_of(published)
    assert parent.info.run_name == parent.data.tags["study"]
    assert {run.info.run_name for run in children_of(published).values()} == {
        *(trial.placement for trial in ok_trials()),
        "transformer.h.7",
    }
    assert (published.created, published.updated, published.unchanged, published.removed) == (5, 0, 0, 0)


def test_controls_are_params_of_the_parent(published: Published) -> None:
    params = parent_of(published).data.params
    assert params["workload.shape.sequence_length"] == "256"
    assert params["optimizer.fused"] == "true"
    assert params["recipe.clip_norm"] == "null"


def test_placements_can_be_filtered_by_the_main_controls(published: Published) -> None:
    found = client_of(published.tracking_uri).search_runs(
        [published.experiment_id],
        "params.placement = 'transformer.h.0..11:every.2' and params.precision = 'fp32' "
        "and params.`workload.micro_batch` = '4' and params.`workload.shape.sequence_length` = '256'",
    )
    assert [run.data.params["placement_id"] for run in found] == ["id000002"]


def test_metrics_of_a_measured_placement(published: Published) -> None:
    metrics = children_of(published)["id000002"].data.metrics
    assert metrics == {
        "time/step_time_ms": 1100.0,
        "time/ratio": 1.1,
        "time/ratio_low": 1.09,
        "time/ratio_high": 1.11,
        "time/spread_within": 0.01,
        "memory/peak_allocated_bytes": 2980 * MIB,
        "memory/peak_allocated_mib": 2980.0,
        "memory/peak_share_of_reference": 2980 / 3000,
        "memory/persistent_bytes": 1500 * MIB,
        "memory/retained_bytes": 980 * MIB,
        "cost/step_flops": 10**12 + 2,
        "cost/replay_flops": 2.0,
        "cost/replay_ops": 2.0,
        "frontier/confidence": 0.9,
    }


def test_a_forecast_is_logged_beside_the_measured_peak(results: Path) -> None:
    forecast = {"forecast_peak_bytes": 2990 * MIB, "forecast_error_share": 0.02}
    trials = (replace(ok_trial("none", 0), **forecast), replace(failed_trial("transformer.h.7", 7), **forecast))
    published = publish_study(*make_all(results, trials), default_tracking_uri(results))
    runs = children_of(published)
    metrics = runs["id000000"].data.metrics
    assert metrics["memory/forecast_peak_bytes"] == 2990 * MIB
    assert metrics["memory/forecast_error_share"] == 0.02
    assert runs["id000007"].data.metrics == {}, "what was not measured logs no metric"
    assert "forecast peak (MiB) |" in parent_of(published).data.tags["mlflow.note.content"]


def test_what_explain_left_is_in_the_artifact_folder_memory(results: Path) -> None:
    directory, study, frontier = make_all(results, ok_trials(1))
    (directory / "trace").mkdir()
    (directory / "trace" / "memory-ab.html").write_text("<html/>")
    (directory / "forecast.json").write_text("{}")
    parent = parent_of(publish_study(directory, study, frontier, default_tracking_uri(results)))
    assert artifact_path(parent, "memory/memory-ab.html").read_text() == "<html/>"
    assert artifact_path(parent, "forecast.json").is_file()


def test_a_measured_zero_is_logged(published: Published) -> None:
    assert children_of(published)["id000000"].data.metrics["cost/replay_flops"] == 0.0


def test_a_failed_placement_has_a_reason_and_no_metric(published: Published) -> None:
    run = children_of(published)["id000007"]
    assert run.data.metrics == {}
    assert run.info.status == "FAILED"
    assert (run.data.tags["outcome"], run.data.tags["reason"]) == ("oom", "out of memory")
    assert run.data.tags["on_frontier"] == "false"


def test_a_pending_placement_is_no_run(published: Published) -> None:
    assert "id000008" not in children_of(published)


def test_tags_of_a_placement(published: Published) -> None:
    parent, run = parent_of(published), children_of(published)["id000001"]
    assert run.info.status == "FINISHED"
    expected = {
        "outcome": "ok",
        "on_frontier": "true",
        "control_key": parent.data.tags["control_key"],
        "git_commit": "0123abc",
        "placement_id": "id000001",
        "generators": "every block, explicit",
        "verdict": "slower",
        "verdict_reason": "the whole interval lies above 1",
        "steadiness": "flat",
        "study": parent.data.tags["study"],
    }
    assert expected.items() <= run.data.tags.items()


def test_times_are_those_of_the_records(published: Published) -> None:
    run = children_of(published)["id000001"]
    assert run.info.start_time == run.info.end_time == round((FIRST_TIME_S + 20) * 1000)
    assert parent_of(published).info.start_time == round(FIRST_TIME_S * 1000)


def test_a_study_that_lacks_an_answer_reads_as_failed_and_partial(published: Published) -> None:
    parent = parent_of(published)
    assert (parent.info.status, parent.data.tags["completeness"]) == ("FAILED", "partial")
    assert parent.data.metrics == {
        "frontier/hypervolume": 0.5,
        "frontier/points": 4.0,
        "placements/measured": 4.0,
        "placements/failed": 1.0,
        "placements/pending": 1.0,
    }


@pytest.mark.parametrize("outcome", ["no-effect", "invalid"])
def test_a_study_with_an_answer_for_every_placement_reads_as_complete(results: Path, outcome: str) -> None:
    trials = (*ok_trials(2), failed_trial("transformer.h.7", 7, outcome, "says why"))
    published = publish_study(*make_all(results, trials), default_tracking_uri(results))
    parent = parent_of(published)
    assert (parent.info.status, parent.data.tags["completeness"]) == ("FINISHED", "complete")


def test_an_invalid_placement_logs_no_metric_even_where_it_was_measured(results: Path) -> None:
    cheap = replace(ok_trial("cheap", 9, on_frontier=False), outcome="invalid", reason="gradients differ")
    published = publish_study(*make_all(results, (*ok_trials(1), cheap)), default_tracking_uri(results))
    assert children_of(published)["id000009"].data.metrics == {}


def test_a_study_that_measured_nothing_is_published_without_numbers(results: Path) -> None:
    published = publish_study(*make_all(results, (failed_trial("none", 0),)), default_tracking_uri(results))
    parent = parent_of(published)
    assert "frontier/hypervolume" not in parent.data.metrics
    assert "Nothing was measured" in parent.data.tags["mlflow.note.content"]


def test_the_description_has_reference_frontier_notes_and_the_way_back(published: Published) -> None:
    note = parent_of(published).data.tags["mlflow.note.content"]
    assert "Reference: none (1000.0 ms a step, 3000.0 MiB peak allocated)." in note
    assert "| transformer.h.0..5:each | 1050.0 | 1.050 \\[1.040, 1.060\\] | slower | 2990.0 | 90% |" in note
    assert "- The time cap was hit after 5 rounds." in note
    assert "| transformer.h.7 | oom | out of memory |" in note
    assert "python -m bench publish" in note


def test_the_description_shows_the_figure_among_the_artifacts_of_its_own_run(results: Path) -> None:
    directory, study, frontier = make_all(results, ok_trials(2))
    (directory / "plots" / "frontier.png").write_bytes(b"png")
    published = publish_study(directory, study, frontier, default_tracking_uri(results))
    parent = parent_of(published)
    address = f"get-artifact?path=plots%2Ffrontier.png&run_uuid={published.parent_run_id}"
    assert f"![Step time against peak memory]({address})" in parent.data.tags["mlflow.note.content"]
    assert artifact_path(parent, "plots/frontier.png").read_bytes() == b"png"
    assert publish_study(directory, study, frontier, default_tracking_uri(results)).unchanged == 2


def test_without_a_figure_there_is_no_broken_picture(published: Published) -> None:
    assert "get-artifact" not in parent_of(published).data.tags["mlflow.note.content"]


def test_a_study_that_stopped_half_way_says_so_first(published: Published) -> None:
    """One of its six placements ran out of memory, and one was not measured."""
    lines = parent_of(published).data.tags["mlflow.note.content"].splitlines()
    assert lines[2].startswith("**Incomplete: 2 of 6 placements have no answer** (1 oom, 1 not measured yet).")


def test_a_complete_study_has_no_such_line(results: Path) -> None:
    _, study, frontier = make_all(results, ok_trials(2))
    assert "Incomplete" not in describe(study, frontier, limit=8000)


def test_a_placement_describes_its_place_and_its_evidence(published: Published) -> None:
    note = children_of(published)["id000001"].data.tags["mlflow.note.content"]
    assert "On the frontier, in 90% of resamples." in note
    assert "| step time | 1050.0 ms ×1.050 \\[1.040, 1.060\\] slower | |  |" in note
    assert "| peak allocated | 2990.0 MiB |  |  |" in note


def test_a_placement_without_a_number_describes_why(published: Published) -> None:
    note = children_of(published)["id000007"].data.tags["mlflow.note.content"]
    assert note.endswith("**oom**: out of memory. It has no metrics, and is on no frontier.")


@pytest.mark.parametrize(
    ("text", "regions", "keeps"),
    [
        ("none", "0", "everything"),
        ("transformer.h.0..5:each", "6", "nothing"),
        ("transformer.h.0..5", "1", "nothing"),
        ("h.0..2:each:keep.matmul+h.3:keep.attention", "4", "attention+matmul"),
    ],
)
def test_placements_have_params_to_group_charts_by(text: str, regions: str, keeps: str) -> None:
    assert shape_of_placement(text) == {"placement.regions": regions, "placement.keeps": keeps}


def test_runs_name_the_program_and_the_commit_where_mlflow_shows_them(published: Published) -> None:
    for run in (parent_of(published), children_of(published)["id000001"]):
        assert (run.data.tags["mlflow.source.name"], run.data.tags["mlflow.source.git.commit"]) == (
            "boundary-bench",
            "0123abc",
        )


def test_the_description_says_what_of_each_chain_a_placement_covers(results: Path) -> None:
    trials = (ok_trial("none", 0), ok_trial("encoder.block.0..1:each", 1), ok_trial("decoder.block.0.mlp", 2))
    _, study, frontier = make_all(results, trials)
    chains = tuple(
        ChainInfo(name=name, units=(f"{name}.block.0", f"{name}.block.1"), kinds={"mlp": ("mlp",)})
        for name in ("encoder", "decoder")
    )
    note = describe(replace(study, chains=chains), frontier, limit=8000)
    assert "| placement | encoder | decoder |\n|---|---|---|\n| encoder.block.0..1:each | 2/2 | 0/2 |" in note
    assert "| decoder.block.0.mlp | 0/2 | 1/2 mlp |" in note
    assert "Modules inside" not in describe(replace(study, chains=chains[:1]), frontier, limit=8000)


def test_the_reference_has_no_verdict(published: Published) -> None:
    assert "verdict" not in children_of(published)["id000000"].data.tags


def test_tables_and_plots_are_artifacts_of_the_parent(published: Published) -> None:
    parent = parent_of(published)
    assert artifact_path(parent, "plots/frontier.svg").read_text() == "<svg/>"
    for name in ("frontier.json", "frontier.csv", "study.json", "environment.json"):
        assert artifact_path(parent, name).is_file()


def test_equal_names_and_keys_measured_twice_are_two_studies(results: Path) -> None:
    """As on a server that two people with the same device share."""
    uri = default_tracking_uri(results)
    first = publish_study(*make_all(results / "one", ok_trials(1)), uri)
    directory, study, _ = make_all(results / "two", ok_trials(1))
    samples = directory / "samples.jsonl"
    samples.write_text(samples.read_text().replace("feed0123", "beef4567"))
    second = publish_study(directory, study, make_frontier(results / "two", study, ok_trials(1)), uri)
    assert first.parent_run_id != second.parent_run_id
    assert second.created == 1


def test_a_moved_study_directory_is_the_same_study(results: Path) -> None:
    uri = default_tracking_uri(results)
    directory, study, frontier = make_all(results / "one", ok_trials(1))
    first = publish_study(directory, study, frontier, uri)
    moved = write_directory(results / "two", study, frontier)
    assert publish_study(moved, study, frontier, uri).parent_run_id == first.parent_run_id
