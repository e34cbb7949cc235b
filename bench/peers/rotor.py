"""rotor's dynamic program: the fastest persistent schedule of a heterogeneous chain within a memory budget.

Source: Inria RR-9302 (arXiv 1911.13214); see `bench.peers.rotor_schedule` for its model. *Persistent* means
that what is kept stays until its backward. Such a schedule is a nesting of regions: F_ck and F_∅ of stages i to k - 1
are the first pass of a region over these units, whose replay is a schedule of its own; F_all leaves a unit plain. Among
persistent schedules the program's answer is optimal; others can be faster.

Memory is counted in slots as theirs: the budget in 500 equal slots, every size rounded up to whole ones. So an answer
keeps the budget to the byte, and one that fits with less than a slot (0.2 % of the budget) to spare for each size that
it holds may be missed. Where every size is a multiple of budget / slots, the program is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.peers.errors import OverBudgetError
from bench.peers.rotor_schedule import Keep, Rerun, Schedule, Stage, peak_bytes
from bench.placement import Placement, Region

if TYPE_CHECKING:
    from bench.plan.profile import StepProfile

SLOTS = 500
"""rotor's default number of memory slots."""
AFTER = "after the chains"
"""The name of the stage for the head and the loss."""

_KEEP = 0


def rotor(profile: StepProfile, budget_bytes: int | None) -> Placement:
    """The placement whose step is fastest within `budget_bytes` of peak by rotor's model; None: the least peak it has.

    Raises:
        OverBudgetError: no schedule fits.
    """
    stages, input_bytes = from_profile(profile)
    free = None if budget_bytes is None else budget_bytes - profile.persistent_bytes
    return placement(optimal_schedule(stages, free, input_bytes=input_bytes), stages)


def from_profile(profile: StepProfile) -> tuple[tuple[Stage, ...], int]:
    """One stage a unit in forward order, the chains one after another, and one stage after them that is never rerun;
    with the bytes of the first unit's input.

    rotor knows one chain of stages that each read the one before. A second chain (a decoder, the way up of a U-Net) is
    taken for the first one's continuation, so what it reads besides is not counted; but a region stays in its chain.
    The stage after the chains takes the rest of the step's time, and what the plain step's peak has beyond all that the
    units save, so that the model's plain peak is not below the true one.
    """
    stages = [
        Stage(
            name=unit.unit,
            forward_ms=unit.forward_ms,
            backward_ms=unit.backward_ms,
            output_bytes=unit.output_bytes,
            saved_bytes=max(unit.saved_bytes, unit.output_bytes),
            forward_extra_bytes=unit.forward_extra_bytes,
            backward_extra_bytes=unit.backward_extra_bytes,
            chain=chain.name,
        )
        for chain in profile.chains
        for unit in chain.units
    ]
    input_bytes = profile.chains[0].units[0].input_bytes
    rest_bytes = profile.peak_bytes - profile.persistent_bytes - input_bytes - sum(s.saved_bytes for s in stages)
    rest_ms = profile.step_ms - sum(stage.forward_ms + stage.backward_ms for stage in stages)
    after = Stage(
        name=AFTER,
        forward_ms=0.0,
        backward_ms=max(0.0, rest_ms),
        output_bytes=0,
        saved_bytes=0,
        backward_extra_bytes=max(0, rest_bytes),
        chain=None,
    )
    return (*stages, after), input_bytes


def placement(schedule: Schedule, stages: Sequence[Stage]) -> Placement:
    """Every `Rerun` of the schedule as a region, nested where it lies in another's replay."""
    regions: list[Region] = []
    todo: list[Schedule] = [schedule]
    while todo:
        part = todo.pop()
        if isinstance(part, Rerun):
            regions.append(Region(units=tuple(stage.name for stage in stages[part.first : part.split])))
            todo += [part.rest, part.replay]
        elif part.rest is not None:
            todo.append(part.rest)
    return Placement(tuple(regions))


def optimal_schedule(
    stages: Sequence[Stage], budget_bytes: int | None, *, input_bytes: int = 0, slots: int = SLOTS
) -> Schedule:
    """The fastest persistent schedule with a peak of at most `budget_bytes`, all that is not the chain's own left out.

    None as the budget: the fastest among those of the least peak, where the slots divide the peak of keeping all.

    Raises:
        OverBudgetError: no persistent schedule fits.
    """
    size = plain_peak(stages, input_bytes) if budget_bytes is None else budget_bytes
    if size <= 0:
        raise OverBudgetError(f"rotor: {size} bytes are left for activations; its budget must be above what persists")
    table = _Table.filled(stages, slot_bytes=size / slots, slots=slots)
    available = slots - math.ceil(input_bytes * slots / size)
    fitting = np.flatnonzero(np.isfinite(table.times[0, -1, : max(available + 1, 0)]))
    if not len(fitting):
        raise OverBudgetError(
            f"rotor: no persistent schedule fits into {size} bytes of activations, in slots of {size / slots:.0f} bytes"
        )
    return table.schedule(0, len(stages) - 1, int(fitting[0]) if budget_bytes is None else available)


