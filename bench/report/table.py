"""A study's result as a table for a terminal: the frontier, then the dominated, then what could not be scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bench.frontier.types import Frontier, Trial, relative_width
from bench.placement.coverage import is_uneven, placement_coverage, summarize
from bench.report.labels import Shortening, fold, shorten
from bench.report.names import long_names, named
from bench.report.quantities import (
    ABSENT,
    error_text,
    memory_unit,
    ratio_text,
    share_text,
    time_text,
    time_unit,
    typical_width,
)
from bench.report.reasons import brief
from bench.report.shares import memory_reference, peak_share, reference_trial, replay_share, saving_share
from bench.report.terminal import DEFAULT_WIDTH, plain_text
from bench.spec import ChainInfo

FRONTIER_MARK = "●"
KNEE_MARK = "★"
LABEL_WIDTH_MIN = 16
WIDE = 92
"""Columns from which there is room for the share of the reference's peak, which `saved` says better."""
FORECAST_FROM, BOTH_FROM, ERROR_FROM = 88, 98, 108
"""Columns from which there is room for the forecast peak, for the share of the reference's peak beside it, and for the
error of the forecast; larger errors are notes."""
AUDIT_FROM = 114
"""Columns from which there is room for the verdict on the replay; what is invalid is told below at any width."""
AUDIT_WORDS = {"valid": "bit", "valid-within-tolerance": "tol"}
FORECAST_OF_NONE = "none\u2217"


def has_forecasts(trials: Sequence[Trial]) -> bool:
    return any(trial.forecast_peak_bytes is not None for trial in trials)


