"""What rotor plans: a chain of stages, and a persistent schedule of it as a tree.

Source: Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous chains: how to train
deep neural networks with limited memory", Inria RR-9302, 2019 (arXiv 1911.13214). Its names:

    u_f, u_b   forward_ms, backward_ms
    ω_a        output_bytes: the activation a that a stage hands on; its gradient δ is as large (ω_δ = ω_a)
    ω_ā        saved_bytes: all that backward of the stage needs and its forward made, a included
    o_f, o_b   forward_extra_bytes, backward_extra_bytes: held while the stage runs, on top of what it takes and makes

A stage runs forward in three ways: F_all makes ā; F_ck makes a and keeps its input; F_∅ makes a and drops its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Stage:
    name: str
    forward_ms: float
    backward_ms: float
    output_bytes: int
    saved_bytes: int
    forward_extra_bytes: int = 0
    backward_extra_bytes: int = 0
    chain: str | None = ""
    """Only stages of one chain can be rerun together; None: the stage always runs F_all, since no region can hold
    it."""


@dataclass(frozen=True)
class Keep:
    """F_all of a stage, then the rest of the chain, then backward of the stage."""

    stage: int
    rest: Schedule | None
    """None at the last stage of the part."""


@dataclass(frozen=True)
class Rerun:
    """Stages `first` to `split` - 1 run forward with nothing kept but their input; then the rest of the chain from
    `split`, forward and backward; then the stages again from their input, forward and backward, as `replay` says."""

    first: int
    split: int
    rest: Schedule
    replay: Schedule


Schedule = Keep | Rerun


def operations(schedule: Schedule) -> Iterator[tuple[str, int]]:
    """The schedule in the order in which it runs: ("F_all" | "F_ck" | "F_none" | "B", index of the stage)."""
    if isinstance(schedule, Keep):
        yield "F_all", schedule.stage
        if schedule.rest is not None:
            yield from operations(schedule.rest)
        yield "B", schedule.stage
        return
    yield "F_ck", schedule.first
    for stage in range(schedule.first + 1, schedule.split):
        yield "F_none", stage
    yield from operations(schedule.rest)
    yield from operations(schedule.replay)


def total_ms(schedule: Schedule, stages: Sequence[Stage]) -> float:
    return sum(
        stages[index].backward_ms if kind == "B" else stages[index].forward_ms for kind, index in operations(schedule)
    )


def rerun_ms(schedule: Schedule, stages: Sequence[Stage]) -> float:
    """What the schedule costs beyond one forward and one backward of each stage."""
    return total_ms(schedule, stages) - sum(stage.forward_ms + stage.backward_ms for stage in stages)


def peak_bytes(schedule: Schedule, stages: Sequence[Stage], *, input_bytes: int = 0) -> int:
    """The schedule's peak by the paper's model, found by running it over a table of what is alive.

    The gradient of the chain's last output is alive from the start, as the paper counts it.

    Raises:
        ValueError: an operation lacks something that it takes, so this is no schedule of these stages.
    """
    last = len(stages) - 1
    alive = {("a", -1): input_bytes, ("δ", last): stages[last].output_bytes}
    peak = 0
    for kind, index in operations(schedule):
        stage = stages[index]
        source = ("a", index - 1) if ("a", index - 1) in alive else ("ā", index - 1)
        needed = [source] if kind != "B" else [source, ("ā", index), ("δ", index)]
        if missing := [key for key in needed if key not in alive]:
            raise ValueError(f"{kind} of stage {index} ({stage.name}) lacks {missing[0][0]} of stage {missing[0][1]}")
        if kind == "B":
            peak = max(peak, sum(alive.values()) + stage.backward_extra_bytes)
            del alive["ā", index], alive["δ", index]
            alive.pop(("a", index - 1), None)
            if index > 0:
                alive["δ", index - 1] = stages[index - 1].output_bytes
        else:
            made = ("ā", stage.saved_bytes) if kind == "F_all" else ("a", stage.output_bytes)
            alive[made[0], index] = made[1]
            peak = max(peak, sum(alive.values()) + stage.forward_extra_bytes)
            if kind == "F_none":
                alive.pop(("a", index - 1), None)
    return peak
