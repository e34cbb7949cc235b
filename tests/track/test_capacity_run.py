"""A capacity directory as runs of MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.capacity.types import Answer
from bench.track import Published, TrackError, UnfitStudyError, default_tracking_uri
from bench.track.capacity_note import describe_capacity, reproducing
from bench.track.capacity_run import publish_capacity
from bench.track.capacity_view import capacity_view_link, capacity_view_state
from tests.report.capacity_examples import (
    ALL,
    BLOCKS,
    FOUR,
    LIMIT,
    MIB,
    MLPS,
    PLAIN,
    WRONG,
    Reach,
    make_answer,
    write_capacity,
)
from tests.track.stores import artifact_path, artifact_state, client_of, rows

INVALID = {WRONG: Reach(largest=None, next_size=None, valid=False)}


@pytest.fixture
def told(results: Path) -> Published:
    directory, answer = write_capacity(results, FOUR | INVALID)
    return publish_capacity(directory, answer, default_tracking_uri(results))


def children(told: Published) -> dict[str, object]:
    """Placement → run."""
    runs = client_of(told.tracking_uri).search_runs(
        [told.experiment_id], f"tags.`mlflow.parentRunId` = '{told.parent_run_id}'", max_results=1000
    )
    return {run.data.params["placement"]: run for run in runs}


def test_it_is_a_run_with_one_a_placement_in_the_experiment_of_model_and_device(told: Published) -> None:
    run = client_of(told.tracking_uri).get_run(told.parent_run_id)
    assert told.experiment_name == "gpt2/AMD EPYC 7763"
    assert run.info.run_name == run.data.tags["capacity"]
    assert run.info.run_name.startswith("gpt2-capacity-")
    assert (run.info.status, run.data.tags["completeness"]) == ("FINISHED", "complete")
    assert set(children(told)) == {PLAIN, MLPS, BLOCKS, ALL, WRONG}


def test_what_was_asked_is_params_and_what_grows_is_none(told: Published) -> None:
    params = client_of(told.tracking_uri).get_run(told.parent_run_id).data.params
    assert params["capacity.axis"] == "micro-batch"
    assert params["capacity.limit_bytes"] == str(LIMIT)
    assert params["workload.shape.sequence_length"] == "256"
    assert "workload.micro_batch" not in params
    assert "workload.micro_batch" not in children(told)[BLOCKS].data.params  # type: ignore[attr-defined]


def test_sizes_and_throughput_of_a_placement_are_metrics(told: Published) -> None:
    run = children(told)[BLOCKS]
    metrics = run.data.metrics  # type: ignore[attr-defined]
    assert (metrics["capacity/largest"], metrics["capacity/times_none"]) == (16, 4)
    assert metrics["capacity/margin_bytes"] == 16 * MIB
    assert metrics["throughput/relative"] == pytest.approx(0.88, rel=0.005)
    assert metrics["throughput/relative_at_2x"] == pytest.approx(0.8625, rel=0.005)
    assert metrics["throughput/relative_low"] < metrics["throughput/relative"] < metrics["throughput/relative_high"]
    assert run.data.tags["verdict"] == "slower"  # type: ignore[attr-defined]
    assert run.data.tags["on_frontier"] == "true"  # type: ignore[attr-defined]


def test_a_placement_without_a_size_has_its_reason_and_no_metric(told: Published) -> None:
    run = children(told)[WRONG]
    assert run.info.status == "FAILED"  # type: ignore[attr-defined]
    assert run.data.metrics == {}  # type: ignore[attr-defined]
    assert run.data.tags["ended"] == "invalid"  # type: ignore[attr-defined]
    assert "gradients of transformer.wte differ" in run.data.tags["reason"]  # type: ignore[attr-defined]


def test_the_parent_says_what_is_best_at_each_multiple(told: Published) -> None:
    metrics = client_of(told.tracking_uri).get_run(told.parent_run_id).data.metrics
    assert metrics["throughput/relative_at_4x"] == pytest.approx(0.88, rel=0.005)
    assert (metrics["capacity/none_largest"], metrics["capacity/largest"]) == (4, 16)
    assert (metrics["placements/reached"], metrics["placements/without_size"]) == (4, 1)


def test_no_metric_has_a_name_that_a_studys_scatter_is_drawn_of(told: Published) -> None:
    # The saved view of the experiment draws step time against peak: sizes that differ do not belong there.
    for run in children(told).values():
        assert not {"time/step_time_ms", "memory/peak_allocated_mib"} & set(run.data.metrics)  # type: ignore[attr-defined]


def test_figures_tables_and_records_are_artifacts(told: Published) -> None:
    run = client_of(told.tracking_uri).get_run(told.parent_run_id)
    for name in ("capacity.json", "answer.json", "answer.csv", "answer.md", "probes.jsonl", "plots/sizes.svg"):
        assert artifact_path(run, name).stat().st_size > 0


def test_the_description_shows_sizes_figures_findings_and_how_to_ask_again(told: Published) -> None:
    note = client_of(told.tracking_uri).get_run(told.parent_run_id).data.tags["mlflow.note.content"]
    assert "| transformer.h.0..10:each | 16 |" in note
    assert f"get-artifact?path=plots%2Fthroughput.png&run_uuid={told.parent_run_id}" in note
    assert "- 4 times the micro-batch in the same memory at 88 %" in note
    assert "Rockmate" in note
    assert "python -m bench capacity model=gpt2 axis=micro-batch precision=fp32 limit=4096MiB" in note
    assert "python -m bench publish study=gpt2-capacity-" in note


def test_the_experiment_holds_the_view_that_the_run_links_to(told: Published) -> None:
    tags = client_of(told.tracking_uri).get_experiment(told.experiment_id).tags
    assert capacity_view_state() in tags.values()
    note = client_of(told.tracking_uri).get_run(told.parent_run_id).data.tags["mlflow.note.content"]
    assert capacity_view_link(told.experiment_id, charts=True) in note


def test_publishing_again_changes_nothing(results: Path) -> None:
    directory, answer = write_capacity(results)
    uri = default_tracking_uri(results)
    first = publish_capacity(directory, answer, uri)
    before = rows(results / "mlflow.db"), artifact_state(results / "mlartifacts")
    again = publish_capacity(directory, answer, uri)
    assert (first.created, again.unchanged, again.created, again.updated) == (4, 4, 0, 0)
    assert again.parent_run_id == first.parent_run_id
    assert (rows(results / "mlflow.db"), artifact_state(results / "mlartifacts")) == before


def test_one_that_was_extended_is_the_same_run(results: Path) -> None:
    uri = default_tracking_uri(results)
    directory, answer = write_capacity(results, {PLAIN: FOUR[PLAIN]})
    first = publish_capacity(directory, answer, uri)
    (directory / "probes.jsonl").rename(results / "first.jsonl")
    _, longer = write_capacity(results, FOUR)
    (directory / "probes.jsonl").write_text(
        (results / "first.jsonl").read_text() + (directory / "probes.jsonl").read_text()
    )
    again = publish_capacity(directory, longer, uri)
    assert again.parent_run_id == first.parent_run_id
    assert (again.created, again.removed) == (3, 0)


def test_a_placement_that_is_gone_goes_to_the_bin(results: Path) -> None:
    uri = default_tracking_uri(results)
    directory, answer = write_capacity(results)
    publish_capacity(directory, answer, uri)
    fewer = make_answer({PLAIN: FOUR[PLAIN], BLOCKS: FOUR[BLOCKS]})
    assert publish_capacity(directory, fewer, uri).removed == 2


def test_one_that_stopped_half_way_reads_as_such(results: Path) -> None:
    directory, answer = write_capacity(results, FOUR, rounds=0)
    told = publish_capacity(directory, answer, default_tracking_uri(results))
    run = client_of(told.tracking_uri).get_run(told.parent_run_id)
    assert (run.info.status, run.data.tags["completeness"]) == ("FAILED", "partial")
    assert "**Incomplete**" in run.data.tags["mlflow.note.content"]
    assert "throughput/relative" not in children(told)[BLOCKS].data.metrics  # type: ignore[attr-defined]


def test_links_in_the_directory_are_refused(results: Path) -> None:
    directory, answer = write_capacity(results)
    (directory / "answer.md").unlink()
    (directory / "answer.md").symlink_to("/etc/hostname")
    with pytest.raises(UnfitStudyError, match=r"answer\.md: is a link"):
        publish_capacity(directory, answer, default_tracking_uri(results))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "probes.jsonl",
            '{"kind": "probe", "peak_allocated_bytes": NaN}\n',
            r"probes\.jsonl, line \d+: NaN is no number",
        ),
        ("capacity.json", '{"name": "\\u001b[31m"}', r"control characters in '\\x1b\[31m'"),
        ("capacity.json", '{"placements": [{"text": "h.0..999999999:each"}]}', r"names the units 0\.\.999999999"),
        ("plan-12.json", '{"rows": [Infinity]}', r"plan-12\.json: Infinity"),
    ],
)
def test_a_directory_that_may_do_harm_is_refused(results: Path, name: str, text: str, message: str) -> None:
    directory, answer = write_capacity(results)
    (directory / name).write_text(text)
    with pytest.raises(UnfitStudyError, match=message):
        publish_capacity(directory, answer, default_tracking_uri(results))


def test_a_deleted_experiment_says_how_to_bring_it_back(results: Path) -> None:
    directory, answer = write_capacity(results)
    uri = default_tracking_uri(results)
    client_of(uri).delete_experiment(publish_capacity(directory, answer, uri).experiment_id)
    with pytest.raises(TrackError, match=r"mlflow experiments restore.*The results are safe in"):
        publish_capacity(directory, answer, uri)


def test_a_description_that_is_too_long_says_where_the_rest_is() -> None:
    many = {PLAIN: FOUR[PLAIN]} | {f"transformer.h.{i}": FOUR[MLPS] for i in range(200)}
    note = describe_capacity(make_answer(many), "gpt2-capacity-1a2b3c4d", (), limit=3000)
    assert len(note) <= 3000
    assert note.endswith("The rest is in the artifact `answer.md`.")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "limit=4096MiB"),
        ({"limit_bytes": LIMIT + 1}, f"limit={LIMIT + 1}B"),
        ({"headroom": 0.05}, "headroom=5%"),
        ({"evaluation": True}, "evaluation=true"),
        ({}, "multiple=1"),
    ],
)
def test_the_command_asks_for_the_same_limit(fields: dict[str, float], said: str) -> None:
    answer: Answer = make_answer(**fields)
    assert said in reproducing(answer).split()
