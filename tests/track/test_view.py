"""The saved view of an experiment, as it is stored; tests/browser sees it drawn."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from bench.track import default_tracking_uri, publish_study
from bench.track.view import view_key, view_link, view_state
from tests.track.stores import children_of, client_of, parent_of
from tests.track.synthetic import make_all, ok_trials

SHARED = "mlflow.sharedViewState."


def test_an_experiment_has_the_view_under_its_key(results: Path) -> None:
    published = publish_study(*make_all(results, ok_trials(2)), default_tracking_uri(results))
    tags = client_of(published.tracking_uri).get_experiment(published.experiment_id).tags
    assert tags[SHARED + view_key()] == view_state()
    assert view_key() == hashlib.sha256(view_state().encode()).hexdigest()
    for charts in (True, False):
        assert f"({view_link(published.experiment_id, charts=charts)})" in tags["mlflow.note.content"]


def test_everything_that_the_view_shows_is_there_to_be_shown(results: Path) -> None:
    """A column or an axis of a name that no run has would stay empty without a word."""
    published = publish_study(*make_all(results, ok_trials(2)), default_tracking_uri(results))
    run, parent = children_of(published)["id000001"], parent_of(published)
    state = json.loads(view_state())
    there = {f"metrics.`{name}`" for name in run.data.metrics} | {f"params.`{name}`" for name in run.data.params}
    there |= {f"tags.`{name}`" for name in {**run.data.tags, **parent.data.tags}}
    assert set(state["selectedColumns"]) <= there
    scatter, parallel = state["compareRunCharts"]
    metrics = {scatter["xaxis"]["key"], scatter["yaxis"]["key"], *parallel["selectedMetrics"]}
    assert metrics <= run.data.metrics.keys()
    assert set(parallel["selectedParams"]) <= run.data.params.keys()
    assert {card["metricSectionId"] for card in (scatter, parallel)} == {state["compareRunSections"][0]["uuid"]}


def test_an_experiment_from_before_gains_the_view_and_a_description_of_somebody_stays(results: Path) -> None:
    everything = make_all(results, ok_trials(1))
    published = publish_study(*everything, default_tracking_uri(results))
    client = client_of(published.tracking_uri)
    client.delete_experiment_tag(published.experiment_id, SHARED + view_key())
    client.set_experiment_tag(published.experiment_id, "mlflow.note.content", "Ours. Ask Ada.")
    publish_study(*everything, published.tracking_uri)
    tags = client.get_experiment(published.experiment_id).tags
    assert tags[SHARED + view_key()] == view_state()
    assert tags["mlflow.note.content"] == "Ours. Ask Ada."


def test_the_parent_run_links_to_the_view(results: Path) -> None:
    published = publish_study(*make_all(results, ok_trials(1)), default_tracking_uri(results))
    note = parent_of(published).data.tags["mlflow.note.content"]
    [address] = re.findall(r"\[Compare with all studies of this experiment\]\((\S+)\)", note)
    assert address == view_link(published.experiment_id, charts=True)
