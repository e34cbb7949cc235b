"""The evidence table as CSV and Markdown; whatever a name or a reason holds, it stays the text of one cell."""

from __future__ import annotations

import csv
import html
import io
import re

from bench.report.evidence_data import EvidenceTable

MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~$-])")


def as_csv(table: EvidenceTable) -> str:
    """Names and values as they are, quoted where CSV needs it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def as_markdown(table: EvidenceTable) -> str:
    """A table as GitHub, GitLab and MLflow read it."""
    lines = [table.columns, ("---",) * len(table.columns), *(tuple(map(_markdown, row)) for row in table.rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", html.escape(_one_line(text), quote=False))
