"""A study directory's projections: frontier files, table, plots, MLflow. All are rebuilt from its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cli.paths import shown
from bench.cli.tracking import open_ui_line, to_store
from bench.frontier import Frontier, build_frontier, read_frontier, write_frontier
from bench.frontier.store import source_digest
from bench.frontier.versus import Versus, versus
from bench.placement.coverage import placement_coverage
from bench.records import Plans, read_records, read_study
from bench.records.compiled import Compiled, read_compiled
from bench.report import render_table, write_plots
from bench.report.compiled_data import compiled_points, write_compiled_csv
from bench.report.compiled_table import render_compiled
from bench.report.names import long_names
from bench.report.plan_table import render_expected
from bench.report.terminal import show
from bench.report.versus_table import render_versus, versus_rows, write_versus_csv
from bench.spec import ChainInfo, to_mapping
from bench.track import publish_study


@dataclass(frozen=True, kw_only=True)
class StudyView:
    directory: Path
    frontier: Frontier
    chains: tuple[ChainInfo, ...]
    """The model's, as its placements name them."""
    plans: Plans
    """What was expected of the placements that were planned."""
    versus: Versus | None
    """The planned placements against peers'; None where no peer was asked for."""
    compiled: Compiled
    """What was compiled under memory budgets beside it."""
    target_half_width: float
    plot: Path | None
    """The picture to look at first; None where nothing was measured."""

    def data(self) -> Any:
        """The frontier as JSON values, and `coverage`: placement → modules covered of all, by chain and kind.

        With peers, `versus` as well: a row for each placement of theirs.
        """
        data = to_mapping(self.frontier) | {"coverage": coverage_data(self.frontier, self.chains)}
        if self.compiled.choices:
            data["compiled"] = [to_mapping(p) for p in compiled_points(self.compiled, self.target_half_width)]
        return data if self.versus is None else data | {"versus": versus_rows(self.versus)}

    def print(self) -> None:
        show(render_table(self.frontier, self.chains))
        expected = render_expected(self.frontier, self.plans)
        compiled = render_compiled(self.compiled, self.target_half_width)
        against = None if self.versus is None else render_versus(self.versus, long_names(self.frontier.trials))
        for table in (expected, against, compiled):
            if table is not None:
                print()
                show(table)
        print(f"\nstudy: {shown(self.directory)}")
        if self.plot is not None:
            print(f"plot:  {shown(self.plot)}")


def coverage_data(frontier: Frontier, chains: Sequence[ChainInfo]) -> dict[str, list[dict[str, Any]]]:
    """Placement → one entry a chain and kind: `chain`, `kind` (`units`, `mlp` …), `num_covered`, `num_modules`."""
    return {
        trial.placement: [to_mapping(entry) for entry in placement_coverage(chains, trial.placement)]
        for trial in frontier.trials
    }


def draw(directory: Path) -> StudyView:
    """Builds the frontier from the study's records and writes its files and plots."""
    study = read_study(directory)
    built_from = source_digest(directory)
    records = read_records(directory)
    frontier = build_frontier(study, records)
    write_frontier(directory, frontier, built_from=built_from)
    compiled, target_half_width = read_compiled(directory), study.controls.protocol.target_half_width
    if compiled.choices:
        write_compiled_csv(directory, compiled_points(compiled, target_half_width))
    pictures = write_plots(directory, study, frontier)
    plot = next((path for path in pictures if path.suffix == ".png"), None)
    has_peers = any(row.peer is not None for row in records.plans.rows)
    against = versus(study, records, frontier.trials, records.plans) if has_peers else None
    if against is not None:
        write_versus_csv(directory, against)
    return StudyView(
        directory=directory,
        frontier=frontier,
        chains=study.chains,
        plans=records.plans,
        versus=against,
        compiled=compiled,
        target_half_width=target_half_width,
        plot=plot,
    )


def publish(directory: Path, results: Path, options: Mapping[str, Any]) -> bool:
    """Brings the study to the tracker and prints how to open it; False where the store could not take it, which is
    told and not raised."""
    study, frontier = read_study(directory), read_frontier(directory)
    published, is_done = to_store(results, options, lambda uri: publish_study(directory, study, frontier, uri))
    if published is not None:
        print(f"MLflow: {published.experiment_name}; open it with\n  {open_ui_line(results, options)}")
    return is_done
