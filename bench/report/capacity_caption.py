"""The caption of a capacity's figures: what was held fixed, how a size is proven, and what axes and bars are."""

from __future__ import annotations

from bench.capacity.reading import beside_others, heading
from bench.capacity.types import GLOBAL_BATCH, Answer
from bench.report.capacity_words import explanations, sentences, shortening


def capacity_caption(answer: Answer) -> str:
    """One paragraph under both figures."""
    # The model's name keeps its own case.
    return f"{', '.join(_held(answer))}. " + sentences(
        [
            heading(answer),
            "each largest size was run: two optimizer steps in a process of its own, their peak within the limit",
            *explanations(answer, shortening(answer)),
        ]
    )


def throughput_caption(answer: Answer) -> str:
    """What the figure of throughput shows beside that."""
    rounds = max((row.throughput.rounds for row in answer.rows if row.throughput is not None), default=0)
    paired = any(row.throughput is not None and row.throughput.relative is not None for row in answer.rows)
    largest = {(row.placement, row.largest) for row in answer.rows}
    has_smaller = any((row.placement, row.size) not in largest for at in answer.at_multiples for row in at.rows)
    if not rounds:
        return ""
    return sentences(
        [
            "Line, and bold: the frontier, as nothing timed is both larger and has more throughput",
            "dashed: none at its own largest size; dotted: multiples of it" if paired else "",
            "hollow marks: timed at a multiple of none's size, below their own largest" if has_smaller else "",
            "heights: none's throughput times the paired ratio" if paired else "",
            f"bars: 95 % interval of the throughput over none's, paired in {_rounds(rounds)}" if paired else "",
            beside_others(answer),
        ]
    )


def _rounds(number: int) -> str:
    return f"{number} round" if number == 1 else f"{number} rounds"


def _held(answer: Answer) -> list[str]:
    """The controls without what grows, or follows it."""
    controls = answer.spec.controls
    device = controls.facts.device_name if controls.facts is not None else controls.device.kind
    workload = controls.workload
    sizes = {"workload.micro_batch": workload.micro_batch, "workload.accumulation": workload.accumulation}
    sizes |= {f"workload.shape.{name}": size for name, size in workload.shape.items()}
    grows = {answer.spec.axis.path, *answer.spec.axis.also}
    if answer.spec.keep == GLOBAL_BATCH:
        grows.add("workload.accumulation")
    named = [f"{path.rpartition('.')[2].replace('_', ' ')} {size}" for path, size in sizes.items() if path not in grows]
    return [f"{controls.model.name} on {device}", controls.precision, *named, controls.optimizer.name]
