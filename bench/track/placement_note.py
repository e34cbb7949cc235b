"""The Markdown description of a placement's run: its place, its evidence, or why there is none."""

from __future__ import annotations

from bench.frontier.types import Frontier, Trial
from bench.track.markdown import escape

MIB = 2**20
MAX_REASON = 2000


def describe_placement(trial: Trial, frontier: Frontier) -> str:
    title = f"**{escape(trial.placement)}** in study {escape(frontier.study)}"
    if trial.outcome != "ok":
        reason = f": {escape(trial.reason, MAX_REASON)}" if trial.reason else ""
        return f"{title}\n\n**{escape(trial.outcome)}**{reason}. It has no metrics, and is on no frontier."
    lines = [
        title,
        "",
        _place(trial),
        "",
        "| | measured | forecast | expected of the plan |",
        "|---|---|---|---|",
    ]
    lines += [_time(frontier, trial), _peak(trial)]
    if trial.audit is not None:
        lines += ["", f"Replay audited: {escape(' '.join((trial.audit, *trial.audit_kinds)))}."]
    return "\n".join(lines)


def _place(trial: Trial) -> str:
    if not trial.on_frontier:
        return "Not on the frontier: another placement is no slower and no larger, and better in one of the two."
    sure = "" if trial.frontier_confidence is None else f", in {trial.frontier_confidence:.0%} of resamples"
    return f"On the frontier{sure}."


def _time(frontier: Frontier, trial: Trial) -> str:
    ms = frontier.paired_step_time_ms(trial)
    parts = ["" if ms is None else f"{ms:.1f} ms"]
    if trial.time_ratio is not None:
        parts.append(f"×{trial.time_ratio:.3f}")
    if trial.time_ratio_interval:
        parts.append(f"\\[{trial.time_ratio_interval.low:.3f}, {trial.time_ratio_interval.high:.3f}\\]")
    if trial.verdict:
        parts.append(escape(trial.verdict))
    expected = "" if trial.expected_replay_ms is None else f"+{trial.expected_replay_ms:.1f} ms"
    return f"| step time | {' '.join(part for part in parts if part)} | | {expected} |"


def _peak(trial: Trial) -> str:
    measured, forecast, expected = map(
        _mib, (trial.peak_allocated_bytes, trial.forecast_peak_bytes, trial.expected_peak_bytes)
    )
    return f"| peak allocated | {measured} | {forecast} | {expected} |"


def _mib(num_bytes: int | None) -> str:
    return "" if num_bytes is None else f"{num_bytes / MIB:.1f} MiB"
