"""`timelines.json`: what is written is read, and what cannot be a timeline harms nothing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench.records.timeline import (
    TIMELINE_FILE,
    Timeline,
    TimelinePhase,
    Timelines,
    read_timelines,
    totals_of,
    write_timelines,
)


def timeline_of(placement: str, saved: tuple[int, ...] = (0, 300, 500, 0)) -> Timeline:
    """Parameters that stay, and saved activations that come and go; four points."""
    return Timeline(
        placement=placement,
        peak_bytes=1000 + max(saved),
        peak_point=saved.index(max(saved)),
        peak_op="addmm",
        peak_module="h.0.mlp",
        peak_in_replay=False,
        largest_error_bytes=12,
        width=9,
        positions=(0, 2, 5, 9),
        made=(0, 2, 4, 6),
        remade=(0, 0, 1, 1),
        by_category={"parameters": (1000,), "saved activations": saved},
        phases=(
            TimelinePhase(phase="forward", micro_batch=0, begin=0, made=0, peak_bytes=1000 + max(saved)),
            TimelinePhase(phase="backward", micro_batch=0, begin=5, made=4, peak_bytes=1000 + saved[2]),
        ),
    )


SOME = Timelines(placements={text: timeline_of(text) for text in ("none", "h.0")})


def changed(directory: Path, **fields: Any) -> str:
    """The problem of a file whose timeline of `none` has other fields."""
    write_timelines(directory, SOME)
    path = directory / TIMELINE_FILE
    data = json.loads(path.read_text())
    data["placements"]["none"] |= fields
    path.write_text(json.dumps(data))
    found = read_timelines(directory)
    assert found.placements == {}
    assert found.problem is not None
    return found.problem


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_timelines(tmp_path, SOME)
    assert read_timelines(tmp_path) == SOME


def test_no_file_is_no_timelines(tmp_path: Path) -> None:
    assert read_timelines(tmp_path) == Timelines()


def test_a_category_that_never_changes_is_one_number_and_counts_at_every_point() -> None:
    assert totals_of(timeline_of("none")) == [1000, 1300, 1500, 1000]


def test_later_timelines_hold_and_the_others_stay() -> None:
    later = timeline_of("h.0", (0, 100, 200, 0))
    assert SOME.joined({"h.0": later}).placements == {"none": SOME.placements["none"], "h.0": later}


def test_a_problem_is_never_written(tmp_path: Path) -> None:
    write_timelines(tmp_path, Timelines(problem="it was torn"))
    assert "torn" not in (tmp_path / TIMELINE_FILE).read_text()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{torn", "Expecting property name"),
        ("[]", "schema_version None, expected 1"),
        ('{"schema_version": 7, "placements": {}}', "schema_version 7, expected 1"),
        ('{"schema_version": 1, "placements": {"none": {"placement": "none"}}}', "placements.none"),
    ],
)
def test_a_damaged_file_is_no_timelines_and_says_what_is_wrong_and_how_it_is_made_anew(
    tmp_path: Path, content: str, why: str
) -> None:
    (tmp_path / TIMELINE_FILE).write_text(content)
    found = read_timelines(tmp_path)
    assert found.placements == {}
    assert found.problem is not None
    assert why in found.problem
    assert "the next sweep of this study, once forecast.json is removed, makes it anew" in found.problem


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"placement": "h.0"}, "holds the timeline of another placement"),
        ({"peak_point": 4}, "peak_point 4 is none of 4 points"),
        ({"peak_bytes": 1501}, "its categories do not add up to its peak"),
        ({"peak_point": 1}, "its categories do not add up to its peak"),
        ({"made": [0, 2, 4]}, "differ in length"),
        ({"positions": [0, 5, 2, 9]}, "positions, made or remade fall"),
        ({"positions": [0, 2, 5, 10]}, "a position lies outside the axis"),
        ({"by_category": {"parameters": [1000], "saved activations": [0, 500]}}, "neither one number nor 4"),
        ({"by_category": {"parameters": [1001], "other": [-1], "saved activations": [0, 300, 500, 0]}}, "less than 0"),
        ({"positions": ["<script>", 2, 5, 9]}, "expected a whole number"),
    ],
)
def test_what_cannot_be_a_timeline_is_damage(tmp_path: Path, fields: dict[str, Any], why: str) -> None:
    assert why in changed(tmp_path, **fields)


def test_a_timeline_without_points_is_damage(tmp_path: Path) -> None:
    write_timelines(tmp_path, Timelines(placements={"none": dataclasses.replace(timeline_of("none"), positions=())}))
    assert "is none of 0 points" in (read_timelines(tmp_path).problem or "")
