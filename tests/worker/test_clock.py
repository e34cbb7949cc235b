"""The time that an execution may take, on a clock that is given."""

from __future__ import annotations

import pytest

from bench.worker import rounds
from bench.worker.rounds import Clock


def test_what_an_audit_takes_does_not_count_against_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(rounds.time, "monotonic", lambda: now[0])
    clock = Clock(began=0.0, already_spent_s=10.0, cap_s=60.0)
    with clock.stopped():
        now[0] = 300.0
    now[0] = 330.0
    assert not clock.exceeds_cap(20.0)
    assert clock.exceeds_cap(20.1)
