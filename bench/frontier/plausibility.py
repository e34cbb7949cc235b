"""Numbers that cannot be: placements that differ and yet were measured equal.

A harness that measures one placement under two names, or a step that ignores what is put on it, gives tables that look
fine. Equal peaks alone prove nothing, since blocks of one model are equal; what is looked for here does not happen by
chance.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable

from bench.frontier.words import names
from bench.placement import parse_placement
from bench.records import MemorySample, Records, TimeSample

EQUAL_STEPS = 2
"""Step times of two placements that must be equal, to the 0.1 µs that is recorded and in the same round, before it is
said. One such pair happens by chance in a large study of millisecond steps; two of the same pair do not."""

Memory = tuple[int, int, int, int, int, int, int]
"""Peak, persistent and retained bytes; ops and FLOPs of a step, and those of its replays."""


def implausible(records: Records) -> tuple[str, ...]:
    """Sentences about placements that were measured as if they were one; empty where everything is plausible."""
    times: list[TimeSample] = records.of(TimeSample)
    memory: list[MemorySample] = records.of(MemorySample)
    return (*_equal_times(times), *_equal_steps(memory))


def _equal_times(samples: Iterable[TimeSample]) -> list[str]:
    rounds: dict[tuple[int, int], list[TimeSample]] = defaultdict(list)
    for sample in samples:
        rounds[sample.execution, sample.round].append(sample)
    equal: dict[tuple[str, str], int] = defaultdict(int)
    for of_round in rounds.values():
        by_text = sorted(of_round, key=lambda sample: sample.placement)
        for one, other in itertools.combinations(by_text, 2):
            if one.placement != other.placement and one.step_times_ms == other.step_times_ms:
                equal[one.placement, other.placement] += len(one.step_times_ms)
    return [
        f"implausible: {one} and {other} have the very same step times, {count} steps of the same rounds to 0.1 µs: "
        "they were not measured apart"
        for (one, other), count in equal.items()
        if count >= EQUAL_STEPS
    ]


def _equal_steps(samples: Iterable[MemorySample]) -> list[str]:
    groups: dict[tuple[int, Memory], set[str]] = defaultdict(set)
    for sample in samples:
        groups[sample.execution, _memory(sample)].add(sample.placement)
    sentences = []
    for equal in groups.values():
        by_size: dict[int, list[str]] = defaultdict(list)
        for text in sorted(equal):
            by_size[_num_units(text)].append(text)
        if len(by_size) > 1:
            sizes = " and ".join(f"{size} ({names(texts)})" for size, texts in sorted(by_size.items()))
            sentences.append(
                f"implausible: placements that claim to replay different numbers of units, {sizes}, took the same "
                "bytes, operations and FLOPs: some of these units were not replayed"
            )
    return list(dict.fromkeys(sentences))


def _memory(sample: MemorySample) -> Memory:
    return (
        sample.peak_allocated_bytes,
        sample.persistent_bytes,
        sample.retained_bytes,
        sample.step_ops,
        sample.replay_ops,
        sample.step_flops,
        sample.replay_flops,
    )


def _num_units(text: str) -> int:
    return len({unit for region in parse_placement(text).regions for unit in region.units})
