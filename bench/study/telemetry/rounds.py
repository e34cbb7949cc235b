"""When each round of a study was measured, from its records.

Where each placement has a process of its own (`protocol.process=fresh`), a round has a span in each of them, and what
was between two processes is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.records import ExecutionStarted, Record, Records, RoundDiscarded, RoundDone, Starting, TimeSample

TIME_STAGE = "time"


@dataclass(frozen=True, kw_only=True)
class RoundSpan:
    execution: int
    process: str
    round: int
    begin_s: float
    """Unix time at which its first sample was announced."""
    end_s: float
    """Unix time of its last record."""
    gpu_pci_bus_id: str | None = None
    """The GPU that its worker measured on; None on a CPU, or where torch did not tell."""

    @property
    def key(self) -> tuple[int, int]:
        """(execution, round): rounds of one execution are numbered through all its processes."""
        return self.execution, self.round


def round_spans(records: Records) -> tuple[RoundSpan, ...]:
    """Every round of every process that has a sample of it, in order of time; torn and discarded ones included."""
    gpus = {
        started.process: _text(started.environment.get("gpu_pci_bus_id")) for started in records.of(ExecutionStarted)
    }
    times: dict[tuple[int, str, int], list[float]] = {}
    sampled = {(s.execution, s.process, s.round) for s in records.of(TimeSample)}
    for record in records.entries:
        number = _round_of(record)
        key = (record.execution, record.process, number if number is not None else -1)
        if key in sampled:
            times.setdefault(key, []).append(record.unix_time_s)
    spans = (
        RoundSpan(
            execution=execution,
            process=process,
            round=number,
            begin_s=min(of_round),
            end_s=max(of_round),
            gpu_pci_bus_id=gpus.get(process),
        )
        for (execution, process, number), of_round in times.items()
    )
    return tuple(sorted(spans, key=lambda span: span.begin_s))


def discarded_rounds(records: Records) -> set[tuple[int, int]]:
    """(execution, round) of each."""
    return {(record.execution, record.round) for record in records.of(RoundDiscarded)}


def kept_spans(records: Records) -> tuple[RoundSpan, ...]:
    discarded = discarded_rounds(records)
    return tuple(span for span in round_spans(records) if span.key not in discarded)


def num_rounds(spans: Iterable[RoundSpan]) -> int:
    return len({span.key for span in spans})


def _round_of(record: Record) -> int | None:
    if isinstance(record, Starting):
        return record.round if record.stage == TIME_STAGE else None
    return record.round if isinstance(record, (TimeSample, RoundDone)) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
