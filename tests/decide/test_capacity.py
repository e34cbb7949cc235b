"""Which placement a capacity recommends: the most throughput, or the fastest that reaches a size."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bench.cli.main import main
from bench.decide.capacity import NOTHING_FITS, TOO_LARGE, USE, USE_NONE, CapacityChoice, recommend_capacity
from bench.decide.capacity_words import choice_text
from bench.placement import Placement
from tests.report.capacity_examples import (
    ALL,
    BLOCKS,
    FOUR,
    MIB,
    MLPS,
    PLAIN,
    Reach,
    capacity_controls,
    make_answer,
    write_capacity,
)

NO_FASTER = {PLAIN: FOUR[PLAIN], BLOCKS: FOUR[BLOCKS], ALL: FOUR[ALL]}


def choose(reach: dict[str, Reach], size: int | None = None, **fields: object) -> CapacityChoice:
    return recommend_capacity(make_answer(reach, **fields), "gpt2-capacity-1a2b3c4d", size)


def said(reach: dict[str, Reach], size: int | None = None) -> str:
    return choice_text(choose(reach, size), make_answer(reach))


def test_without_a_size_it_is_the_one_with_most_throughput() -> None:
    choice = choose(FOUR)
    assert choice.kind == USE
    assert choice.chosen is not None
    assert (choice.chosen.placement, choice.chosen.size, choice.chosen.was_run) == (MLPS, 6, True)
    assert choice.runner_up is not None
    assert choice.runner_up.placement == PLAIN
    assert choice.furthest is not None
    assert (choice.furthest.placement, choice.furthest.largest) == (BLOCKS, 16)
    text = said(FOUR)
    assert text.startswith(f"use {MLPS} at micro-batch 6\n")
    assert "(faster)" in text
    assert f"goes furthest: {BLOCKS} (16 samples)" in text


def test_a_larger_batch_that_trains_no_more_a_second_is_no_reason_to_replay() -> None:
    choice = choose(NO_FASTER)
    assert choice.kind == USE_NONE
    assert choice.chosen is not None
    assert choice.chosen.placement == PLAIN
    assert "no placement is shown to have more throughput than none" in said(NO_FASTER)


def test_more_throughput_that_the_rounds_do_not_show_is_no_reason_either() -> None:
    faster = {PLAIN: FOUR[PLAIN], MLPS: FOUR[MLPS]}
    assert choose(faster, rounds=5).kind == USE
    assert choose(faster, rounds=2).kind == USE_NONE  # too few rounds for a verdict


def test_a_faster_one_that_is_not_shown_to_be_does_not_hide_one_that_is() -> None:
    answer = make_answer({PLAIN: FOUR[PLAIN], MLPS: FOUR[MLPS], BLOCKS: Reach(largest=16, next_size=17, rate=900.0)})
    rows = tuple(
        dataclasses.replace(row, throughput=dataclasses.replace(row.throughput, verdict="unclear"))
        if row.placement == BLOCKS and row.throughput is not None
        else row
        for row in answer.rows
    )
    choice = recommend_capacity(dataclasses.replace(answer, rows=rows, at_multiples=()), "gpt2-capacity-1a2b3c4d")
    assert choice.chosen is not None
    assert (choice.kind, choice.chosen.placement) == (USE, MLPS)


def test_the_verdict_is_that_of_the_size_to_train_at() -> None:
    choice = choose(
        {PLAIN: FOUR[PLAIN], BLOCKS: Reach(largest=16, next_size=17, rate=700.0, smaller={8: 900.0})}, rounds=5
    )
    assert choice.chosen is not None
    assert (choice.kind, choice.chosen.placement, choice.chosen.size) == (USE, BLOCKS, 8)


def test_with_a_size_it_is_the_fastest_that_reaches_it() -> None:
    choice = choose(FOUR, 16)
    assert (choice.kind, choice.chosen.placement if choice.chosen else None) == (USE, BLOCKS)
    assert choice.runner_up is not None
    assert choice.runner_up.placement == ALL
    assert said(FOUR, 16).startswith(f"use {BLOCKS}\n")


def test_where_none_reaches_the_size_replay_brings_nothing() -> None:
    choice = choose(FOUR, 4)
    assert (choice.kind, choice.chosen.placement if choice.chosen else None) == (USE_NONE, PLAIN)
    assert choice.runner_up is None
    assert "none already trains micro-batch 4 within 4,096 MiB: use none" in said(FOUR, 4)


def test_a_size_that_was_not_run_itself_says_what_was() -> None:
    choice = choose(FOUR, 10)
    assert choice.chosen is not None
    assert (choice.chosen.placement, choice.chosen.was_run) == (BLOCKS, False)
    assert choice.chosen.timed is not None
    assert choice.chosen.timed.size == 8
    text = said(FOUR, 10)
    assert "10 itself was not run, 16 was" in text
    assert "timed at 8" in text


def test_a_size_beyond_all_says_how_far_it_goes() -> None:
    choice = choose(FOUR, 40)
    assert (choice.kind, choice.chosen) == (TOO_LARGE, None)
    assert "no placement was shown to train micro-batch 40 within 4,096 MiB; the furthest goes to 16" in said(FOUR, 40)


def test_a_size_that_did_not_fit_is_not_reached_although_a_larger_one_is() -> None:
    spec_reach = {PLAIN: FOUR[PLAIN], BLOCKS: Reach(largest=16, next_size=12, rate=704.0)}
    assert choose(spec_reach, 12).kind == TOO_LARGE
    assert choose(spec_reach, 11).kind == USE


def test_nothing_that_fits_names_the_reason() -> None:
    nothing = {PLAIN: Reach(largest=None, next_size=1, next_peak=5000 * MIB)}
    choice = choose(nothing)
    assert (choice.kind, choice.chosen) == (NOTHING_FITS, None)
    assert "not even micro-batch 1 fits" in said(nothing)


def test_a_size_that_the_search_could_not_try_names_those_near_it() -> None:
    reach = {PLAIN: Reach(largest=256, next_size=320, rate=800.0)}
    with pytest.raises(ValueError, match=r"multiples of 64.*near it: 256, 320"):
        choose(reach, 300, axis="sequence-length")
    controls = capacity_controls(micro_batch=4, accumulation=3)
    with pytest.raises(ValueError, match=r"divisors of the global batch.*near it: 4, 6"):
        choose({PLAIN: FOUR[PLAIN]}, 5, keep="global-batch", controls=controls)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def capacity(folder: Path) -> str:
    return write_capacity(folder / "results")[0].name


def test_the_verb_answers_saves_and_writes_json(
    capacity: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", f"study={capacity}", "size=16", "save=placement.json", "out=answer.json"]) == 0
    assert capsys.readouterr().out.startswith(f"use {BLOCKS}\n")
    placement = Placement.load(folder / "placement.json")
    assert placement.text == BLOCKS
    assert placement.origin is not None
    assert (placement.origin.study, placement.origin.micro_batch) == (capacity, 16)
    assert placement.origin.peak_allocated_bytes == 4080 * MIB
    answer = json.loads((folder / "answer.json").read_text())
    assert answer["recommendation"]["chosen"]["placement"] == BLOCKS


def test_the_beginning_of_a_name_will_do(capacity: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", "study=gpt2-capacity", "format=megatron"]) == 0
    assert "in megatron" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("budget=1GiB", "budget: gpt2-capacity-"),
        ("slowdown=5%", "ask for size=N"),
        ("size=0", "is no size along the axis"),
        ("size=many", "is no size along the axis"),
    ],
)
def test_a_wish_that_a_capacity_cannot_answer_is_refused(
    capacity: str, wish: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", f"study={capacity}", wish]) == 2
    assert said in capsys.readouterr().err


def test_publishing_rebuilds_tables_and_plots_from_the_records(
    capacity: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = folder / "results" / capacity
    for name in ("answer.json", "answer.csv", "plots/sizes.png"):
        (directory / name).unlink()
    assert main(["publish", f"study={capacity}", "tracker=none"]) == 0
    assert json.loads((directory / "answer.json").read_text())["rows"][1]["largest"] == 6
    assert (directory / "plots/sizes.png").stat().st_size > 0
