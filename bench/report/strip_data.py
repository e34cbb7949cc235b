"""The data of the strip plot: which units each frontier placement replays, and how. Pure; `strip_plot` draws it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.frontier.types import Frontier
from bench.placement import parse_placement
from bench.report.labels import common_prefix, short_label
from bench.report.names import long_names
from bench.report.quantities import memory_unit, ratio_text
from bench.spec import ChainInfo, StudySpec

PLAIN, ALONE, SPAN, PART = "plain", "replayed alone", "replayed in a span", "only a submodule"


class RegionLike(Protocol):
    @property
    def units(self) -> tuple[str, ...]: ...
    @property
    def keeps(self) -> object: ...


class PlacementLike(Protocol):
    @property
    def regions(self) -> Sequence[RegionLike]: ...


@dataclass(frozen=True, kw_only=True)
class Cell:
    kind: str
    """PLAIN, ALONE, SPAN or PART."""
    depth: int = 0
    """Regions around the whole unit: 2 and more where regions are nested."""
    parts: tuple[str, ...] = ()
    """Paths within the unit that are regions of their own."""
    keeps: bool = False
    """Whether a region of the unit keeps outputs of ops."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A boundary to be drawn around columns `first` to `last`."""

    first: int
    last: int
    level: int
    """Spans around it; a region of one unit is listed only where it lies within a span."""


@dataclass(frozen=True, kw_only=True)
class Row:
    tag: str
    """The number of the placement in the frontier plot."""
    label: str
    peak: str
    ratio: str
    cells: tuple[Cell, ...]
    """One for each column."""
    spans: tuple[Span, ...]
    elsewhere: tuple[str, ...]
    """Replayed modules that are in no chain."""


@dataclass(frozen=True, kw_only=True)
class UnitRun:
    """Neighbouring columns whose units differ by a number alone."""

    chain: str
    prefix: str
    first: int
    """Column of the first unit."""
    indices: tuple[str, ...]
    """What tells the units apart (`0`, `1` …)."""


@dataclass(frozen=True, kw_only=True)
class StripData:
    runs: tuple[UnitRun, ...]
    rows: tuple[Row, ...]
    """Frontier points from the highest peak to the lowest."""
    headline: str
    """Says why where there is nothing to draw; else empty."""


def strip_data(
    study: StudySpec, frontier: Frontier, parse: Callable[[str], PlacementLike] = parse_placement
) -> StripData:
    """Works out every cell; `parse` reads a placement text."""
    units = [unit for chain in study.chains for unit in chain.units]
    prefix, names = common_prefix(trial.placement for trial in frontier.trials), long_names(frontier.trials)
    memory = memory_unit(trial.peak_allocated_bytes for trial in frontier.trials)
    trials = {trial.placement: trial for trial in frontier.trials}
    rows = []
    for number, placement in enumerate(frontier.frontier, start=1):
        trial = trials[placement]
        cells, spans, elsewhere = lay_out(parse(placement).regions, study.chains)
        rows.append(
            Row(
                tag=str(number),
                label=names.get(placement, short_label(placement, prefix)),
                peak=f"{memory.text(trial.peak_allocated_bytes)} {memory.name}",
                ratio=ratio_text(trial.time_ratio, trial.time_ratio_interval, placement == frontier.reference),
                cells=cells,
                spans=spans,
                elsewhere=elsewhere,
            )
        )
    headline = "" if rows else "No placement is on a frontier: none was measured and found valid."
    if rows and not units:
        headline = "The model names no chains, so there are no units to show."
    return StripData(runs=unit_runs(study.chains), rows=tuple(rows), headline=headline)


def lay_out(
    regions: Sequence[RegionLike], chains: Sequence[ChainInfo]
) -> tuple[tuple[Cell, ...], tuple[Span, ...], tuple[str, ...]]:
    """Cells and span boundaries of one placement over the units of all chains, and what lies in none of them."""
    units = [unit for chain in chains for unit in chain.units]
    columns = {unit: column for column, unit in enumerate(units)}
    chain_of = [index for index, chain in enumerate(chains) for _ in chain.units]
    around: list[list[bool]] = [[] for _ in units]
    """For each column: of each region around the whole unit, whether it is a span."""
    parts: list[list[str]] = [[] for _ in units]
    keeps = [False] * len(units)
    blocks: list[tuple[int, int]] = []
    singles: list[tuple[int, int]] = []
    elsewhere: list[str] = []
    for region in regions:
        whole: list[int] = []
        for path in region.units:
            inside = [column for unit, column in columns.items() if unit == path or unit.startswith(f"{path}.")]
            owner = next((unit for unit in reversed(units) if path.startswith(f"{unit}.")), None)
            if inside:
                whole += inside
            elif owner is not None:
                parts[columns[owner]].append(path.removeprefix(f"{owner}."))
                keeps[columns[owner]] |= bool(region.keeps)
            else:
                elsewhere.append(path)
        for column in whole:
            around[column].append(len(whole) > 1)
            keeps[column] |= bool(region.keeps)
        if len(whole) > 1:
            blocks += _blocks(whole, chain_of)
        else:
            singles += [(column, column) for column in whole]
    cells = tuple(
        Cell(kind=_kind(spans, part), depth=len(spans), parts=tuple(part), keeps=kept)
        for spans, part, kept in zip(around, parts, keeps, strict=True)
    )
    return cells, _spans(blocks, singles), tuple(elsewhere)


def unit_runs(chains: Sequence[ChainInfo]) -> tuple[UnitRun, ...]:
    runs: list[UnitRun] = []
    column = 0
    for chain in chains:
        split = [_split_number(unit) for unit in chain.units]
        for prefix, group in itertools.groupby(split, key=lambda pair: pair[0]):
            indices = tuple(index for _, index in group)
            runs.append(UnitRun(chain=chain.name, prefix=prefix.rstrip("."), first=column, indices=indices))
            column += len(indices)
    return tuple(runs)


def _split_number(unit: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)(\d*)", unit)
    assert match is not None
    return match[1], match[2]


def _kind(spans: list[bool], parts: list[str]) -> str:
    if not spans:
        return PART if parts else PLAIN
    return SPAN if any(spans) else ALONE


def _blocks(columns: list[int], chain_of: list[int]) -> list[tuple[int, int]]:
    """Neighbouring columns of one chain, as first and last."""
    blocks: list[tuple[int, int]] = []
    for column in sorted(columns):
        if blocks and blocks[-1][1] == column - 1 and chain_of[column] == chain_of[column - 1]:
            blocks[-1] = (blocks[-1][0], column)
        else:
            blocks.append((column, column))
    return blocks


def _spans(blocks: list[tuple[int, int]], singles: list[tuple[int, int]]) -> tuple[Span, ...]:
    """Outer boundaries before the inner ones, and within a level from left to right."""
    spans = []
    for block in blocks + singles:
        level = sum(a <= block[0] and block[1] <= b and (a, b) != block for a, b in blocks)
        if block in blocks or level:
            spans.append(Span(first=block[0], last=block[1], level=level))
    return tuple(sorted(spans, key=lambda span: (span.level, span.first)))
