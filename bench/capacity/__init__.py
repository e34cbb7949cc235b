"""The largest size that trains within a memory limit, and the throughput there: pure functions of records."""

from bench.capacity.types import (
    Answer as Answer,
    AtMultiple as AtMultiple,
    AtSize as AtSize,
    Axis as Axis,
    Capacity as Capacity,
    CapacitySpec as CapacitySpec,
    FrontierPoint as FrontierPoint,
    Throughput as Throughput,
)
