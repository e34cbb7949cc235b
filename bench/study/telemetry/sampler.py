"""What reads one source of telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Scalar = str | int | float

GPU, CPU, RECORDER = "gpu", "cpu", "recorder"
"""Sources of telemetry."""


class Sampler(Protocol):
    @property
    def source(self) -> str:
        """`gpu` or `cpu`."""

    @property
    def period_s(self) -> float:
        """Seconds between two reads."""

    def read(self) -> Mapping[str, Scalar]:
        """Quantities by name, unit in the name; one that cannot be read is not there. It may raise anything: the
        recorder counts failures and goes on."""

    def close(self) -> None: ...
