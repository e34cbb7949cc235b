"""The evidence table: a row a placement, nothing made up, and hostile texts that stay texts."""

from __future__ import annotations

import csv
import io
import re

from bench.report.evidence_data import EvidenceTable, evidence_table
from bench.report.evidence_text import as_csv, as_latex, as_markdown
from tests.report.examples import failed, frontier_of, ok

HOSTILE = 'a|b & 50% "_x_" </script>\n\\end{tabular} $1 [x](y)'


def table(reason: str = HOSTILE) -> EvidenceTable:
    every = ok("transformer.h.0..11:each", 500, 1.25, audit="invalid", audit_kinds=("rng", "state"))
    return evidence_table(frontier_of(ok("none", 1000, 1.0), every, failed("transformer.h.0", "oom", reason)))


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


def test_a_hostile_reason_stays_one_latex_cell() -> None:
    text = as_latex(table())
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [len(table().columns) - 1] * 4
    assert text.count(r"\end{tabular}") == 1
    assert r"\textbackslash{}end\{tabular\} \$1" in rows[3]
    assert r"50\%" in rows[3]
