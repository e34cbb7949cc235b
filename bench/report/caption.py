"""The caption of a plot: what was held fixed, and what the ratios are relative to."""

from __future__ import annotations

from bench.frontier.types import Frontier
from bench.report.names import long_names
from bench.spec import StudySpec


def caption(study: StudySpec, frontier: Frontier, prefix: str = "") -> str:
    """One paragraph: model, device, controls, reference, rounds, and the prefix taken off placement names.

    The study's notes stand under its table: some speak of placements that the figure does not name.
    """
    names = long_names(frontier.trials)
    workload = study.controls.workload
    held = [
        f"{frontier.model} on {frontier.device}",
        study.controls.precision,
        _batch(workload.micro_batch, workload.accumulation),
        *(f"{name.replace('_', ' ')} {size}" for name, size in workload.shape.items()),
        study.controls.optimizer.name,
    ]
    sentences = [", ".join(held)]
    if frontier.reference is not None:
        sentences.append(f"Reference: {names.get(frontier.reference, frontier.reference)}")
    if frontier.plain_forecast is not None:
        sentences.append("none does not fit: shares of the peak are of its forecast")
    sentences.append(_rounds(frontier))
    if any(trial.time_ratio_interval for trial in frontier.trials):
        sentences.append(
            f"± and bars: {100 * study.controls.protocol.confidence:g} % interval of the paired time ratio"
        )
    if prefix:
        sentences.append(f"Placements are shown without their common prefix “{prefix}”")
    if names:
        sentences.append("Long placements are shown by what planned them: frontier.csv has their texts")
    if frontier.reference is not None:
        sentences.append("Absolute times are the reference's median times the paired ratio")
    return " ".join(sentence if sentence[-1] in ".!?" else f"{sentence}." for sentence in sentences if sentence)


def _batch(micro_batch: int, accumulation: int) -> str:
    return f"micro-batch {micro_batch}" + (f" × {accumulation} accumulated" if accumulation > 1 else "")


def _rounds(frontier: Frontier) -> str:
    rounds = [trial.rounds for trial in frontier.trials if trial.outcome == "ok" and trial.rounds]
    executions = max((trial.executions for trial in frontier.trials), default=0)
    if not rounds:
        return ""
    few, many = min(rounds), max(rounds)
    number = f"{few} paired round{'s' if few > 1 else ''}" if few == many else f"{few} to {many} paired rounds"
    return f"{number} in {executions} execution{'s' if executions > 1 else ''}" if executions else number