def plain_peak(stages: Sequence[Stage], input_bytes: int = 0) -> int:
    """Peak bytes by rotor's model of the schedule that reruns nothing."""
    schedule: Schedule | None = None
    for index in reversed(range(len(stages))):
        schedule = Keep(index, schedule)
    if schedule is None:
        raise ValueError("a chain without stages")
    return peak_bytes(schedule, stages, input_bytes=input_bytes)


@dataclass(frozen=True)
class _Table:
    """C_BP(s, t, m) of the paper: the least time to run stages s to t forward and backward with m slots, the input of s
    not counted; and which choice reaches it: `_KEEP`, or the stage at which a rerun of s ends."""

    times: NDArray[np.float64]
    """float64[first stage, last stage, slots + 1]; infinite where nothing fits."""
    choices: NDArray[np.int32]
    saved: list[int]
    output: list[int]

    @classmethod
    def filled(cls, stages: Sequence[Stage], *, slot_bytes: float, slots: int) -> _Table:
        def in_slots(num_bytes: int) -> int:
            # Sizes above the budget are all alike; the cap keeps them small numbers.
            return min(math.ceil(num_bytes / slot_bytes - 1e-9), slots + 1)

        count = len(stages)
        output = [in_slots(stage.output_bytes) for stage in stages]
        saved = [in_slots(stage.saved_bytes) for stage in stages]
        extra_f = [in_slots(stage.forward_extra_bytes) for stage in stages]
        extra_b = [in_slots(stage.backward_extra_bytes) for stage in stages]
        until_ms = np.concatenate([[0.0], np.cumsum([stage.forward_ms for stage in stages])])
        times = np.full((count, count, slots + 1), np.inf)
        # rests[t, s]: the times of s to t where the input of s takes memory too, as it does for what follows a rerun.
        rests = np.full_like(times, np.inf)
        choices = np.zeros(times.shape, dtype=np.int32)
        for length in range(count):
            for s in range(count - length):
                t = s + length
                keep = np.zeros(slots + 1) if s == t else _with_fewer(times[s + 1, t], saved[s])
                keep[: max(output[t] + saved[s] + extra_f[s], output[s] + saved[s] + extra_b[s])] = np.inf  # m_all
                times[s, t] = keep + stages[s].forward_ms + stages[s].backward_ms
                end = min(t, _reach(stages, s))
                if end > s:
                    rerun = (
                        rests[t, s + 1 : end + 1] + times[s, s:end] + (until_ms[s + 1 : end + 1, None] - until_ms[s])
                    )
                    passing = [
                        output[s] + extra_f[s],
                        *(output[j - 1] + output[j] + extra_f[j] for j in range(s + 1, t)),
                    ]
                    rerun[:, : output[t] + max(passing)] = np.inf  # m_∅
                    split = rerun.argmin(axis=0)
                    fastest = np.take_along_axis(rerun, split[None], axis=0)[0]
                    choices[s, t] = np.where(fastest < times[s, t], s + 1 + split, _KEEP)
                    times[s, t] = np.minimum(times[s, t], fastest)
                if s > 0:
                    rests[t, s] = _with_fewer(times[s, t], output[s - 1])
        return cls(times=times, choices=choices, saved=saved, output=output)

    def schedule(self, s: int, t: int, slots: int) -> Schedule:
        choice = int(self.choices[s, t, slots])
        if choice == _KEEP:
            return Keep(s, self.schedule(s + 1, t, slots - self.saved[s]) if t > s else None)
        rest = self.schedule(choice, t, slots - self.output[choice - 1])
        return Rerun(s, choice, rest, self.schedule(s, choice - 1, slots))


def _reach(stages: Sequence[Stage], first: int) -> int:
    """The end (exclusive) of the longest run from `first` on that one region can hold."""
    if stages[first].chain is None:
        return first
    end = first
    while end < len(stages) and stages[end].chain == stages[first].chain:
        end += 1
    return end


def _with_fewer(times: NDArray[np.float64], slots: int) -> NDArray[np.float64]:
    """The times when `slots` of the memory are taken: what m slots then reach is what m - `slots` did."""
    taken = np.full_like(times, np.inf)
    if slots < len(times):
        taken[slots:] = times[: len(times) - slots]
    return taken
