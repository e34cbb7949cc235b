"""The Markdown description of a study's parent run: reference, frontier, figure, notes, how to reproduce."""

from __future__ import annotations

import shlex
from collections import Counter

from bench.frontier.types import Frontier, Trial
from bench.placement.coverage import UNITS, Coverage, placement_coverage
from bench.spec import ANSWERS, OWN_TARGET, StudySpec
from bench.track.markdown import code, escape
from bench.track.tags import PENDING

MIB = 2**20
COLUMNS = ("placement", "step time (ms)", "step time / reference", "verdict", "peak allocated (MiB)", "confidence")
FORECAST_COLUMN = "forecast peak (MiB)"


def describe(study: StudySpec, frontier: Frontier, *, limit: int, links: tuple[str, ...] = ()) -> str:
    """At most `limit` characters; rows that do not fit are counted, and stand in `frontier.csv`.

    Args:
        links: Markdown of the figure and of other pages of MLflow, a line each; they come after the frontier's table.
    """
    head = [
        f"**{escape(frontier.study)}**: {escape(frontier.model)} on {escape(frontier.device)}",
        *_unanswered(frontier),
        *_reference(frontier),
    ]
    tail = _how_to_reproduce(study, frontier)
    shown = [line for link in links for line in ("", link)]
    room = limit - len("\n".join([*head, *shown, *tail])) - 400
    body: list[str] = []
    rows = _take(_frontier_rows(frontier), room)
    room -= len("\n".join(rows))
    for lines in (_notes(frontier), _covered(study, frontier), _unmeasured(frontier)):
        taken = _take(lines, room)
        room -= len("\n".join(taken))
        body += taken
    text = "\n".join([*head, *rows, *shown, *body, *tail])
    return text if len(text) <= limit else "\n".join(head)[: limit - 2] + " …"


def is_complete(frontier: Frontier) -> bool:
    return bool(frontier.trials) and all(trial.outcome in ANSWERS for trial in frontier.trials)


def _unanswered(frontier: Frontier) -> list[str]:
    """Says at the top that a study stopped half-way, and at what."""
    if is_complete(frontier):
        return []
    open_ones = Counter(trial.outcome for trial in frontier.trials if trial.outcome not in ANSWERS)
    what = ", ".join(
        f"{count} not measured yet" if outcome == PENDING else f"{count} {escape(outcome)}"
        for outcome, count in open_ones.items()
    )
    told = f" ({what})" if what else ""
    return [
        "",
        f"**Incomplete: {open_ones.total()} of {len(frontier.trials)} placements have no answer**{told}. "
        "The frontier is that of the others, and may change.",
    ]


def _reference(frontier: Frontier) -> list[str]:
    trial = next((t for t in frontier.trials if t.placement == frontier.reference), None)
    if trial is None:
        return ["", "Nothing was measured: there is no reference and no frontier."]
    step_time = _step_time(frontier, trial)
    return [
        "",
        f"Reference: {escape(trial.placement)} ({step_time} ms a step, {_peak(trial)} MiB peak allocated).",
    ]


def _frontier_rows(frontier: Frontier) -> list[str]:
    if not frontier.frontier:
        return []
    trials = {trial.placement: trial for trial in frontier.trials}
    has_forecast = any(trial.forecast_peak_bytes is not None for trial in frontier.trials)
    columns = [*COLUMNS, *([FORECAST_COLUMN] if has_forecast else [])]
    rows = [_row(frontier, trials[text], has_forecast=has_forecast) for text in frontier.frontier if text in trials]
    return ["", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *rows]


def _row(frontier: Frontier, trial: Trial, *, has_forecast: bool) -> str:
    interval = trial.time_ratio_interval
    ratio = "" if trial.time_ratio is None else f"{trial.time_ratio:.3f}"
    if interval:
        ratio += f" \\[{interval.low:.3f}, {interval.high:.3f}\\]"
    confidence = "" if trial.frontier_confidence is None else f"{trial.frontier_confidence:.0%}"
    name = escape(trial.placement) + (" (knee)" if trial.placement == frontier.knee else "")
    verdict = escape(trial.verdict or "")
    forecast = f" {_mib(trial.forecast_peak_bytes)} |" if has_forecast else ""
    return f"| {name} | {_step_time(frontier, trial)} | {ratio} | {verdict} | {_peak(trial)} | {confidence} |{forecast}"


