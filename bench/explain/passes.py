"""Passes of regions, which may lie in each other. A pass is its number in the log, NOWHERE stands for none."""

from __future__ import annotations

from collections.abc import Iterator

from bench.trace.log import NOWHERE, REPLAY, StepLog


def around(log: StepLog, number: int) -> Iterator[int]:
    """A pass and those that it lies in, from the innermost out."""
    while number != NOWHERE:
        yield number
        number = log.passes[number].around


def replays_around(log: StepLog, number: int) -> list[int]:
    """Of `around`, the replays."""
    return [n for n in around(log, number) if log.passes[n].kind == REPLAY]


def replayed_region(log: StepLog, number: int) -> str:
    """Region of the innermost replay that a pass is or lies in; empty where it is in none."""
    return next((log.passes[n].region for n in replays_around(log, number)), "")


def is_in_replay(log: StepLog, number: int) -> bool:
    """Whether a pass of a region is a replay, or lies in one."""
    return bool(replays_around(log, number))
