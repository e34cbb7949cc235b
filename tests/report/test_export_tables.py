"""Tables of an export: a row a placement, nothing made up, and hostile texts that stay texts."""

from __future__ import annotations

import csv
import io
import re

import pytest

from bench.report.evidence_data import EvidenceTable, evidence_table
from bench.report.evidence_text import as_csv, as_markdown
from bench.report.publication_latex import FigureFile, latex, latex_code, latex_figures
from bench.report.publication_table import PublicationTable, as_latex_table, publication_table
from tests.report.examples import failed, frontier_of, gpt2_eight, none_does_not_fit, ok

HOSTILE = 'a|b & 50% "_x_" </script>\n\\end{tabular} $1 [x](y)'


def table(reason: str = HOSTILE) -> EvidenceTable:
    every = ok("transformer.h.0..11:each", 500, 1.25, audit="invalid", audit_kinds=("rng", "state"))
    return evidence_table(frontier_of(ok("none", 1000, 1.0), every, failed("transformer.h.0", "oom", reason)))


def printed(columns: int = 2) -> PublicationTable:
    return publication_table(gpt2_eight(), (), columns)


def rows_of(text: str) -> list[list[str]]:
    """Cells of the rows of a LaTeX table, its titles first."""
    lines = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
    return [re.split(r"(?<!\\)&", line) for line in lines]


def test_every_placement_has_one_row_in_the_studys_order() -> None:
    assert [row[0] for row in table().rows] == ["none", "transformer.h.0..11:each", "transformer.h.0"]


def test_the_row_holds_validity_time_and_memory() -> None:
    row = dict(zip(table().columns, table().rows[1], strict=True))
    assert (row["audit"], row["audit found"], row["peak (MiB)"]) == ("invalid", "rng; state", "500")
    assert row["time ratio"].startswith("×1.25")


def test_what_was_not_measured_is_empty_and_never_0() -> None:
    row = dict(zip(table().columns, table().rows[2], strict=True))
    assert [row[name] for name in ("time ratio", "verdict", "rounds", "peak (MiB)", "forecast (MiB)")] == [""] * 5
    assert row["outcome"] == "oom"


def test_csv_gives_every_text_back() -> None:
    rows = list(csv.reader(io.StringIO(as_csv(table()))))
    assert [tuple(row) for row in rows] == [table().columns, *table().rows]


def test_a_hostile_reason_stays_one_markdown_cell() -> None:
    lines = as_markdown(table()).splitlines()
    assert len(lines) == 5
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {len(table().columns) + 1}
    assert "<" not in lines[4]
    assert "\\[x\\]" in lines[4]


def test_the_printed_table_has_the_columns_that_matter() -> None:
    titles = ("", "Placement", "Step time (s)", "Time ratio", "Peak (MiB)", "Saved (%)", "Verdict")
    assert printed().columns == titles
    assert printed(columns=1).columns == ("", "Placement", "Time ratio", "MiB", "Saved", "Verdict")


def test_a_printed_row_is_number_placement_time_ratio_peak_saving_and_verdict() -> None:
    saved = 100 * (3236 - 2744) / (3236 - 1424)
    assert printed().frontier_rows[1] == (
        "2", "h.0..11:every.2", "5.32 ± 0.10", "×1.08 ± 0.02", "2744", f"{saved:.1f}", "slower"
    )  # fmt: skip
    assert printed().frontier_rows[0][1:4] == ("none", "4.9", "×1")
    assert printed().frontier_rows[0][-1] == "reference"


def test_dominated_placements_stand_below_a_line_without_a_number() -> None:
    rows = printed().other_rows
    assert [row[:2] for row in rows] == [("", "h.0..5:each"), ("", "h.0..3+h.4..7+h.8..11")]
    assert len(printed().frontier_rows) == 6
    assert printed().left_out == "Below the line: dominated"


