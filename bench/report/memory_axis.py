"""Where the moments of a step lie along a picture's axis.

Time is not in a log, and events alone make no axis that reads well: an optimizer that touches a thousand scalars
would fill half a page. So every op takes one width, every allocation or release that can be seen takes another, and
blocks too small to be seen take none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.explain.passes import is_in_replay
from bench.trace.log import NOWHERE, Op, StepLog

SMALLEST_SHARE = 1e-4
"""Blocks below this share of the peak take no width: they are thinner than any line."""
PHASE_SHARE_MIN = 0.095
"""Of the axis, for a phase at least, so that its name fits; less where there are many."""
PHASES_SHARE_MAX = 0.4
"""Of the axis, that all phases together get at least."""
END = "end"
"""The mark that the step is over."""


@dataclass(frozen=True, kw_only=True)
class PhaseSpan:
    phase: str
    micro_batch: int
    left: float
    right: float


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Where a step's states and ops lie, from 0 to `width`."""

    states: tuple[float, ...]
    """Where the state after so many events begins; it lasts until the next begins. Never falling; (events + 1,)."""
    ops: tuple[float, ...]
    """Where each op begins."""
    phases: tuple[PhaseSpan, ...]
    width: float


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """An op or the mark of a phase, with the events up to the next one."""

    begin: int
    """Events before it."""
    width: int
    """One, and one for each event that can be seen."""
    key: tuple[object, ...]
    """Equal in two steps where both do the same thing."""
    op: int
    """Or NOWHERE."""
    phase: int
    """Or NOWHERE."""


def axis_of(log: StepLog) -> Axis:
    return aligned_axes(log)[0]


def aligned_axes(*logs: StepLog) -> list[Axis]:
    """The axes of one step or of two, on which what both do lies at the same place.

    While one step does what the other does not, such as a replay, the other waits. Two ops are the same where phase,
    micro-batch, module and name agree and both are replayed or neither: the n-th of one step and the n-th of the other,
    as far as both steps have them in the same order.
    """
    smallest = SMALLEST_SHARE * max(log.peak()[0] for log in logs)
    visible = [_visible(log, smallest) for log in logs]
    pieces = [_pieces(log, counts) for log, counts in zip(logs, visible, strict=True)]
    rows = _side_by_side(*pieces) if len(logs) > 1 else [(index,) for index in range(len(pieces[0]))]
    starts: list[list[float]] = [[] for _ in logs]
    position = 0.0
    for row in rows:
        for side, index in enumerate(row):
            if index is not None:
                starts[side].append(position)
        position += max(pieces[side][index].width for side, index in enumerate(row) if index is not None)
    stretch = _Stretch.of(
        [(logs[0].phases[p.phase].phase, start) for p, start in zip(pieces[0], starts[0], strict=True) if p.phase >= 0],
        position,
    )
    return [_axis(*step, stretch) for step in zip(logs, visible, pieces, starts, strict=True)]


def _axis(
    log: StepLog, visible: Sequence[int], pieces: Sequence[_Piece], starts: Sequence[float], stretch: _Stretch
) -> Axis:
    states = [0.0]
    for piece, start, after in zip(pieces, starts, [*pieces[1:], None], strict=True):
        end = len(log.events) if after is None else after.begin
        states += [stretch(start + 1 + visible[e + 1] - visible[piece.begin]) for e in range(piece.begin, end)]
    marks = [(log.phases[p.phase], stretch(start)) for p, start in zip(pieces, starts, strict=True) if p.phase >= 0]
    ends = [*(start for _, start in marks[1:]), stretch.width][: len(marks)]
    return Axis(
        states=tuple(states),
        ops=tuple(stretch(start) for piece, start in zip(pieces, starts, strict=True) if piece.op != NOWHERE),
        phases=tuple(
            PhaseSpan(phase=mark.phase, micro_batch=mark.micro_batch, left=left, right=right)
            for (mark, left), right in zip(marks, ends, strict=True)
            if mark.phase != END
        ),
        width=stretch.width,
    )


