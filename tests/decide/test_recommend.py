"""Which placement answers a wish, the runner-up, and how sure it is."""

from __future__ import annotations

import pytest

from bench.compare import Measured
from bench.decide import Wish, card_room, recommend
from bench.decide.types import LEAST, NOTHING_FITS, NOTHING_MEASURED, PERSISTENT_EXCEEDS, USE, USE_NONE
from bench.decide.words import card_text, recommendation_text
from bench.frontier import build_frontier
from bench.records import Forecasts
from tests.builders import MIB, join_records, make_records, make_study
from tests.compare.studies import failed, measured, published

GIB = 2**30
FIVE = {
    "none": (1.0, 1000),
    "blocks.0": (1.02, 900),
    "blocks.0..1:each": (1.10, 700),
    "blocks.1": (1.15, 690),
    "blocks.0..1": (1.60, 660),
}


def study_of(times: dict[str, list[float]], peaks: dict[str, int]) -> Measured:
    study = make_study(tuple(peaks))
    records = make_records(times, peaks)
    return Measured(frontier=build_frontier(study, records), study=study, records=records)


def test_within_a_budget_the_fastest_that_fits() -> None:
    said = recommend(measured(FIVE), Wish(budget_bytes=700 * MIB))
    assert said.kind == USE
    assert said.chosen is not None
    assert said.chosen.placement == "blocks.0..1:each"
    assert said.chosen.share == 1.0
    assert said.chosen.audit == "valid"
    assert said.runner_up is not None
    assert said.runner_up.placement == "blocks.1"


def test_a_peak_equal_to_the_budget_fits_and_one_byte_less_does_not() -> None:
    assert recommend(measured(FIVE), Wish(budget_bytes=660 * MIB)).kind == USE
    assert recommend(measured(FIVE), Wish(budget_bytes=660 * MIB - 1)).kind == NOTHING_FITS


def test_where_none_fits_it_is_the_answer_even_if_noise_made_another_faster() -> None:
    said = recommend(measured(FIVE | {"blocks.0": (0.99, 900)}), Wish(budget_bytes=1000 * MIB))
    assert said.kind == USE_NONE
    assert said.chosen is not None
    assert said.chosen.placement == "none"
    assert "none already fits 1000 MiB: use none" in recommendation_text(said, None)


def test_a_budget_below_what_is_always_there_cannot_be_met_by_placing() -> None:
    said = recommend(measured(FIVE), Wish(budget_bytes=300 * MIB))  # make_records keeps half of each peak between steps
    assert said.kind == PERSISTENT_EXCEEDS
    assert said.persistent_bytes == 330 * MIB
    assert said.chosen is None
    assert "optimizer state and batches alone take 330" in recommendation_text(said, None)


def test_where_nothing_fits_the_lowest_is_named_and_what_to_plan() -> None:
    said = recommend(measured(FIVE), Wish(budget_bytes=500 * MIB))
    assert said.kind == NOTHING_FITS
    assert said.lowest is not None
    assert said.lowest.placement == "blocks.0..1"
    text = recommendation_text(said, None)
    assert "no measured placement fits 500.0 MiB; the lowest is blocks.0..1 with 660.0 MiB" in text
    assert f"python -m bench plan study={said.study} budget=500MiB" in text


def test_two_that_take_turns_are_as_unsure_as_a_coin() -> None:
    turns = [110.0, 112.0] * 5
    one = study_of(
        {"none": [100.0] * 10, "blocks.0": turns, "blocks.1": [222 - time for time in turns]},
        {"none": 80, "blocks.0": 40, "blocks.1": 39},
    )
    said = recommend(one, Wish(budget_bytes=40))
    assert said.chosen is not None
    assert said.runner_up is not None
    assert said.chosen.share is not None
    assert said.runner_up.share is not None
    assert said.chosen.share + said.runner_up.share == pytest.approx(1.0)
    assert 0.25 < said.runner_up.share < 0.75


