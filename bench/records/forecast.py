"""Forecasts of a study's placements: `forecast.json` in its directory, made without training.

They stand beside the records and are not the truth: where the file is absent or damaged, a study has no forecasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.records.beside import read_beside, unreadable, write_beside

FAKE_STEP, REARRANGED = "fake step", "rearranged"
CHECKED, FAKE, FAST = "checked", "fake", "fast"
METHODS = (CHECKED, FAKE, FAST)
"""CHECKED: all worked out from the plain step's log, the best of them held against whole steps on fake tensors; where
one differs, all by such steps. FAKE: all by such steps. FAST: all from the log, unchecked."""
FORECAST_FILE = "forecast.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a step under one placement will take, from steps on tensors without memory."""

    placement: str
    method: str
    """FAKE_STEP: a whole step was run on fake tensors. REARRANGED: worked out from the plain step's log."""
    peak_allocated_bytes: int
    """High-water mark of one step, the persistent state included."""
    persistent_bytes: int
    retained_bytes: int
    """Allocated by the last forward and still there when its backward begins."""
    peak_phase: str
    peak_reserved_bytes: int | None = None
    """Taken from the driver by a caching allocator; None on the CPU."""
    step_flops: int | None
    """None where an op's FLOPs are not known."""
    replay_flops: int | None
    replay_ops: int
    """Ops run again, views left out."""
    replay_moved_bytes: int
    """Read and written by them."""


@dataclass(frozen=True, kw_only=True)
class Forecasts:
    """All that a study's `forecast.json` says."""

    placements: Mapping[str, Forecast] = field(default_factory=dict)
    """By placement text."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Placement → why it could not be forecast; it is not tried again."""
    notes: tuple[str, ...] = ()
    """Sentences on how they were made that a reader must know."""
    problem: str | None = None
    """Why the file could not be read; such forecasts are empty. Never written."""

    def joined(self, later: Forecasts) -> Forecasts:
        """Of both; where they disagree, `later` holds."""
        placements = {**self.placements, **later.placements}
        return Forecasts(
            placements=placements,
            missing={text: why for text, why in {**self.missing, **later.missing}.items() if text not in placements},
            notes=tuple(dict.fromkeys((*self.notes, *later.notes))),
            problem=later.problem or self.problem,
        )


def read_forecasts(directory: Path) -> Forecasts:
    """Of an absent file none; of one that cannot be read none, with the problem."""
    path = directory / FORECAST_FILE
    forecasts = read_beside(path, Forecasts, SCHEMA_VERSION)
    misnamed = [text for text, forecast in forecasts.placements.items() if forecast.placement != text]
    if misnamed:
        return unreadable(path, Forecasts, f"{misnamed[0]} holds the forecast of another placement")
    return forecasts


def write_forecasts(directory: Path, forecasts: Forecasts) -> None:
    """Raises CannotWriteError, an older file unharmed."""
    write_beside(directory / FORECAST_FILE, forecasts, SCHEMA_VERSION)
