"""Verdicts in a frontier: fields of its trials, and what a reader is told."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

from bench.frontier import build_frontier, read_frontier, write_frontier
from bench.frontier.store import CSV_FILE
from bench.records import AuditRecord, Records
from tests.builders import make_records, make_study

TIMES = {"none": [100.0] * 8, "a": [110.0] * 8, "b": [120.0] * 8}
PEAKS = {"none": 100, "a": 80, "b": 60}
REDUCED = "audited with one micro-batch of 1, since the plain step at 4 does not fit"


def changed(records: Records, placement: str, **fields: object) -> Records:
    """With other fields of the verdict on `placement`."""
    entries = (
        dataclasses.replace(e, **fields) if isinstance(e, AuditRecord) and e.placement == placement else e  # type: ignore[arg-type]
        for e in records.entries
    )
    return dataclasses.replace(records, entries=tuple(entries))


def notes(records: Records) -> list[str]:
    return [note for note in build_frontier(make_study(("none", "a", "b")), records).notes if "audited" in note]


def test_a_study_from_before_there_were_audits_says_so_once() -> None:
    assert notes(make_records(TIMES, PEAKS, audited=False)) == [
        "not audited: whether a replayed step trains the same was not proved for any placement"
    ]


def test_a_placement_without_a_verdict_beside_others_is_named() -> None:
    records = make_records(TIMES, PEAKS)
    without = tuple(e for e in records.entries if not (isinstance(e, AuditRecord) and e.placement == "b"))
    told = notes(dataclasses.replace(records, entries=without))
    assert told == ["not audited, so whether their replay trains the same is not proved: b"]


def test_a_reduced_batch_is_told_once_for_all_that_were_audited_on_it() -> None:
    records = changed(changed(make_records(TIMES, PEAKS), "a", batch_note=REDUCED), "b", batch_note=REDUCED)
    assert notes(records) == [f"{REDUCED} (a, b)"]


def test_the_last_verdict_stands_in_the_files_of_the_frontier(tmp_path: Path) -> None:
    found = ({"kind": "state"}, {"kind": "rng"}, {"kind": "state"})
    records = changed(
        make_records(TIMES, PEAKS, {"b": ("invalid", "state: …")}), "b", outcome="invalid", findings=found
    )
    frontier = build_frontier(make_study(("none", "a", "b")), records)
    assert {t.placement: (t.audit, t.audit_kinds) for t in frontier.trials} == {
        "none": (None, ()),
        "a": ("valid", ()),
        "b": ("invalid", ("state", "rng")),
    }
    assert frontier.frontier == ("none", "a")
    write_frontier(tmp_path, frontier)
    assert read_frontier(tmp_path) == frontier
    with (tmp_path / CSV_FILE).open(newline="") as file:
        rows = {row["placement"]: row for row in csv.DictReader(file)}
    assert (rows["b"]["audit"], rows["b"]["audit_kinds"]) == ("invalid", "state rng")
    assert rows["none"]["audit"] == ""


def test_a_reason_says_how_often_where_it_is_not_always() -> None:
    (flaky,) = changed(
        make_records({}, {"a": 1}),
        "a",
        outcome="flaky",
        trials=10,
        differing=1,
        findings=({"kind": "control", "text": "a: another path", "cure": "let it be"},),
    ).of(AuditRecord)
    assert flaky.reason == "in 1 of 10 trials, control: a: another path; let it be"
    assert not flaky.is_valid
