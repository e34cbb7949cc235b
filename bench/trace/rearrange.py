"""The step under any placement, worked out from the plain step: no model runs, and no tensor is made.

A checkpointed step differs from the plain one in three ways, all of them those of torch.utils.checkpoint 2.13:

- In its first pass a region holds nothing that autograd saves in it. Tensors live as long as Python holds them; only
  the region's inputs, its RNG state and what its policy keeps stay until backward has let go of all that the region
  saved. The inputs of a region inside another are saved under the outer one, which therefore holds nothing of them.
- Backward is the plain step's. The first time that it takes out a tensor that a region saved, the region's forward runs
  again, up to the last tensor that it saved, and what is saved then lives until a backward node has used it.
- Replay enters autocast anew, so weights that were cast before the region are cast again.

So a script of the forwards is run as an interpreter would, with holds counted for every storage, and each backward's
demands start replays. What it says is equal to the byte to what a fake step says (tests/trace/test_rearrange.py), or it
says nothing: CannotRearrangeError is raised for

- reentrant regions, whose backward is one of its own, regions with @restore, which copy what moves, and policies that
  keep views by name;
- what a whole step refuses as it runs: policies whose kept outputs change in place, policies on regions whose weights
  autocast had cast before they were entered, regions that are given a cache of keys and values;
- regions that read a tensor which is neither given to them nor theirs nor there all the time;
- placements whose peak hangs on how long hooks hold what they take out of a replay, which the plain step does not show;
- steps whose forwards differ from run to run, or whose plain step does not come out of the same rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bench.placement.types import NONE, Placement
from bench.trace.log import PhaseMark
from bench.trace.rearrange_reads import Reads
from bench.trace.rearrange_regions import Entries, entries_of
from bench.trace.rearrange_run import Run
from bench.trace.rearrange_script import CannotRearrangeError as CannotRearrangeError, script_of
from bench.trace.saved import Recording
from bench.trace.sums import events_in_place


@dataclass(frozen=True, kw_only=True)
class Rearranged:
    """The step under a placement."""

    events: Sequence[int]
    """Storage s allocated: s + 1; released: -(s + 1)."""
    sizes: Sequence[int]
    """Bytes of each storage."""
    phases: Sequence[PhaseMark]
    begins: Sequence[int | None]
    """Of each item of the script, the step's moments, events before it; None for one that was passed over. Moments are
    the same under every placement: what is replayed belongs to the one that asked for it. A span's units run when the
    first is called, so that what lies between their calls comes after them."""
    replayed: Sequence[int]
    """The plain step's ops that ran again, in order."""
    num_replays: int
    """Of all regions and their calls."""
    num_policy_ops: int
    """Ops that ran under a policy, in first passes and replays; one under two policies counts twice."""


class Rearranger:
    """Works out placements of one step."""

    def __init__(self, held: Recording, unheld: Recording, *, rng_state_bytes: int) -> None:
        """
        Args:
            rng_state_bytes: of what a region keeps of the generator, 0 where that is not on the device.

        Raises:
            CannotRearrangeError: the plain step does not come out as it was recorded.
        """
        self.script = script_of(held, unheld)
        self._rng_state_bytes = rng_state_bytes
        self._known_reads: dict[tuple[int, ...], Reads] = {}
        self._sums = held.sums
        plain = self._run(entries_of(self.script, NONE), hooks_take_nothing=False)
        if _line(plain.events, plain.sizes) != _line(held.log.events, plain.sizes):
            raise CannotRearrangeError("some tensor lives for another reason than that Python or autograd holds it")

    def rearranged(self, placement: Placement) -> Rearranged:
        """Raises CannotRearrangeError."""
        entries = entries_of(self.script, placement)
        run = self._run(entries, hooks_take_nothing=False)
        found = self._unwatched(run)
        if run.has_escaped:
            shortest = self._unwatched(self._run(entries, hooks_take_nothing=True))
            if _peak(found) != _peak(shortest):
                raise CannotRearrangeError("the peak hangs on how long hooks hold what they take out of replays")
        return found

    def _unwatched(self, run: Run) -> Rearranged:
        try:
            events, before = events_in_place(run.events, self._sums)
        except ValueError:
            raise CannotRearrangeError("a gradient outlives the sum that it is part of") from None
        phases = [dataclasses.replace(mark, begin=before[mark.begin]) for mark in run.phases]
        return Rearranged(
            events=events,
            sizes=run.sizes,
            phases=phases,
            begins=[None if begin is None else before[begin] for begin in run.begins],
            replayed=run.replayed,
            num_replays=run.num_replays,
            num_policy_ops=run.num_policy_ops,
        )

    def _run(self, entries: Entries, *, hooks_take_nothing: bool) -> Run:
        run = Run(
            self.script,
            entries,
            rng_state_bytes=self._rng_state_bytes,
            known_reads=self._known_reads,
            hooks_take_nothing=hooks_take_nothing,
        )
        run.run()
        return run


def _peak(step: Rearranged) -> int:
    return max(_line(step.events, step.sizes), default=0)


def _line(events: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Bytes after each allocation: what two orders of the same events agree on where releases swap places."""
    total, line = 0, []
    for event in events:
        if event > 0:
            total += sizes[event - 1]
            line.append(total)
        else:
            total -= sizes[-event - 1]
    return line