def _pieces(log: StepLog, visible: Sequence[int]) -> list[_Piece]:
    found: list[tuple[int, tuple[object, ...], int, int]] = [(0, ("start",), NOWHERE, NOWHERE)]
    num_marks = 0
    for index, op in enumerate(log.ops):
        for number in range(num_marks, _marks_before(log, op, num_marks)):
            found.append(_mark(log, number))
            num_marks += 1
        key = (is_in_replay(log, op.region_pass), op.phase, op.micro_batch, op.module, op.name)
        found.append((op.begin, key, index, NOWHERE))
    found += [_mark(log, number) for number in range(num_marks, len(log.phases))]
    ends = [begin for begin, *_ in found[1:]] + [len(log.events)]
    return [
        _Piece(begin=begin, width=1 + visible[end] - visible[begin], key=key, op=op, phase=phase)
        for (begin, key, op, phase), end in zip(found, ends, strict=True)
    ]


def _mark(log: StepLog, number: int) -> tuple[int, tuple[object, ...], int, int]:
    mark = log.phases[number]
    return mark.begin, ("phase", mark.phase, mark.micro_batch), NOWHERE, number


def _marks_before(log: StepLog, op: Op, num_marks: int) -> int:
    """How many marks stand before an op; of those that fall on the moment at which it begins, up to its own."""
    before = num_marks
    for number in range(num_marks, len(log.phases)):
        mark = log.phases[number]
        if mark.begin > op.begin:
            break
        if mark.begin < op.begin or (mark.phase, mark.micro_batch) == (op.phase, op.micro_batch):
            before = number + 1
    return before


def _visible(log: StepLog, smallest: float) -> list[int]:
    """How many of the first events can be seen; (events + 1,)."""
    counts = [0]
    for event in log.events:
        counts.append(counts[-1] + (log.storages[abs(event) - 1].size_bytes >= smallest))
    return counts


def _side_by_side(first: Sequence[_Piece], second: Sequence[_Piece]) -> list[tuple[int | None, int | None]]:
    """Every piece of both, once and in order, those that are the same in one row."""
    rows: list[tuple[int | None, int | None]] = []
    left = right = 0
    for here, there in [*_same(first, second), (len(first), len(second))]:
        rows += [(index, None) for index in range(left, here)]
        rows += [(None, index) for index in range(right, there)]
        if here < len(first):
            rows.append((here, there))
        left, right = here + 1, there + 1
    return rows


def _same(first: Sequence[_Piece], second: Sequence[_Piece]) -> list[tuple[int, int]]:
    """The longest list of equal pieces that both have in the same order (as in patience diff)."""
    where = {key: index for index, key in _numbered(second)}
    pairs = [(index, where[key]) for index, key in _numbered(first) if key in where]
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, there) in enumerate(pairs):
        length = bisect_left(tails, there)
        before.append(last[length - 1] if length else NOWHERE)
        if length == len(tails):
            tails.append(there)
            last.append(number)
        else:
            tails[length], last[length] = there, number
    chosen: list[tuple[int, int]] = []
    number = last[-1] if last else NOWHERE
    while number != NOWHERE:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _numbered(pieces: Iterable[_Piece]) -> list[tuple[int, tuple[object, ...]]]:
    """(index, key with how many equal ones came before) of each piece."""
    seen: Counter[tuple[object, ...]] = Counter()
    found = []
    for index, piece in enumerate(pieces):
        found.append((index, (*piece.key, seen[piece.key])))
        seen[piece.key] += 1
    return found


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    """Phases too narrow for their names are made wider, the same for all that lies in them."""

    knots: tuple[float, ...]
    places: tuple[float, ...]

    @classmethod
    def of(cls, marks: Sequence[tuple[str, float]], width: float) -> _Stretch:
        """`marks`: (phase, where it begins)."""
        knots = [0.0, *(start for _, start in marks), width]
        names = ["", *(phase for phase, _ in marks)]
        num_named = sum(name not in ("", END) for name in names)
        least = width * min(PHASE_SHARE_MIN, PHASES_SHARE_MAX / max(num_named, 1))
        places = [0.0]
        for name, left, right in zip(names, knots, knots[1:], strict=False):
            places.append(places[-1] + max(right - left, least if name not in ("", END) else 0.0))
        return cls(knots=tuple(knots), places=tuple(places))

    @property
    def width(self) -> float:
        return self.places[-1]

    def __call__(self, position: float) -> float:
        index = min(max(bisect_right(self.knots, position) - 1, 0), len(self.knots) - 2)
        left, right = self.knots[index : index + 2]
        share = (position - left) / (right - left) if right > left else 0.0
        return self.places[index] + share * (self.places[index + 1] - self.places[index])
