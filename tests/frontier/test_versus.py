"""Plans against peers, on records whose times are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from bench.frontier.trials import summarize_trials
from bench.frontier.versus import NO_PLAN, Versus, mean_ratio_at_budgets, versus
from bench.placement import parse_placement
from bench.records import MemorySample, OutcomeRecord, Records, TimeSample
from bench.records.plan import Plan, Plans
from bench.report.terminal import plain_text
from bench.report.versus_table import render_versus, versus_rows
from bench.spec import PlacementEntry, StudySpec
from tests.builders import MIB
from tests.synthetic_studies import synthetic_records, synthetic_study

PEER, OTHER_PEER, PLAN, LARGE_PLAN = (f"transformer.h.{n}" for n in range(4))
PEAKS_MIB = {"none": 2000, PEER: 1500, OTHER_PEER: 1700, PLAN: 1400, LARGE_PLAN: 1650}


def study_of(texts: list[str]) -> StudySpec:
    study = synthetic_study(seed=1, num_placements=2)
    entries = tuple(PlacementEntry(text=t, id=parse_placement(t).id, generators=("explicit",)) for t in texts)
    return dataclasses.replace(study, placements=entries)


def told(times_ms: Mapping[str, float], *, num_rounds: int = 12, plans: Plans | None = None) -> Versus:
    """Each placement takes its time in every round, but for a thousandth that alternates."""
    study = study_of(list(PEAKS_MIB))
    template = list(synthetic_records(synthetic_study(seed=1, num_placements=2), seed=1, num_rounds=2))
    memory = next(record for record in template if isinstance(record, MemorySample))
    timed = next(record for record in template if isinstance(record, TimeSample))
    entries: list[Any] = []
    for text, time_ms in times_ms.items():
        entries.append(
            dataclasses.replace(
                memory, placement=text, peak_allocated_bytes=PEAKS_MIB[text] * MIB, persistent_bytes=1000 * MIB
            )
        )
        for number in range(num_rounds):
            wobble = 1 + 0.001 * (-1) ** (number + len(text))
            entries.append(
                dataclasses.replace(timed, placement=text, round=number, step_times_ms=(time_ms * wobble,) * 2)
            )
    origin = {field: getattr(timed, field) for field in ("execution", "process", "unix_time_s")}
    entries += [
        OutcomeRecord(placement=text, outcome="oom", stage="memory", reason="it does not fit", **origin)
        for text in PEAKS_MIB
        if text not in times_ms
    ]
    records = Records(entries=tuple(entries))
    return versus(study, records, summarize_trials(study, records), plans or Plans(rows=ROWS))


def row(placement: str, label: str, *, installable: bool | None = None) -> Plan:
    """Of a peer where `installable` is said."""
    peer = None if installable is None else label.partition(" (")[0]
    return Plan(
        placement=placement,
        label=label,
        peak_allocated_bytes=PEAKS_MIB[placement] * MIB,
        replay_ms=1.0,
        peer=peer,
        is_installable=installable,
    )


ROWS = (
    row(PEER, "rotor (1,500 MiB)", installable=False),
    row(PEER, "every-2", installable=True),
    row(OTHER_PEER, "chen-sqrt", installable=False),
    row(PLAN, "planned (1,400 MiB)"),
    row(LARGE_PLAN, "planned (1,650 MiB)"),
)
TIMES_MS = {"none": 100.0, PEER: 130.0, OTHER_PEER: 120.0, PLAN: 120.0, LARGE_PLAN: 110.0}


def test_ours_is_the_fastest_plan_within_the_peers_peak() -> None:
    low, high = told(TIMES_MS).duels
    assert (low.theirs, low.ours) == (PEER, PLAN)  # the other plan takes more memory than this peer
    assert (high.theirs, high.ours) == (OTHER_PEER, LARGE_PLAN)
    assert low.ratio == pytest.approx(120 / 130, rel=0.003)
    assert [duel.verdict for duel in (low, high)] == ["faster", "faster"]


def test_a_plan_of_the_second_round_shares_no_rounds_with_a_peer_and_is_no_rival() -> None:
    rows = (*(r for r in ROWS if r.placement != LARGE_PLAN), dataclasses.replace(ROWS[-1], round=2))
    assert [duel.ours for duel in told(TIMES_MS, plans=Plans(rows=rows)).duels] == [PLAN, PLAN]


def test_peers_that_agree_on_a_placement_are_one_row_installable_if_one_is() -> None:
    low, high = told(TIMES_MS).duels
    assert low.peers == ("rotor (1,500 MiB)", "every-2")
    assert (low.is_installable, high.is_installable) == (True, False)


def test_a_slower_plan_is_a_miss_and_so_is_an_unclear_one() -> None:
    assert [duel.verdict for duel in told(TIMES_MS | {PLAN: 140.0}).misses] == ["slower"]
    unclear = told(TIMES_MS, num_rounds=2)
    assert [duel.verdict for duel in unclear.misses] == ["unclear", "unclear"]


def test_no_plan_within_the_peak_is_a_miss() -> None:
    without = Plans(rows=tuple(r for r in ROWS if r.placement != PLAN))
    (miss,) = told(TIMES_MS, plans=without).misses
    assert (miss.theirs, miss.verdict, miss.ours) == (PEER, NO_PLAN, None)


def test_none_stands_for_ours_where_it_is_within_the_peak() -> None:
    rows = (*ROWS, row("none", "checkpoint-sequential-1", installable=True))
    last = told(TIMES_MS, plans=Plans(rows=rows)).duels[-1]
    assert (last.theirs, last.ours, last.reason) == ("none", "none", "one and the same placement")
    assert last.is_met


def test_a_peer_without_a_time_is_named_with_its_reason() -> None:
    times = {text: ms for text, ms in TIMES_MS.items() if text != OTHER_PEER}
    result = told(times)
    assert result.unmeasured == (("chen-sqrt", "oom: it does not fit"),)
    assert len(result.duels) == 1


def test_the_mean_is_over_the_best_rival_within_each_budget() -> None:
    # At 1,700 MiB the peer of 1,500 MiB would be the faster one, so it is what ours is held against there.
    result = told(TIMES_MS | {PEER: 115.0, PLAN: 112.0})
    both = mean_ratio_at_budgets(result, lambda _: True)
    assert both == pytest.approx(((112 / 115) * (110 / 115)) ** 0.5, rel=0.003)
    assert mean_ratio_at_budgets(result, lambda duel: duel.is_installable) == pytest.approx(112 / 115, rel=0.003)
    assert mean_ratio_at_budgets(told(TIMES_MS, plans=Plans()), lambda _: True) is None


def test_the_table_says_who_won_and_what_was_missed() -> None:
    result = told(TIMES_MS | {PLAN: 140.0})
    text = plain_text(render_versus(result))
    assert "at 1 of 2 peaks of peers a plan with no higher peak is faster or the same" in text
    assert "missed: rotor (1,500 MiB), every-2: slower" in text
    assert [shown["verdict"] for shown in versus_rows(result)] == ["slower", "faster"]