def test_a_slowdown_asks_for_the_lowest_peak_at_that_price() -> None:
    def chosen(slowdown: float) -> str | None:
        said = recommend(measured(FIVE), Wish(slowdown=slowdown))
        return None if said.chosen is None else said.chosen.placement

    assert chosen(0.05) == "blocks.0"
    assert chosen(0.13) == "blocks.0..1:each"
    assert chosen(1.0) == "blocks.0..1"
    assert chosen(0.005) == "none"
    assert recommend(measured(FIVE), Wish(slowdown=0.005)).kind == USE_NONE


def test_a_slowdown_at_the_very_ratio_is_unsure() -> None:
    said = recommend(measured(FIVE), Wish(slowdown=0.10 + 0.002))
    shares = [one.share for one in (said.chosen, said.runner_up) if one is not None and one.share is not None]
    assert len(shares) == 2
    assert all(0 < share < 1 for share in shares)


def test_without_a_wish_the_knee() -> None:
    one = measured(FIVE)
    said = recommend(one, Wish())
    assert said.kind == USE
    assert said.chosen is not None
    assert said.chosen.placement == one.frontier.knee == "blocks.0..1:each"
    assert said.chosen.share is not None
    assert said.chosen.share > 0.9


def test_a_frontier_of_two_has_no_knee_and_its_lowest_peak_is_the_answer() -> None:
    said = recommend(measured({"none": (1.0, 1000), "blocks.0": (1.1, 700)}), Wish())
    assert said.kind == LEAST
    assert said.chosen is not None
    assert said.chosen.placement == "blocks.0"
    assert "no knee" in recommendation_text(said, None)


def test_a_study_of_none_alone_says_use_none() -> None:
    said = recommend(measured({"none": (1.0, 1000)}), Wish())
    assert (said.kind, said.runner_up) == (USE_NONE, None)


def test_invalid_placements_are_no_answers() -> None:
    one = measured(FIVE, outcomes={"blocks.0..1:each": ("invalid", "gradients differ")})
    said = recommend(one, Wish(budget_bytes=700 * MIB))
    assert said.chosen is not None
    assert said.chosen.placement == "blocks.1"


def test_a_study_without_results_says_so() -> None:
    assert recommend(failed(), Wish()).kind == NOTHING_MEASURED
    assert recommend(failed(), Wish(budget_bytes=1)).kind == NOTHING_MEASURED


def test_without_rounds_it_answers_and_knows_no_share() -> None:
    said = recommend(published(FIVE), Wish(budget_bytes=700 * MIB))
    assert said.chosen is not None
    assert said.chosen.placement == "blocks.0..1:each"
    assert said.chosen.share is None
    assert "unknown, too few rounds" in recommendation_text(said, None)


def test_where_none_ran_out_of_memory_it_is_no_answer() -> None:
    study = make_study(("none", "blocks.0", "blocks.0..1:each"))
    records = join_records(
        make_records(
            {"blocks.0": [100.0, 101.0, 102.0], "blocks.0..1:each": [120.0, 121.0, 122.0]},
            {"blocks.0": 80, "blocks.0..1:each": 40},
            {"none": ("oom", "wanted 100 bytes")},
        )
    )
    one = Measured(frontier=build_frontier(study, records), study=study, records=records)
    said = recommend(one, Wish(budget_bytes=90))
    assert said.reference == "blocks.0"
    assert said.chosen is not None
    assert (said.kind, said.chosen.placement) == (USE, "blocks.0")


def test_a_budget_and_a_slowdown_are_two_questions() -> None:
    with pytest.raises(ValueError, match="not both"):
        recommend(measured(FIVE), Wish(budget_bytes=1, slowdown=0.1))


def test_a_card_leaves_what_context_and_allocator_do_not_take() -> None:
    room = card_room(measured(FIVE).frontier, Forecasts(), 24 * GIB, GIB)
    assert room.overhead_source == "assumed"
    assert room.reserved_overhead_bytes == round(0.05 * 23 * GIB)
    assert room.budget_bytes == 23 * GIB - round(0.05 * 23 * GIB)
    assert "assumed: 5 %" in card_text(room)
