"""Memory over one step of each placement, as it was forecast: `timelines.json` in a study's directory.

A timeline is made with its forecast and thinned to a few hundred points (`bench.trace.compact`). It stands beside the
records and is no part of the truth: where the file is absent or damaged, a study has no timelines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.records.beside import PROBLEM, read_beside, unreadable
from bench.records.write import replace_text
from bench.spec import to_mapping

TIMELINE_FILE = "timelines.json"
SCHEMA_VERSION = 1
REMADE_BY = "the next sweep of this study, once forecast.json is removed,"


@dataclass(frozen=True, kw_only=True)
class TimelinePhase:
    phase: str
    """`forward`, `backward`, `optimizer`, `zero_grad`."""
    micro_batch: int
    begin: int
    """Position on the axis at which it begins."""
    made: int
    """`Timeline.made` there."""
    peak_bytes: int
    """Most that is allocated in it."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Allocated bytes over one step. The axis counts events: each allocation or release of a block that can be seen (at
    least 0.01 % of the peak) is one position. It shows order, not time."""

    placement: str
    peak_bytes: int
    """High-water mark: of the points, exactly. Blocks count as asked for, so on a GPU a caching allocator's rounding is
    not in it, nor what libraries keep for themselves."""
    peak_point: int
    """Index of the point that it is reached at first."""
    peak_op: str
    """That made the block which reached it; empty where no op did."""
    peak_module: str
    """Of that op; empty outside every module."""
    peak_in_replay: bool
    """Whether that block was made in a replay."""
    largest_error_bytes: int
    """No moment of the step lies farther from the straight lines between the points, in the total or in any category's
    upper edge."""
    width: int
    """Positions on the axis."""
    positions: tuple[int, ...]
    """Of the points, never falling; (points,)."""
    made: tuple[int, ...]
    """Blocks that can be seen and that ops made so far, outside replays. Every placement makes them, in the same order,
    so two timelines are aligned by it; (points,)."""
    remade: tuple[int, ...]
    """Likewise in replays; (points,)."""
    by_category: Mapping[str, tuple[int, ...]]
    """Bytes of each category that occurs, lowest in the stack first; (points,), or one number where it stays."""
    phases: tuple[TimelinePhase, ...]


@dataclass(frozen=True, kw_only=True)
class Timelines:
    """All that a study's `timelines.json` says."""

    placements: Mapping[str, Timeline] = field(default_factory=dict)
    """By placement text."""
    problem: str | None = None
    """Why the file could not be read; such timelines are empty. Never written."""

    def joined(self, later: Mapping[str, Timeline]) -> Timelines:
        """With those of `later`, which hold where both have one."""
        return Timelines(placements={**self.placements, **later})


def read_timelines(directory: Path) -> Timelines:
    """Of an absent file none; of one that cannot be read none, with the problem."""
    path = directory / TIMELINE_FILE
    timelines = read_beside(path, Timelines, SCHEMA_VERSION, REMADE_BY)
    for text, timeline in timelines.placements.items():
        wrong = _fault(text, timeline)
        if wrong is not None:
            return unreadable(path, Timelines, f"{text}: {wrong}", REMADE_BY)
    return timelines


def write_timelines(directory: Path, timelines: Timelines) -> None:
    """On one line: lists of hundreds of numbers are not for reading.

    Raises:
        CannotWriteError: an older file is unharmed.
    """
    data = to_mapping(timelines)
    del data[PROBLEM]
    text = json.dumps({"schema_version": SCHEMA_VERSION} | data, separators=(",", ":"), ensure_ascii=False)
    replace_text(directory / TIMELINE_FILE, text + "\n")


def _fault(text: str, timeline: Timeline) -> str | None:
    """What cannot be in a timeline, in words; None where nothing is wrong."""
    num_points = len(timeline.positions)
    columns: tuple[Sequence[int], ...] = (timeline.positions, timeline.made, timeline.remade)
    if timeline.placement != text:
        return "holds the timeline of another placement"
    if not 0 <= timeline.peak_point < num_points:
        return f"peak_point {timeline.peak_point} is none of {num_points} points"
    if any(len(column) != num_points for column in columns):
        return "positions, made and remade differ in length"
    if any(len(series) not in (1, num_points) for series in timeline.by_category.values()):
        return f"a category has neither one number nor {num_points}"
    if any(after < before for column in columns for before, after in pairwise(column)):
        return "positions, made or remade fall"
    if timeline.positions[0] < 0 or timeline.positions[-1] > timeline.width:
        return "a position lies outside the axis"
    if any(not 0 <= phase.begin <= timeline.width for phase in timeline.phases):
        return "a phase begins outside the axis"
    if any(value < 0 for series in timeline.by_category.values() for value in series):
        return "a category has less than 0 bytes"
    totals = totals_of(timeline)
    if max(totals) != timeline.peak_bytes or totals[timeline.peak_point] != timeline.peak_bytes:
        return "its categories do not add up to its peak"
    return None


def totals_of(timeline: Timeline) -> list[int]:
    """Allocated bytes at each point; (points,)."""
    series = timeline.by_category.values()
    return [sum(one[point if len(one) > 1 else 0] for one in series) for point in range(len(timeline.positions))]
