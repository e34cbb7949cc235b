"""What ops, regions and policies take on this device, measured on the real step.

Ops: as they run inside the plain step (`bench.plan.op_times`); equal ones are pooled, which takes out much of a shared
machine's noise; and all are scaled so that they add up to the step as it runs unwatched.
Regions and policies: as the differences between steps of a toy. Its tensors are large enough to push the interpreter's
own out of the caches between two ops, as a model's do: on tensors of one element both take a third of the time.
"""

from __future__ import annotations

import difflib
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import nn

from bench.measure.clock import time_steps
from bench.placement.applying import apply
from bench.plan.costs import MEASURED, OpCosts, flop_ops
from bench.plan.op_times import OpTimes, time_ops
from bench.step.interface import Step
from bench.trace.log import Op, StepLog

QUANTILE = 4
"""Of all times of an op and its equals, the lowest quarter's end is taken: what delays one of them is not the op's."""
MAX_UNMATCHED_SHARE = 0.01
TOY_UNITS, TOY_OPS, TOY_ROUNDS = 16, 3, 15
TOY_SIZE = 2**18
"""Elements, 1 MiB in fp32."""


class OpsDifferError(RuntimeError):
    """The real step runs other ops than the fake one that its costs are wanted for."""


def probe_costs(step: Step, log: StepLog, *, num_steps: int = 5) -> OpCosts:
    """Measures on the step's device. Runs `1 + 2 * num_steps` plain steps and some of a toy's.

    Args:
        step: the real one; it has run before.
        log: of the same plain step (`Forecaster.plain_log`), whose ops the costs will be of.

    Raises:
        OpsDifferError: more than MAX_UNMATCHED_SHARE of the work of one of them is not in the other.
        UnsteadyStepError: the step does not dispatch the same operators each time.
    """
    times = time_ops(step, num_steps)
    op_ms = op_costs(log, times)
    region_ms, policy_call_ms = probe_region(step.device)
    return OpCosts(
        op_ms=op_ms,
        has_flops=flop_ops(log),
        region_ms=region_ms,
        policy_op_ms=policy_call_ms * times.calls_per_op,
        source=MEASURED,
    )


def op_costs(log: StepLog, times: OpTimes) -> tuple[float, ...]:
    """Milliseconds of each op of the log.

    Raises:
        OpsDifferError: as `probe_costs` does.
    """
    position = _matched(log, times)
    pools: dict[Hashable, list[float]] = defaultdict(list)
    kinds = [_kind(log, op) for op in log.ops]
    for index, timed in position.items():
        pools[kinds[index]] += [of_step[timed] for of_step in times.ms]
    taken = {kind: _lower_quartile(pool) for kind, pool in pools.items()}
    # What the fake step does and the real one does not, such as making a constant, takes no time.
    ms = [taken[kind] if index in position else 0.0 for index, kind in enumerate(kinds)]
    return _adding_up(ms, statistics.median(times.plain_ms))


def probe_region(device: torch.device, num_rounds: int = TOY_ROUNDS) -> tuple[float, float]:
    """Milliseconds of (one replay beside its ops, what a dispatched call under a policy takes longer). The host's on a
    GPU, where a busy device hides a part of them.

    On tensors of one element there is little noise, so what is found there is the least that either can be.
    """
    least = _differences(device, 1, num_rounds)
    found = _differences(device, TOY_SIZE, num_rounds)
    return max(least[0], found[0], 0.0), max(least[1], found[1], 0.0)


def _differences(device: torch.device, size: int, num_rounds: int) -> tuple[float, float]:
    """As `probe_region`, by the medians of differences between steps that follow one another."""
    toy = nn.Sequential(*(_Toy() for _ in range(TOY_UNITS))).to(device)
    start = torch.ones(size, device=device, requires_grad=True)
    gradient = torch.ones_like(start)

    def run() -> None:
        toy(start).backward(gradient)

    each = f"0..{TOY_UNITS - 1}:each"
    placements = ("none", each, f"{each}:keep.mm")  # a policy that keeps nothing
    regions: list[float] = []
    policies: list[float] = []
    forwards: list[float] = []
    for _ in range(num_rounds):
        plain_ms, regions_ms, policies_ms = (_placed_ms(toy, placement, run, device) for placement in placements)
        regions.append(regions_ms - plain_ms)
        policies.append(policies_ms - regions_ms)
        forwards += time_steps(lambda: toy(start), 1, device).steps_ms
    region = (statistics.median(regions) - statistics.median(forwards)) / TOY_UNITS
    policy_call = statistics.median(policies) / (2 * TOY_UNITS * TOY_OPS)  # in the first pass and in the replay
    return region, policy_call


class _Toy(nn.Module):
    """Each op saves its result, so that a replay runs all of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(TOY_OPS):
            x = x.sigmoid()
        return x


def _placed_ms(toy: nn.Module, placement: str, run: Callable[[], None], device: torch.device) -> float:
    """The faster of two steps."""
    with apply(toy, placement):
        return min(time_steps(run, 2, device).steps_ms)


def _lower_quartile(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // QUANTILE]


def _kind(log: StepLog, op: Op) -> Hashable:
    """Equal for ops that do the same on tensors of the same shapes."""
    tensors = tuple(
        tuple((log.storages[s].shape, log.storages[s].dtype, log.storages[s].size_bytes) for s in storages)
        for storages in (op.reads, op.writes)
    )
    return op.name, op.phase, op.flops, op.moved_bytes, tensors


def _matched(log: StepLog, times: OpTimes) -> dict[int, int]:
    """Op of the log → position among the timed ones."""
    names = tuple(op.name for op in log.ops)
    if names == times.names:
        return {index: index for index in range(len(names))}
    matcher = difflib.SequenceMatcher(None, names, times.names, autojunk=False)
    position = {a + k: b + k for a, b, size in matcher.get_matching_blocks() for k in range(size)}
    alone = [op for index, op in enumerate(log.ops) if index not in position]
    moved = sum(op.moved_bytes for op in alone) / max(sum(op.moved_bytes for op in log.ops), 1)
    timed_alone = set(range(len(times.names))) - set(position.values())
    time_alone = sum(sum(ms[i] for i in timed_alone) for ms in times.ms) / max(sum(map(sum, times.ms)), 1e-9)
    if max(moved, time_alone) > MAX_UNMATCHED_SHARE or any(op.flops for op in alone):
        first = alone[0].name if alone else times.names[min(timed_alone)]
        raise OpsDifferError(
            f"the real step of {log.model} does not run the ops of the fake one: {len(alone)} of {len(names)} are "
            f"missing ({moved:.1%} of the bytes) and {len(timed_alone)} are new ({time_alone:.1%} of the time), "
            f"{first} first; plan from FLOPs and bytes instead"
        )
    return position


def _adding_up(ms: Sequence[float], total_ms: float) -> tuple[float, ...]:
    """Scaled where they are more than the step, since watching slows it down; where they are less, what is missing is
    the host's, and each op's alike."""
    found = sum(ms)
    if found == 0:  # ops too short for the clock
        return (total_ms / max(len(ms), 1),) * len(ms)
    if found >= total_ms:
        return tuple(one * total_ms / found for one in ms)
    missing = (total_ms - found) / max(sum(one > 0 for one in ms), 1)
    return tuple(one + missing if one > 0 else 0.0 for one in ms)
