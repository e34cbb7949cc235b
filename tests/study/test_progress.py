"""How far a study is, and how long it takes yet."""

from __future__ import annotations

import dataclasses

from bench.records import Records, Starting, TimeSample
from bench.spec import Caps
from bench.study.progress import Progress, ProgressTracker
from tests.builders import make_records, make_study


def starting(at_s: float, stage: str, placement: str) -> Starting:
    return Starting(execution=0, process="p", unix_time_s=at_s, stage=stage, placement=placement, round=None)


def test_audits_take_nothing_from_the_time_that_is_left_under_the_cap() -> None:
    study = dataclasses.replace(make_study(("none", "a")), caps=Caps(time_cap_s=100.0))
    (sample,) = make_records({"none": [1000.0]}, {}).of(TimeSample)
    told: list[Progress] = []
    now = 0.0
    tracker = ProgressTracker(study, Records(entries=()), told.append, clock=lambda: now)
    now = 10.0
    tracker.see(starting(10.0, "audit", "a"))
    now = 70.0  # the audit took a minute
    tracker.see(starting(70.0, "time", "none"))
    now = 80.0
    tracker.see(dataclasses.replace(sample, unix_time_s=80.0))
    assert told[-1].seconds_left == 100.0 - (80.0 - 60.0)
