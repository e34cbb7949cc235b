"""The table: frontier, then dominated, then not scored; whole names at every width."""

from __future__ import annotations

import dataclasses
import io
import itertools

import pytest

from bench.frontier.types import Frontier
from bench.report import write_table
from bench.spec import ChainInfo
from tests.report import examples
from tests.report.examples import MIB, PERSISTENT, T5_CHAINS, failed, frontier_of, gpt2_eight, gpt2_sixteen, ok


def text_of(frontier: Frontier, width: int = 120, chains: tuple[ChainInfo, ...] = ()) -> str:
    file = io.StringIO()
    write_table(frontier, file, width, chains)
    return file.getvalue()


def row_of(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if f" {label} " in f" {line} ")


def test_row_shows_times_peaks_and_shares() -> None:
    row = row_of(text_of(gpt2_eight()), "h.0..11:each")
    # saved: (3236 - 2390) / (3236 - 1424)
    assert row.split("h.0..11:each")[1].split() == [
        "6.01", "×1.22", "±", "0.02", "slower", "2390", "73.9", "%", "46.7", "%", "22.0", "%", "100", "%",
    ]  # fmt: skip


def test_frontier_comes_first_from_the_highest_peak_then_the_dominated_then_the_failed() -> None:
    text = text_of(gpt2_sixteen())
    order = ["none (reference)", "h.0..11:every.2", "h.0..11:each ", "h.0..5:each ", "h.0..5+h.6..11 ", "not scored"]
    places = [text.index(label) for label in order]
    assert places == sorted(places)
    assert text.index("h.0..11:each:keep.matmul ") > text.index("not scored")


def test_marks_tell_the_frontier_and_its_knee() -> None:
    text = text_of(gpt2_eight())
    assert row_of(text, "h.0..11.mlp:each").startswith("★")
    assert row_of(text, "h.0..11:every.2").startswith("●")
    assert row_of(text, "h.0..5:each").startswith(" ")


def test_failure_has_outcome_and_reason_and_no_number() -> None:
    text = text_of(frontier_of(failed("h.0", "oom", "wanted 77 MiB")))
    assert row_of(text, "h.0").split() == ["h.0", "oom", "wanted", "77", "MiB"]
    assert "No placement was measured." in text


def test_unmeasured_values_are_dashes() -> None:
    trial = dataclasses.replace(ok("h.0:each", 2000, 1.1), replay_flops=None, frontier_confidence=None)
    row = row_of(text_of(frontier_of(ok("none", 3000, 1.0, width=0), trial)), "h.0:each")
    assert row.split()[-2:] == ["–", "–"]


def test_notes_stand_below() -> None:
    assert text_of(gpt2_sixteen()).splitlines()[-1] == "note: Stopped by the time cap of 1500 s after 6 of 10 rounds."


def test_prefix_that_was_taken_off_is_said() -> None:
    assert "placements are shown without their common prefix `transformer.`" in text_of(gpt2_eight())
    assert "common prefix" not in text_of(examples.t5())


def test_lists_of_blocks_are_abbreviated_and_explained() -> None:
    text = text_of(examples.t5())
    assert row_of(text, "dec|enc.0..5:every.2").split()[2:6] == ["5.52", "×1.12", "±", "0.02"]
    assert "`dec.` is `decoder.block.`, `enc.` is `encoder.block.`" in text


def test_a_placement_that_covers_one_of_two_chains_says_so() -> None:
    text = text_of(examples.t5(), chains=T5_CHAINS)
    below = {above: line.strip() for above, line in itertools.pairwise(text.splitlines())}
    assert below[row_of(text, "enc.0..5:each")] == "covers encoder 6/6, decoder 0/6"
    assert below[row_of(text, "dec.0..2.layer.2.DenseReluDense:each")] == "covers encoder 0/6, decoder mlp 3/6"
    assert text.count("covers") == 2, "the others cover both alike"


def test_verdicts_have_a_column_where_there_are_any() -> None:
    assert "verdict" in text_of(gpt2_eight())
    trial = dataclasses.replace(ok("h.0:each", 2000, 1.1), verdict=None)
    assert "verdict" not in text_of(frontier_of(ok("none", 3000, 1.0, width=0), trial))


def test_a_narrow_terminal_gives_up_the_share_of_the_peak_first() -> None:
    assert "73.9 %" in text_of(gpt2_eight(), 92)
    narrow = text_of(gpt2_eight(), 80)
    assert "73.9 %" not in narrow
    assert "46.7 %" in narrow


