"""`comparison.json`, the whole of it, and `comparison.csv`, step time at budgets as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from bench.compare.types import SCALES, Comparison
from bench.records import DamagedStudyError, make_directory, replace_text, write_json
from bench.records.reading import read_mapping
from bench.spec import SCHEMA_VERSION, SpecError, from_mapping, to_mapping

COMPARISON_FILE = "comparison.json"
CSV_FILE = "comparison.csv"
COMPARISONS_FOLDER = "comparisons"
"""Below the results folder."""


def write_comparison(directory: Path, comparison: Comparison) -> None:
    """Writes both files.

    Raises:
        CannotWriteError: the folder is full or not writable.
    """
    make_directory(directory)
    write_json(directory / COMPARISON_FILE, {"schema_version": SCHEMA_VERSION} | to_mapping(comparison))
    replace_text(directory / CSV_FILE, comparison_csv(comparison))


def read_comparison(directory: Path) -> Comparison:
    """Raises DamagedStudyError when `comparison.json` is absent, unreadable or of another schema."""
    path = directory / COMPARISON_FILE
    remedy = "compare the studies again"
    data = read_mapping(path, SCHEMA_VERSION, absent=remedy, remedy=remedy)
    del data["schema_version"]
    try:
        return from_mapping(Comparison, data)
    except SpecError as error:
        raise DamagedStudyError(f"{path}: {error}; {remedy}") from None


def comparison_csv(comparison: Comparison) -> str:
    """One row for each candidate, scale and budget; what was not measured is an empty cell."""
    rows = budget_rows(comparison)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def budget_rows(comparison: Comparison) -> list[dict[str, Any]]:
    baseline = comparison.studies[0]
    rows = []
    for pairing in comparison.pairings:
        for scale in SCALES:
            for row in pairing.against(scale).budgets:
                contest = row.contest
                rows.append(
                    {
                        "baseline": baseline.study,
                        "candidate": comparison.entrant(pairing.label).study,
                        "label": pairing.label,
                        "scale": scale,
                        "like_for_like": str(scale == SCALES[0] or not pairing.unlike).lower(),
                        "budget_share": row.share,
                        "budget": row.budget,
                        "baseline_placement": contest.baseline,
                        "baseline_time": contest.baseline_time,
                        "candidate_placement": contest.candidate,
                        "candidate_time": contest.candidate_time,
                        "time_ratio": contest.ratio,
                        "time_ratio_low": contest.interval.low if contest.interval else None,
                        "time_ratio_high": contest.interval.high if contest.interval else None,
                        "verdict": contest.verdict,
                        "reason": contest.reason,
                    }
                )
    return rows
