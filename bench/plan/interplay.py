"""Choices that change memory together otherwise than each alone, found where a sum of changes erred.

Two regions share a tensor now and then: what one of them would free, the other holds as its input (a skip connection of
a U-Net). Which two they are is found by halving the choice, as in the delta debugging of failing inputs (Zeller, 1999),
and what they change together is then known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.placement.types import Placement
from bench.plan.moments import Change, Line
from bench.plan.solve import Choice, Interplay, Member, Program, Taken, members_of
from bench.plan.trials import Trials

SHARE = 0.25
"""Of the whole error at a moment, what a part of the choice must show to be looked at."""
MAX_ALIKE = 24
"""Options like one at fault that are tried with the other: what one tensor does, it does to most of them."""


def interplays_of(choice: Choice, moment: int, program: Program, trials: Trials) -> list[Interplay]:
    """What explains that the program takes memory to be less at a moment than it is under a choice, and the same of
    options like those that are at fault; nothing where the program knows all."""
    error = _Error(moment, program, trials)
    members = members_of(choice.taken)
    least = SHARE * error.of(members)
    if least <= 0:
        return []
    last = _first_where(lambda count: error.of(members[:count]) > least, len(members))
    latter = _closed(members[last - 1])
    others = [member for member in members[: last - 1] if member not in latter]
    count = _first_where(lambda count: error.of([*others[:count], *latter]) > least, len(others)) if others else 0
    former = _closed(others[count - 1]) if count else ()
    if error.of([*former[:1], *latter[:1]]) > least:
        first, second = former[0][0], latter[0][0]
        pairs = [(first, second)]
        pairs += [(like, second) for like in program.alike(first, apart_from=second)[:MAX_ALIKE]]
        pairs += [(first, like) for like in program.alike(second, apart_from=first)[:MAX_ALIKE]]
        found = [error.interplay([(a, None), (b, None)]) for a, b in pairs]
        return [interplay for interplay in found if interplay is not None]
    for group in ((*former, *latter[:1]), (*former[:1], *latter), (*former, *latter)):
        if error.of(group) > least:
            break
    else:
        group = members
    interplay = error.interplay(list(dict.fromkeys(group)))
    return [] if interplay is None else [interplay]


class _Error:
    """What the program does not know."""

    def __init__(self, moment: int, program: Program, trials: Trials) -> None:
        self._moment, self._program, self._trials = moment, program, trials

    def of(self, members: Sequence[Member]) -> int:
        """Bytes at the moment."""
        line = self._line(members)
        return 0 if line is None else int(line[self._moment])

    def interplay(self, members: Sequence[Member]) -> Interplay | None:
        """None where there is nothing, or it is not known."""
        line = self._line(members)
        return None if line is None or not line.any() else Interplay(tuple(members), Change.between(line - line, line))

    def _line(self, members: Sequence[Member]) -> Line | None:
        taken = _taken(members)
        tried = self._trials.tried(Placement(self._program.regions(taken)))
        return None if tried is None else tried.line - self._program.line(taken)


def _closed(member: Member) -> tuple[Member, ...]:
    """With the option that it belongs to."""
    option, keep = member
    return ((option, None),) if keep is None else ((option, None), member)


def _taken(members: Sequence[Member]) -> tuple[Taken, ...]:
    kept: dict[int, list[int]] = {}
    for option, keep in members:
        kept.setdefault(option, []).extend([] if keep is None else [keep])
    return tuple((option, tuple(keeps)) for option, keeps in kept.items())


def _first_where(holds: Callable[[int], bool], count: int) -> int:
    """The least number up to `count` from which on it holds, if it holds for `count` and changes once."""
    without, held = 0, count
    while held - without > 1:
        middle = (without + held) // 2
        if holds(middle):
            held = middle
        else:
            without = middle
    return held
