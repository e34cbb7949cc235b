"""A published study is read back by the id of its run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.frontier import read_frontier, write_frontier
from bench.track import TrackError, default_tracking_uri, is_run_id, publish_study, published_frontier
from tests.track.stores import artifact_path, children_of, client_of, parent_of
from tests.track.synthetic import make_all, ok_trials


def test_a_frontier_is_read_back_by_its_run_or_that_of_a_placement(results: Path) -> None:
    directory, study, frontier = make_all(results, ok_trials(2))
    write_frontier(directory, frontier)
    uri = default_tracking_uri(results)
    published = publish_study(directory, study, frontier, uri)
    assert published_frontier(published.parent_run_id, uri) == read_frontier(directory) == frontier
    assert published_frontier(children_of(published)["id000001"].info.run_id, uri) == frontier


def test_an_unknown_run_and_a_run_of_something_else_are_told(results: Path) -> None:
    uri = default_tracking_uri(results)
    with pytest.raises(TrackError, match="0123456789abcdef"):
        published_frontier("0123456789abcdef" * 2, uri)
    run = client_of(uri).create_run("0")
    with pytest.raises(TrackError, match=rf"run {run.info.run_id} is no study of Boundary Bench"):
        published_frontier(run.info.run_id, uri)


def test_a_frontier_that_another_version_published_says_what_to_do(results: Path) -> None:
    directory, study, frontier = make_all(results, ok_trials(1))
    write_frontier(directory, frontier)
    uri = default_tracking_uri(results)
    published = publish_study(directory, study, frontier, uri)
    artifact_path(parent_of(published), "frontier.json").write_text('{"schema_version": 0}')
    with pytest.raises(TrackError, match=r"schema_version 0, expected 1.*publish the study again from its directory"):
        published_frontier(published.parent_run_id, uri)


def test_a_run_id_is_32_hex_digits() -> None:
    assert is_run_id("0123456789abcdef" * 2)
    assert not is_run_id("gpt2-0136b48f")
    assert not is_run_id("0123456789ABCDEF" * 2)
