"""What a whole card leaves for a step's tensors: its memory, less the context, less what the allocator reserves beyond
what it hands out."""

from __future__ import annotations

from dataclasses import dataclass

from bench.frontier import OK, Frontier
from bench.records import Forecasts

ASSUMED_SHARE = 0.05
"""Of what the context leaves, reserved and not allocated, where no reserved bytes were measured or forecast. A guess:
segments are 2 and 20 MiB and larger, and fragment. The answer says that it is one."""
MEASURED, FORECAST, ASSUMED = "measured", "forecast", "assumed"


@dataclass(frozen=True, kw_only=True)
class CardRoom:
    memory_bytes: int
    context_bytes: int
    """Of a CUDA context, outside the allocator; approximate."""
    reserved_overhead_bytes: int
    """Reserved beyond allocated bytes at the peak, the largest of all placements."""
    overhead_source: str
    """MEASURED, FORECAST or ASSUMED."""

    @property
    def budget_bytes(self) -> int:
        """Peak allocated bytes that fit."""
        return self.memory_bytes - self.context_bytes - self.reserved_overhead_bytes


def card_room(frontier: Frontier, forecasts: Forecasts, memory_bytes: int, context_bytes: int) -> CardRoom:
    """The overhead is measured where the study ran on a GPU, else forecast where it was forecast for one."""
    measured = [
        trial.peak_reserved_bytes - trial.peak_allocated_bytes
        for trial in frontier.trials
        if trial.outcome == OK and trial.peak_reserved_bytes is not None and trial.peak_allocated_bytes is not None
    ]
    forecast = [
        of.peak_reserved_bytes - of.peak_allocated_bytes
        for of in forecasts.placements.values()
        if of.peak_reserved_bytes is not None
    ]
    if measured:
        overhead, source = max(measured), MEASURED
    elif forecast:
        overhead, source = max(forecast), FORECAST
    else:
        overhead, source = round(ASSUMED_SHARE * (memory_bytes - context_bytes)), ASSUMED
    return CardRoom(
        memory_bytes=memory_bytes,
        context_bytes=context_bytes,
        reserved_overhead_bytes=overhead,
        overhead_source=source,
    )
