"""The caption of a plot: what was held fixed, what the ratios are relative to, and what a reader must know."""

from __future__ import annotations

from bench.frontier.types import Frontier
from bench.spec import StudySpec


def caption(study: StudySpec, frontier: Frontier, prefix: str = "") -> str:
    """One paragraph: model, device, controls, reference, rounds, notes, and the prefix taken off placement names."""
    workload = study.controls.workload
    held = [
        f"{frontier.model} on {frontier.device}",
        study.controls.precision,
        f"micro-batch {workload.micro_batch} × {workload.accumulation} accumulated",
        *(f"{name.replace('_', ' ')} {size}" for name, size in workload.shape.items()),
        study.controls.optimizer.name,
    ]
    sentences = [", ".join(held)]
    if frontier.reference is not None:
        sentences.append(f"Reference: {frontier.reference}")
    sentences.append(_rounds(frontier))
    if any(trial.time_ratio_interval for trial in frontier.trials):
        sentences.append(
            f"± and bars: {100 * study.controls.protocol.confidence:g} % interval of the paired time ratio"
        )
    if prefix:
        sentences.append(f"Placements are shown without their common prefix “{prefix}”")
    if _medians_disagree(frontier):
        sentences.append("Median step times drift with the machine; the frontier is judged by the paired ratio")
    sentences += frontier.notes
    return " ".join(sentence if sentence[-1] in ".!?" else f"{sentence}." for sentence in sentences if sentence)


def _medians_disagree(frontier: Frontier) -> bool:
    """Whether the medians alone would order the frontier's points otherwise."""
    times = {trial.placement: trial.step_time_ms for trial in frontier.trials}
    known = [time for placement in frontier.frontier if (time := times[placement]) is not None]
    return known != sorted(known)


def _rounds(frontier: Frontier) -> str:
    rounds = [trial.rounds for trial in frontier.trials if trial.outcome == "ok" and trial.rounds]
    executions = max((trial.executions for trial in frontier.trials), default=0)
    if not rounds:
        return ""
    few, many = min(rounds), max(rounds)
    number = f"{few} paired round{'s' if few > 1 else ''}" if few == many else f"{few} to {many} paired rounds"
    return f"{number} in {executions} execution{'s' if executions > 1 else ''}" if executions else number
