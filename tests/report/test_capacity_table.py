"""The tables of a capacity answer in a terminal, and as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re

import pytest

from bench.capacity.types import DATA_ENDS, Answer
from bench.report.capacity_evidence import capacity_csv, capacity_markdown, capacity_rows
from bench.report.capacity_table import render_capacity
from bench.report.terminal import plain_text
from tests.report.capacity_examples import (
    ALL,
    BLOCKS,
    FOUR,
    MIB,
    MLPS,
    PLAIN,
    WRONG,
    Reach,
    capacity_controls,
    make_answer,
)

NOTHING = {PLAIN: Reach(largest=None, next_size=1, next_peak=5000 * MIB)}
LONG = "+".join(f"transformer.h.{i}.mlp" for i in range(0, 12, 2))


def text(answer: Answer, width: int = 120) -> str:
    return plain_text(render_capacity(answer), width)


def row(said: str, name: str) -> str:
    return next(line for line in said.splitlines() if name in line)


def words(said: str) -> str:
    return " ".join(said.split())


def test_a_row_has_size_times_throughput_share_verdict_peak_and_what_is_left() -> None:
    cells = row(text(make_answer()), "h.0..10:each").split()
    assert cells[:5] == ["●", "h.0..10:each", "16", "×4", "704"]
    assert "slower" in cells
    assert cells[-4:] == ["4080", "16", "17:", "4200"]
    assert "88.0 ± 0." in row(text(make_answer()), "h.0..10:each")


def test_the_furthest_come_first_and_the_faster_first_among_equals() -> None:
    lines = text(make_answer()).splitlines()
    found = [next(i for i, line in enumerate(lines) if name in line) for name in
             ("h.0..10:each", "h.0..11:each", "h.0..11.mlp:each", " none ")]  # fmt: skip
    assert found == sorted(found)


def test_none_is_the_whole_of_its_own_throughput() -> None:
    cells = row(text(make_answer()), " none ").split()
    assert cells[:6] == ["none", "4", "×1", "800", "100", "%"]


def test_only_the_frontier_is_marked() -> None:
    said = text(make_answer())
    assert row(said, "h.0..11.mlp:each").startswith("●")
    assert not row(said, " none ").startswith("●")  # 6 samples at more tokens a second beat it in both
    assert not row(said, "h.0..11:each").startswith("●")


def test_the_limit_and_what_is_kept_free_stand_in_the_heading() -> None:
    assert "largest micro-batch that trains within 4,096 MiB, and tokens a second there" in text(make_answer())
    said = text(make_answer(headroom=0.05))
    assert "within 3,891 MiB (4,096 MiB, of which 5 % are kept free)" in said


def test_at_a_multiple_all_that_reach_it_are_ranked() -> None:
    said = text(make_answer())
    part = said[said.index("at multiples") :].splitlines()
    two, four = (next(i for i, line in enumerate(part) if line.strip().startswith(times)) for times in ("×2", "×4"))
    assert [word for word in ("8 samples", "★", "h.0..10:each", "690") if word not in part[two]] == []
    assert [word for word in ("h.0..11:each", "660") if word not in part[two + 1]] == []
    assert "★" not in part[two + 1]
    assert [word for word in ("16 samples", "★", "h.0..10:each", "704") if word not in part[four]] == []


def test_four_times_the_batch_stands_beside_rockmates_figure() -> None:
    said = words(text(make_answer()))
    assert re.search(
        r"→ 4 times the micro-batch in the same memory at 88 % .*of the throughput, with h.0..10:each", said
    )
    assert (
        "Rockmate (Zhao et al., ICML 2023) has GPT2-large at 4 times the batch in the same memory with 88.6 %" in said
    )


def test_another_axis_is_another_question_than_rockmates() -> None:
    reach = {PLAIN: Reach(largest=256, next_size=320, rate=800.0)}
    assert "Rockmate" not in text(make_answer(reach, axis="sequence-length"))


def test_where_a_multiple_is_not_reached_it_says_how_far_it_goes_and_how_to_see_why() -> None:
    said = words(text(make_answer({PLAIN: FOUR[PLAIN], MLPS: FOUR[MLPS]})))
    assert "4 times the micro-batch is not reached: no placement reaches 16: the most is 6, 1.5 times" in said
    assert f"python -m bench explain model=gpt2 workload.micro_batch=6 placement={MLPS}" in said


def test_accumulation_is_shown_where_it_follows_the_size() -> None:
    reach = {PLAIN: Reach(largest=4, next_size=8, rate=800.0), BLOCKS: Reach(largest=16, next_size=None, rate=700.0)}
    answer = make_answer(reach, keep="global-batch", controls=capacity_controls(micro_batch=4, accumulation=4))
    said = text(answer)
    assert "accu-" in said
    assert row(said, " none ").split()[:5] == ["●", "none", "4", "×1", "4"]
    assert row(said, "h.0..10:each").split()[2:5] == ["16∗", "×4", "1"]
    assert "may go further: bound" in words(said)
    assert "accu-" not in text(make_answer())


def test_data_that_end_are_marked_and_no_matter_of_memory() -> None:
    reach = {PLAIN: Reach(largest=4, next_size=5, rate=800.0, next_peak=None, next_outcome=DATA_ENDS, next_reason="4")}
    said = text(make_answer(reach))
    assert "4∗" in row(said, " none ")
    assert "5: data ends" in row(said, " none ")
    assert "may go further: data ends" in words(said)
    assert "explain" not in said  # it is not memory that ends here


def test_what_has_no_size_is_a_row_with_its_reason() -> None:
    said = text(make_answer(FOUR | {WRONG: Reach(largest=None, next_size=None, valid=False)}))
    line = row(said[said.index("no size") :], "h.0..11:each@no-rng")
    assert "invalid" in line
    assert "gradients of transformer.wte differ" in words(said)


def test_where_nothing_fits_it_says_so_and_shows_no_number() -> None:
    said = text(make_answer(NOTHING))
    assert "No placement was found to fit at any size." in said
    assert "no size fits" in row(said[said.index("no size") :], "none")
    assert "nan" not in said.lower()


def test_an_answer_without_timing_has_absent_values() -> None:
    cells = row(text(make_answer(rounds=0)), "h.0..10:each").split()
    assert cells[:5] == ["h.0..10:each", "16", "×4", "–", "–"]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    many = FOUR | {WRONG: Reach(largest=None, next_size=None, valid=False), LONG: FOUR[MLPS]}
    assert max(map(len, text(make_answer(many), width).splitlines())) <= width


def test_csv_has_a_row_a_placement_and_one_for_each_at_each_multiple() -> None:
    rows = list(csv.DictReader(io.StringIO(capacity_csv(make_answer()))))
    assert [(r["placement"], r["at"], r["size"]) for r in rows] == [
        (PLAIN, "largest", "4"),
        (MLPS, "largest", "6"),
        (ALL, "largest", "16"),
        (BLOCKS, "largest", "16"),
        (BLOCKS, "2x", "8"),
        (ALL, "2x", "8"),
        (BLOCKS, "4x", "16"),
        (ALL, "4x", "16"),
    ]
    assert float(rows[3]["relative"]) == pytest.approx(0.88, rel=0.01)
    assert rows[3]["margin_bytes"] == str(16 * MIB)
    assert rows[4]["peak_allocated_bytes"] == ""  # that of another size is no peak of this one


def test_what_was_not_measured_is_none_in_rows_and_never_0() -> None:
    (only,) = capacity_rows(make_answer(NOTHING))
    assert only["size"] is None
    assert only["units_per_s"] is None
    assert only["peak_allocated_bytes"] is None


def test_markdown_escapes_names_and_has_findings_and_notes() -> None:
    said = capacity_markdown(make_answer(FOUR | {LONG: FOUR[MLPS]}))
    assert said.startswith("# gpt2 on AMD EPYC 7763: largest micro-batch that trains within 4,096 MiB\n")
    assert "| transformer.h.0..10:each | 16 | ×4 |" in said.replace("\\", "")
    assert "\\+" in said
    assert "## Findings" in said
    assert "Rockmate" in said


def test_where_the_axis_changes_the_model_it_says_of_which_model_placements_are_written() -> None:
    reach = {PLAIN: Reach(largest=12, next_size=13, rate=800.0), BLOCKS: Reach(largest=20, next_size=21, rate=500.0)}
    said = words(text(make_answer(reach, axis="layers")))
    assert "largest number of layers that trains within 4,096 MiB" in said
    assert "placements are written as in the model with layers 12" in said
    assert "bench explain" not in said  # its text would be another one at 20 layers


def test_a_limit_has_the_digits_that_peaks_beside_it_need() -> None:
    assert "within 29.4 MiB (30 MiB, of which 2 % are kept free)" in text(
        make_answer({PLAIN: FOUR[PLAIN]}, limit_bytes=30 * MIB, headroom=0.02)
    )
