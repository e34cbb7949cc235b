"""Names as people and records have them: long, odd, hostile."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.track import TrackError, default_tracking_uri, publish_study
from bench.track.content import option_params
from bench.track.description import describe
from bench.track.markdown import escape
from tests.track.stores import artifact_path, children_of, client_of, parent_of
from tests.track.synthetic import failed_trial, make_all, ok_trial, ok_trials

ODD = 'it\'s "odd" | <b>`x`</b> [a](b) 100% 模型 * _y_'


def test_a_placement_text_that_fits_a_param_is_one(results: Path) -> None:
    text = "transformer.h.0:keep." + "a" * 5900
    published = publish_study(*make_all(results, (*ok_trials(1), ok_trial(text, 9))), default_tracking_uri(results))
    run = children_of(published)["id000009"]
    assert run.data.params["placement"] == text
    assert len(run.info.run_name) <= 250
    assert run.info.run_name.endswith("… (id000009)")


def test_a_longer_placement_text_is_an_artifact_under_its_id(results: Path) -> None:
    text = "transformer.h.0:keep." + "a" * 20_000
    published = publish_study(*make_all(results, (*ok_trials(1), ok_trial(text, 9))), default_tracking_uri(results))
    run = children_of(published)["id000009"]
    assert run.data.params["placement"] == f"id000009 ({len(text)} characters, whole in the artifact placement.txt)"
    assert artifact_path(run, "placement.txt").read_text() == text
    assert artifact_path(parent_of(published), "knee.txt").read_text() == text


def test_a_long_reason_is_an_artifact_and_its_beginning_a_tag(results: Path) -> None:
    reason = "RuntimeError: " + "trace " * 3000
    trials = (*ok_trials(1), failed_trial("transformer.h.7", 7, "error", reason))
    run = children_of(publish_study(*make_all(results, trials), default_tracking_uri(results)))["id000007"]
    assert run.data.tags["reason"].startswith("RuntimeError: trace")
    assert artifact_path(run, "reason.txt").read_text() == reason


def test_a_long_frontier_says_in_the_description_what_it_leaves_out(tmp_path: Path) -> None:
    _, study, frontier = make_all(tmp_path, ok_trials(150))
    note = describe(study, frontier, limit=8000)
    assert 6000 < len(note) <= 8000
    assert "more lines: see the artifact `frontier.csv`." in note
    assert "python -m bench publish" in note


def test_odd_names_are_kept_and_do_no_harm(results: Path) -> None:
    everything = make_all(results, (*ok_trials(1), ok_trial(ODD, 9)), model=f"org/{ODD}", device=f"{ODD}\n/x")
    published = publish_study(*everything, default_tracking_uri(results))
    assert published.experiment_name == f"org {ODD}/{ODD} x".replace("</b>", "< b>")
    assert children_of(published)["id000009"].data.params["placement"] == ODD
    assert publish_study(*everything, default_tracking_uri(results)).unchanged == 2


def test_odd_names_stay_in_their_table_cell() -> None:
    assert escape("a|b\nc <script> `x` [l](u) *s* _u_ \\") == (
        "a\\|b c &lt;script&gt; \\`x\\` \\[l\\]\\(u\\) \\*s\\* \\_u\\_ \\\\"
    )


def test_what_github_would_make_a_link_of_stays_text() -> None:
    assert escape("https://evil.example www.evil.example @evil h.0@restore") == (
        "https&#58;//evil.example www&#46;evil.example &#64;evil h.0@restore"
    )


def test_an_experiment_name_has_a_bounded_length(results: Path) -> None:
    published = publish_study(*make_all(results, ok_trials(1), device="d" * 2000), default_tracking_uri(results))
    assert len(published.experiment_name) < 500


def test_many_and_long_controls_are_all_there(results: Path) -> None:
    directory, study, frontier = make_all(results, ok_trials(1))
    controls = {f"model.settings.{index}": index for index in range(250)} | {"model.settings.long": "v" * 7000}
    frontier = dataclasses.replace(frontier, controls=controls)
    parent = parent_of(publish_study(directory, study, frontier, default_tracking_uri(results)))
    assert len(parent.data.params) == 251
    shown = parent.data.params["model.settings.long"]
    name = shown.split("artifact ")[1].rstrip(")")
    assert artifact_path(parent, name).read_text() == "v" * 7000


def test_options_that_differ_in_forbidden_characters_stay_two_params() -> None:
    params, _ = option_params({"a=b": 1, "a~b": 2, "a/../b": 3, "": 4, ".": 5})
    assert sorted(params.values()) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("value", "spelt"), [(None, "null"), (True, "true"), (0.1, "0.1"), ("x", "x"), (["a", 1, None], "[a,1,null]")]
)
def test_params_are_spelt_as_hydra_reads_them(value: object, spelt: str) -> None:
    assert option_params({"option": value})[0] == {"option": spelt}


def test_a_deleted_experiment_is_told_with_the_way_to_bring_it_back(results: Path) -> None:
    everything = make_all(results, ok_trials(1))
    published = publish_study(*everything, default_tracking_uri(results))
    client_of(published.tracking_uri).delete_experiment(published.experiment_id)
    with pytest.raises(TrackError, match="mlflow experiments restore --experiment-id"):
        publish_study(*everything, published.tracking_uri)
