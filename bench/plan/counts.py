"""What a placement adds to the plain step, in whole numbers: ops that run again, replays, ops under policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.placement.grammar import parse_placement
from bench.trace.log import FIRST, NOWHERE, REPLAY, Op, StepLog


class Counts(Protocol):
    """A `bench.trace.rearrange.Rearranged`, or a `ReplayCounts`."""

    @property
    def replayed(self) -> Sequence[int]:
        """The plain step's ops that run again, with repeats."""

    @property
    def num_replays(self) -> int:
        """Of all regions and their calls."""

    @property
    def num_policy_ops(self) -> int:
        """Ops that run under a policy, in first passes and replays; one under two policies counts twice."""


@dataclass(frozen=True, kw_only=True)
class ReplayCounts:
    """As `Counts`."""

    replayed: tuple[int, ...]
    num_replays: int
    num_policy_ops: int
    num_others: int = 0
    """Ops inside regions that the plain step does not have, such as the copies of `@restore`."""


def counts_of_log(log: StepLog) -> ReplayCounts:
    """What the log of a placement's step says, for one that cannot be rearranged. An op that runs again is known by the
    first pass that it repeats, and an op of a first pass by its number among those outside replays."""
    replay_of = [_replay_around(log, op) for op in log.ops]
    plain_number: dict[int, int] = {}
    for index, replay in enumerate(replay_of):
        if replay == NOWHERE:
            plain_number[index] = len(plain_number)
    members: dict[int, list[int]] = {}
    replayed, num_others = [], 0
    first_of = {(p.region, p.call): index for index, p in enumerate(log.passes) if p.kind == FIRST}
    for index, op in enumerate(log.ops):
        for around in _passes_around(log, op.region_pass):
            members.setdefault(around, []).append(index)
    waiting = {
        index: iter(members.get(first_of[p.region, p.call], ()))
        for index, p in enumerate(log.passes)
        if p.kind == REPLAY
    }
    for index, replay in enumerate(replay_of):
        if replay == NOWHERE:
            continue
        original = next((one for one in waiting[replay] if log.ops[one].name == log.ops[index].name), None)
        if original is None or original not in plain_number:
            num_others += 1
            continue
        plain_number[index] = plain_number[original]
        replayed.append(plain_number[original])
    with_policy = {region for region in {p.region for p in log.passes} if parse_placement(region).regions[0].keeps}
    return ReplayCounts(
        replayed=tuple(replayed),
        num_replays=sum(p.kind == REPLAY for p in log.passes),
        num_policy_ops=sum(
            log.passes[around].region in with_policy for op in log.ops for around in _passes_around(log, op.region_pass)
        ),
        num_others=num_others,
    )


def _passes_around(log: StepLog, region_pass: int) -> Iterator[int]:
    """Innermost first, up to the first replay, whose surroundings are backward's."""
    while region_pass != NOWHERE:
        yield region_pass
        if log.passes[region_pass].kind == REPLAY:
            return
        region_pass = log.passes[region_pass].around


def _replay_around(log: StepLog, op: Op) -> int:
    """The replay that the op runs in, or NOWHERE."""
    return next((one for one in _passes_around(log, op.region_pass) if log.passes[one].kind == REPLAY), NOWHERE)