def _covered(study: StudySpec, frontier: Frontier) -> list[str]:
    """Which repeated modules each frontier placement covers, for a model with several chains: one left out is seen."""
    placements = [text for text in frontier.frontier if text != "none"]
    if len(study.chains) < 2 or not placements:
        return []
    names = [escape(chain.name) for chain in study.chains]
    rows = []
    for text in placements:
        of_chain: dict[str, list[Coverage]] = {chain.name: [] for chain in study.chains}
        for entry in placement_coverage(study.chains, text):
            of_chain[entry.chain].append(entry)
        rows.append(f"| {escape(text)} | {' | '.join(_cell(entries) for entries in of_chain.values())} |")
    head = [f"| placement | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    return ["", "Modules inside a replayed region, of all in each chain:", "", *head, *rows]


def _cell(entries: list[Coverage]) -> str:
    """`6/6` where units are covered, kinds and all; else what is covered of each kind."""
    units = next(entry for entry in entries if entry.kind == UNITS)
    parts = [f"{entry.num_covered}/{entry.num_modules} {entry.kind}" for entry in entries if entry.num_covered]
    if units.num_covered or not parts:
        return f"{units.num_covered}/{units.num_modules}"
    return escape(", ".join(parts))


def _notes(frontier: Frontier) -> list[str]:
    return ["", "Notes:", "", *(f"- {escape(note, limit=None)}" for note in frontier.notes)] if frontier.notes else []


def _unmeasured(frontier: Frontier) -> list[str]:
    failed = [trial for trial in frontier.trials if trial.outcome != "ok"]
    if not failed:
        return []
    rows = [f"| {escape(t.placement)} | {escape(t.outcome)} | {escape(t.reason)} |" for t in failed]
    return ["", "Not on any frontier:", "", "| placement | outcome | reason |", "|---|---|---|", *rows]


def _how_to_reproduce(study: StudySpec, frontier: Frontier) -> list[str]:
    controls = study.controls
    if controls.model.target == OWN_TARGET:
        return ["", "To reproduce, run the training script that called `measure` again."]
    overrides = [f"model={controls.model.name}", f"precision={controls.precision}"]
    if controls.model.name == "custom":
        overrides.append(f"model.target={controls.model.target}")
    explicit = f"placements.explicit=[{','.join(frontier.frontier)}]"
    if frontier.frontier and len(explicit) <= 1000:
        overrides.append(explicit)
    commit = study.recorded.get("git_commit")
    at = f" at commit {escape(commit)}" if commit else ""
    return [
        "",
        f"To reproduce{at}, with the controls of this run's parameters (all of them are in the artifact `study.json`):",
        "",
        code("python -m bench sweep " + " ".join(shlex.quote(" ".join(item.split())) for item in overrides)),
        "",
        "To publish again from the study directory:",
        "",
        code(f"python -m bench publish {shlex.quote('study=' + ' '.join(frontier.study.split()))}"),
    ]


def _take(lines: list[str], room: int) -> list[str]:
    """Whole lines that fit `room` characters; what is left out is said."""
    taken: list[str] = []
    used = 0
    for index, line in enumerate(lines):
        used += len(line) + 1
        if used > room:
            return [*taken, "", f"{len(lines) - index} more lines: see the artifact `frontier.csv`."]
        taken.append(line)
    return taken


def _step_time(frontier: Frontier, trial: Trial) -> str:
    ms = frontier.paired_step_time_ms(trial)
    return "" if ms is None else f"{ms:.1f}"


def _peak(trial: Trial) -> str:
    return _mib(trial.peak_allocated_bytes)


def _mib(num_bytes: int | None) -> str:
    return "" if num_bytes is None else f"{num_bytes / MIB:.1f}"