@pytest.mark.parametrize("width", [80, 100, 160])
def test_lines_fit_and_no_name_is_cut(width: int) -> None:
    label = "+".join(f"h.{first}..{first + 1}:each:keep.attention.matmul%2@no-rng" for first in range(0, 12, 2))
    text = text_of(frontier_of(ok("none", 3000, 1.0, width=0), ok(label, 2000, 1.1)), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    pieces = [line for line in text.splitlines() if "h." in line or "keep" in line or "@no-rng" in line]
    words = "".join(piece.strip(" ●★").split(" ")[0] for piece in pieces)
    assert label in words


def with_forecasts(miss: float = 0.0) -> Frontier:
    """`h.0:each` forecast off by `miss` of what could move, and one that did not fit."""
    forecast = round(1900 * MIB + miss * (1900 * MIB - PERSISTENT))
    return frontier_of(
        ok("none", 3000, 1.0, width=0, forecast_peak_bytes=3000 * MIB, forecast_error_share=0.0),
        ok("h.0:each", 1900, 1.1, forecast_peak_bytes=forecast, forecast_error_share=miss),
        dataclasses.replace(failed("h.1", "oom", "wanted 77 MiB"), forecast_peak_bytes=5000 * MIB),
    )


def test_predicted_stands_beside_measured() -> None:
    text = text_of(with_forecasts(0.02))
    assert row_of(text, "h.0:each").split()[-11:-7] == ["1900", "1910", "+2.0", "%"]
    assert "exact" in row_of(text, "none (reference)")


def test_a_placement_that_did_not_fit_shows_what_it_would_take() -> None:
    assert row_of(text_of(with_forecasts()), "h.1").split()[:3] == ["h.1", "oom", "5000"]


def test_without_forecasts_no_column_and_no_word_speaks_of_them() -> None:
    assert "forecast" not in text_of(gpt2_eight())


def test_a_narrow_terminal_gives_up_the_forecast_and_no_other_column() -> None:
    narrow = text_of(with_forecasts(0.02), 80)
    assert all(len(line) <= 80 for line in narrow.splitlines())
    assert narrow.splitlines()[2].split()[-4:] == ["MiB", "saved", "replay", "sure"]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (88, ["MiB", "MiB", "saved", "replay", "sure"]),
        (98, ["MiB", "MiB", "ref.", "saved", "replay", "sure"]),
        (108, ["MiB", "MiB", "error", "ref.", "saved", "replay", "sure"]),
    ],
)
def test_with_more_room_come_the_forecast_the_share_of_the_peak_and_the_error(width: int, shown: list[str]) -> None:
    text = text_of(with_forecasts(0.02), width)
    assert text.splitlines()[2].split()[4:] == shown
    assert all(len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize(("width", "explained"), [(80, set()), (88, {"forecast"}), (108, {"forecast", "its error"})])
def test_the_legend_explains_the_columns_of_forecasts_that_are_shown(width: int, explained: set[str]) -> None:
    legend = " ".join(text_of(with_forecasts(0.02), width).split())
    assert {name for name in ("forecast", "its error") if f"; {name}: " in legend} == explained


def test_savings_rest_on_the_forecast_of_none_where_it_does_not_fit_and_say_so() -> None:
    text = text_of(examples.none_does_not_fit())
    cells = row_of(text, "h.0..5:each").split("h.0..5:each (reference)")[1].split()
    assert cells[3:7] == ["60.0", "%", f"{100 * 1600 / (4000 - PERSISTENT / MIB):.1f}", "%"]
    assert text.splitlines()[2].split()[4] == "none∗"
    assert "none∗ does not fit: its peak is a forecast" in " ".join(text.split())
    assert "saved: share of what could move (forecast peak of none − persistent)" in " ".join(text.split())


def test_an_empty_study_says_so() -> None:
    assert "The study has no placement yet." in text_of(frontier_of())


def test_the_verdict_on_the_replay_has_a_column_where_there_is_room() -> None:
    audits = {"none": None, "transformer.h.0..11:each": "valid-within-tolerance"}
    frontier = gpt2_eight()
    trials = tuple(dataclasses.replace(t, audit=audits.get(t.placement, "valid")) for t in frontier.trials)
    wide = text_of(dataclasses.replace(frontier, trials=trials))
    cells = {label: row_of(wide, label).split()[-1] for label in ("none", "h.0..11:each", "h.0..11:every.2")}
    assert cells == {"none": "–", "h.0..11:each": "tol", "h.0..11:every.2": "bit"}
    assert "valid: replay equal to the bit" in wide
    narrow = text_of(dataclasses.replace(frontier, trials=trials), width=90)
    assert row_of(narrow, "h.0..11:every.2").split()[-1] == "%"
    assert "valid: replay" not in narrow
