"""`plan.json`: what is written is read, what cannot be read harms nothing, and later rounds join earlier ones."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bench.records import PLAN_FILE, Plan, PlanRequest, Plans, read_plans, read_records, write_plans


def plan_of(placement: str, peak: int = 1000, **fields: object) -> Plan:
    known = {"label": f"planned ({peak} B)", "replay_ms": 5.0, "bound_ms": 4.0} | fields
    return Plan(placement=placement, peak_allocated_bytes=peak, **known)  # type: ignore[arg-type]


SOME = Plans(
    request=PlanRequest(count=2, peers=("all",)),
    rows=(plan_of("h.0", 800), plan_of("h.1", 900, label="rotor (900 B)", peer="rotor", is_installable=False)),
    missing={"autosac": "needs pulp"},
    persistent_bytes=100,
    floor_bytes=800,
    plain_bytes=1000,
    step_ms=50.0,
    cost_source="measured",
    notes=("of one recording",),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_plans(tmp_path, SOME)
    assert read_plans(tmp_path) == SOME
    assert read_records(tmp_path).plans == SOME


def test_no_file_is_no_plans(tmp_path: Path) -> None:
    assert read_plans(tmp_path) == Plans()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{torn", "Expecting property name"),
        ("[]", "schema_version None, expected 1"),
        ('{"schema_version": 9}', "schema_version 9, expected 1"),
        ('{"schema_version": 1, "rows": [{"placement": "h.0"}]}', "rows[0].label: missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_no_plans_and_says_why(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / PLAN_FILE).write_text(content)
    plans = read_plans(tmp_path)
    assert plans.rows == ()
    assert plans.problem is not None
    assert why in plans.problem
    assert "the next sweep of this study makes it anew" in plans.problem


def test_the_problem_is_never_written(tmp_path: Path) -> None:
    write_plans(tmp_path, dataclasses.replace(SOME, problem="torn"))
    assert "problem" not in json.loads((tmp_path / PLAN_FILE).read_text())


def test_a_later_round_adds_its_rows_and_reasons_and_the_first_keeps_its_figures() -> None:
    later = Plans(
        request=PlanRequest(budgets=("850",)),
        rows=(plan_of("h.2", 850, round=2),),
        missing={"850": "no placement"},
        plain_bytes=1000,
        step_ms=70.0,
        rounds=2,
    )
    both = SOME.joined(later)
    assert [row.placement for row in both.rows] == ["h.0", "h.1", "h.2"]
    assert both.missing == {"autosac": "needs pulp", "850": "no placement"}
    assert (both.request, both.step_ms, both.rounds) == (SOME.request, 50.0, 2)


def test_no_plans_joined_with_some_are_those() -> None:
    assert Plans().joined(SOME) == SOME
    assert SOME.joined(Plans()) == SOME


def test_what_is_expected_of_a_placement_is_what_was_said_first() -> None:
    again = plan_of("h.0", 800, replay_ms=9.0, round=2)
    assert SOME.joined(Plans(request=PlanRequest(), rows=(again,))).expected["h.0"].replay_ms == 5.0


@pytest.mark.parametrize("request_", [PlanRequest(), PlanRequest(peer_budgets=("1GiB",), match_peers=True)])
def test_budgets_of_peers_alone_ask_for_nothing(request_: PlanRequest) -> None:
    assert not request_.asks_for_any


@pytest.mark.parametrize(
    "request_", [PlanRequest(count=1), PlanRequest(budgets=("60%",)), PlanRequest(peers=("rotor",))]
)
def test_a_count_a_budget_or_a_peer_asks_for_plans(request_: PlanRequest) -> None:
    assert request_.asks_for_any