def test_a_long_frontier_is_cut_to_the_named_placements_and_says_so() -> None:
    long = frontier_of(ok("none", 1000, 1.0), *(ok(f"h.0..{i}", 1000 - 8 * i, 1 + i / 200) for i in range(1, 100)))
    cut = publication_table(long, ("none", "h.0..50", "h.0..99"), 2)
    assert [row[0] for row in cut.frontier_rows] == ["1", "51", "100"]
    assert cut.left_out == "Not shown: 97 more on it"


def test_the_reference_is_a_row_even_where_it_is_dominated_and_others_are_not_shown() -> None:
    faster = [ok(f"h.0..{i}", 900 - 8 * i, 0.9 + i / 200) for i in range(20)]
    slow = [ok(f"h.1..{i}", 1000, 1.5) for i in range(2, 12)]
    table = publication_table(frontier_of(ok("none", 1000, 1.0, width=0), *faster, *slow), (), 2)
    assert [(row[1], row[-1]) for row in table.other_rows] == [("none", "reference")]
    assert table.left_out == "Not shown: 10 dominated; below the line: dominated"


def test_savings_are_absent_where_there_is_nothing_to_hold_them_against() -> None:
    lone = frontier_of(ok("h.0", 1000, 1.0, width=0), reference=None)
    assert publication_table(lone, (), 2).frontier_rows[0][-2:] == ("–", "–")
    assert publication_table(none_does_not_fit(), (), 2).frontier_rows[0][-2] == "62.1"  # of what is forecast


@pytest.mark.parametrize("columns", [1, 2])
def test_the_float_is_balanced_and_needs_no_scaling(columns: int) -> None:
    text = as_latex_table(printed(columns), "A caption with 50 %.", columns)
    begun, ended = (re.findall(rf"\\{word}\{{(\w+\*?)\}}", text) for word in ("begin", "end"))
    assert begun == ended[::-1] == [{1: "table", 2: "table*"}[columns], "tabularx"]
    assert "resizebox" not in text
    assert text.count("{") == text.count("}")
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 2, 1]
    layout = re.search(r"\{@\{\}(.*)@\{\}\}", text)
    assert layout is not None
    letters = re.sub(r">\{[^}]*\}", "", layout[1].replace(r"\raggedright\arraybackslash", ""))
    assert len(letters) == len(printed(columns).columns)
    assert {len(row) for row in rows_of(text)} == {len(printed(columns).columns)}
    assert r"50 \%" in text


def test_a_hostile_caption_stays_a_caption() -> None:
    text = as_latex_table(printed(), HOSTILE, 2)
    assert text.count(r"\end{tabularx}") == 1
    assert r"\textbackslash{}end\{tabular\} \$1" in text
    assert r"50\% \textquotedbl{}\_x\_\textquotedbl{}" in text


def test_placements_break_at_joints_and_keep_every_letter() -> None:
    placement = "h.0..5:each:keep.a_b%2+h.6/h.7@no-rng"
    set_text = latex_code(placement)
    assert set_text == (
        r"\texttt{h.0..5\allowbreak{}:each\allowbreak{}:keep.a\_b\%2+\allowbreak{}h.6/\allowbreak{}h.7\allowbreak{}@no-rng}"
    )


def test_letters_that_pdflatex_does_not_know_become_their_codes() -> None:
    assert latex("512 → 1024 ☃ é √n") == r"512 \ensuremath{\rightarrow} 1024 [U+2603] é \ensuremath{\surd}n"


def test_a_figures_float_has_the_width_of_its_columns() -> None:
    one = FigureFile(name="frontier-1col", columns=1, caption="a & b")
    text = latex_figures([one, FigureFile(name="strip-2col", columns=2, caption="")])
    assert r"\begin{figure}" in text
    assert r"\begin{figure*}" in text
    assert r"\includegraphics{frontier-1col.pdf}" in text
    assert r"\caption{a \& b}" in text
