"""`compare`: studies on common axes, from their records; nothing is measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.compared import Named, comparison_name, read_named, shares_of
from bench.cli.entry import Options, run_verb
from bench.cli.paths import shown
from bench.cli.request import refuse_unknown
from bench.cli.tracking import check_tracker, to_store
from bench.compare import (
    COMPARISONS_FOLDER,
    Comparison,
    Finding,
    compare,
    findings,
    parse_rules,
    write_comparison,
)
from bench.report.compare_table import render_comparison
from bench.report.terminal import show
from bench.spec import to_mapping
from bench.track.compare_run import PublishedComparison, publish_comparison

KNOWN = ("results", "studies", "budgets", "fail_if", "name", "tracker")


def run(overrides: Sequence[str]) -> int:
    return run_verb("compare", compare_studies, overrides)


def compare_studies(options: Options) -> Answer:
    """Prints the comparison, writes its folder, and publishes it; exit code 1 where `fail_if` fires, since what was
    asked for, a candidate that is no worse, is not there."""
    refuse_unknown(options, KNOWN)
    results: Path = options["results"]
    check_tracker(results, options["tracker"])
    rules, shares = parse_rules(options["fail_if"]), shares_of(options["budgets"])
    named = read_named(options["studies"], results, options["tracker"])
    name = comparison_name(options["name"], named)
    comparison = compare([one.measured for one in named], name, shares)
    found = findings(comparison, rules)

    directory = results / COMPARISONS_FOLDER / name
    write_comparison(directory, comparison)
    # Here, so that a request that is wrong does not wait for matplotlib.
    from bench.report.compare_plot import write_comparison_plots

    pictures = write_comparison_plots(directory, comparison)
    show(render_comparison(comparison))
    print(f"\ncomparison: {shown(directory)}")
    for path in pictures:
        if path.suffix == ".png":
            print(f"plot:       {shown(path)}")
    published, is_published = _publish(directory, comparison, named, options)
    _tell(found)
    fired = any(finding.fires for finding in found)
    return Answer(
        exit_code=COMPLETE if is_published and not fired else PARTIAL,
        data=_data(directory, comparison, pictures, found, published),
    )


def _publish(
    directory: Path, comparison: Comparison, named: Sequence[Named], options: Options
) -> tuple[PublishedComparison | None, bool]:
    """(the run, whether the store has what it was to have)."""
    directories = [one.directory for one in named]
    published, is_done = to_store(
        options["results"],
        options["tracker"],
        lambda uri: publish_comparison(directory, comparison, directories, uri),
    )
    if published is not None:
        print(f"MLflow:     {published.experiment_name}, run {published.run_id}")
    return published, is_done


def _tell(found: Sequence[Finding]) -> None:
    """One line for each rule that fires, and one for each that cannot be told."""
    for finding in found:
        what = "fires" if finding.fires else "cannot be ruled out"
        print(f"boundary-bench: fail_if={finding.rule.text} {what}: {finding.text}", file=sys.stderr)


def _data(
    directory: Path,
    comparison: Comparison,
    pictures: Sequence[Path],
    found: Sequence[Finding],
    published: PublishedComparison | None,
) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "plots": [str(path) for path in pictures],
        "run_id": None if published is None else published.run_id,
        "fail_if": [to_mapping(finding) for finding in found],
        "comparison": to_mapping(comparison),
    }