@dataclass(frozen=True)
class Folded:
    """A placement that is folded at its joints to the width of its column, never cut; below it, what it leaves out."""

    label: str
    remark: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (Text(line) for line in fold(self.label, options.max_width))
        if self.remark:
            yield Text(self.remark, style="yellow not bold", overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widest = max(len(self.label), len(self.remark))
        return Measurement(min(LABEL_WIDTH_MIN, widest), widest).with_maximum(options.max_width)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The table of scored trials and its legend, with the columns that its width has room for."""

    frontier: Frontier
    trials: Sequence[Trial]
    shortening: Shortening
    chains: Sequence[ChainInfo]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        has_forecast = options.max_width >= FORECAST_FROM and has_forecasts(self.trials)
        shown = Shown(
            forecast=has_forecast,
            error=has_forecast and options.max_width >= ERROR_FROM,
            share=options.max_width >= (BOTH_FROM if has_forecast else WIDE),
            audit=options.max_width >= AUDIT_FROM and any(trial.audit for trial in self.trials),
        )
        yield _scored_table(self, shown)
        yield _small(_legend(self.frontier, shown))


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Columns that not every width has room for."""

    forecast: bool
    error: bool
    share: bool
    """Of the reference's peak."""
    audit: bool


def render_table(frontier: Frontier, chains: Sequence[ChainInfo] = ()) -> RenderableType:
    """The table, its legend and the study's notes; fits terminals from 80 columns.

    Args:
        frontier: what is shown.
        chains: the model's; where there are several, a placement that covers them unequally says so.
    """
    names = long_names(frontier.trials)
    shortening = shorten((trial.placement for trial in frontier.trials), names)
    parts: list[RenderableType] = [Text(f"{frontier.study}  {frontier.model} on {frontier.device}", style="bold")]
    scored = _scored(frontier)
    failed = [trial for trial in frontier.trials if trial.outcome != "ok"]
    if scored:
        parts.append(Scored(frontier=frontier, trials=scored, shortening=shortening, chains=chains))
    else:
        parts.append(Text("No placement was measured." if frontier.trials else "The study has no placement yet."))
    if failed:
        parts += [Text(), _failed_table(frontier, failed, shortening)]
    parts += [_small(sentence) for sentence in shortening.explanations()]
    parts += [Text(f"note: {named(note, names)}", style="yellow") for note in frontier.notes]
    return Group(*parts)


def write_table(frontier: Frontier, file: TextIO, width: int = DEFAULT_WIDTH, chains: Sequence[ChainInfo] = ()) -> None:
    """Writes the table as plain text, `width` characters wide, without a trailing blank in any line."""
    file.write(plain_text(render_table(frontier, chains), width))


def _scored(frontier: Frontier) -> list[Trial]:
    """Frontier trials from the highest peak to the lowest, then the dominated ones in the same order."""
    trials = {trial.placement: trial for trial in frontier.trials}
    dominated = [t for t in frontier.trials if t.outcome == "ok" and t.placement not in frontier.frontier]
    dominated.sort(key=lambda trial: -(trial.peak_allocated_bytes or 0))
    return [*(trials[placement] for placement in frontier.frontier), *dominated]


def _scored_table(scored: Scored, shown: Shown) -> Table:
    frontier, trials = scored.frontier, scored.trials
    reference, weighed_against = reference_trial(frontier), memory_reference(frontier)
    of_what = "ref." if frontier.plain_forecast is None else FORECAST_OF_NONE
    memory = memory_unit(trial.peak_allocated_bytes for trial in trials)
    time = time_unit(trial.step_time_ms for trial in trials)
    typical = typical_width(trials)
    has_verdicts = any(trial.verdict for trial in trials)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("placement", min_width=LABEL_WIDTH_MIN)
    for header in (f"step\n{time.name}", "time\nratio"):
        table.add_column(header, justify="right", no_wrap=True)
    if has_verdicts:
        table.add_column("verdict", no_wrap=True)
    table.add_column(f"peak\n{memory.name}", justify="right", no_wrap=True)
    optional = (
        (f"forecast\n{memory.name}", shown.forecast),
        ("its\nerror", shown.error),
        (f"of\n{of_what}", shown.share),
    )
    for header in (
        *(header for header, is_shown in optional if is_shown),
        "saved",
        "replay",
        "sure",
        *(["valid"] if shown.audit else []),
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for index, trial in enumerate(trials):
        is_reference = trial.placement == frontier.reference
        on_frontier = trial.placement in frontier.frontier
        label = scored.shortening.label(trial.placement) + (" (reference)" if is_reference else "")
        table.add_row(
            KNEE_MARK if trial.placement == frontier.knee else FRONTIER_MARK if on_frontier else "",
            Folded(label, _left_out(trial.placement, scored.chains)),
            time_text(
                frontier.paired_step_time_ms(trial),
                time,
                relative_width(trial.time_ratio, trial.time_ratio_interval) or typical,
            ),
            ratio_text(trial.time_ratio, trial.time_ratio_interval, is_reference),
            *([trial.verdict or ""] if has_verdicts else []),
            memory.text(trial.peak_allocated_bytes),
            *([memory.text(trial.forecast_peak_bytes)] if shown.forecast else []),
            *([error_text(trial.forecast_error_share)] if shown.error else []),
            *([share_text(peak_share(trial, weighed_against))] if shown.share else []),
            share_text(saving_share(trial.peak_allocated_bytes, weighed_against)),
            share_text(replay_share(trial.replay_flops, reference.step_flops if reference else None)),
            share_text(trial.frontier_confidence, decimals=0),
            *([AUDIT_WORDS.get(trial.audit or "", ABSENT)] if shown.audit else []),
            style="bold" if on_frontier else "",
            end_section=index + 1 == len(frontier.frontier) < len(trials),
        )
    return table


def _legend(frontier: Frontier, shown: Shown) -> str:
    """What the marks and the columns shown mean."""
    whose = "reference's peak" if frontier.plain_forecast is None else "forecast peak of none"
    parts = [f"{FRONTIER_MARK} on the frontier" + (f", {KNEE_MARK} its knee" if frontier.knee else "")]
    if shown.forecast:
        parts.append("forecast: the peak as worked out without training")
    if shown.error:
        parts.append("its error: (forecast − peak) / (peak − persistent)")
    if shown.share and frontier.plain_forecast is not None:
        parts.append(f"{FORECAST_OF_NONE} does not fit: its peak is a forecast")
    parts += [
        f"saved: share of what could move ({whose} − persistent)",
        "replay: replayed FLOPs over the reference's step",
        "sure: resamples in which it is on the frontier",
    ]
    if shown.audit:
        parts.append("valid: replay equal to the bit, or within the plain step's own tolerance")
    return "; ".join(parts)


def _left_out(placement: str, chains: Sequence[ChainInfo]) -> str:
    """What of each chain the placement covers, where it leaves one out that another is covered in."""
    if len(chains) < 2:
        return ""
    coverage = placement_coverage(chains, placement)
    return f"covers {summarize(coverage)}" if is_uneven(coverage) else ""


def _failed_table(frontier: Frontier, failed: list[Trial], shortening: Shortening) -> Table:
    has_forecast = has_forecasts(failed)
    memory = memory_unit(peak for t in frontier.trials for peak in (t.peak_allocated_bytes, t.forecast_peak_bytes))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("not scored", min_width=LABEL_WIDTH_MIN, max_width=60)
    table.add_column("outcome", no_wrap=True)
    if has_forecast:
        table.add_column(f"forecast\n{memory.name}", justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for trial in failed:
        table.add_row(
            Folded(shortening.label(trial.placement)),
            Text(trial.outcome, style="red"),
            *([memory.text(trial.forecast_peak_bytes)] if has_forecast else []),
            Text(brief(trial.reason) or ABSENT),
        )
    return table


def _small(text: str) -> Text:
    return Text(text, style="dim")
