"""What every placement's step is arranged from: the forwards as Python holds tensors, and the plain step's backward.

Both come from `bench.trace.saved`. Storages are numbered as in the plain step's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.step.interface import FORWARD
from bench.trace.log import Op, PhaseMark, Storage
from bench.trace.saved import ENTER, FORGET, LEAVE, OP, PACK, PHASE, RELEASE, UNPACK, UNTRACKED, Note, Recording

BORN, DIED, EVENTS = "born", "died", "events"
"""Further kinds of items: a storage made outside every op, the end of Python's hold on one, and events that are the
same under every placement."""

Item = tuple[str, int]
"""What happens, and an index: of an op, storage, saved tensor, module call, phase, or into `Script.fixed`."""


class CannotRearrangeError(RuntimeError):
    """The step under a placement cannot be worked out from the plain step; run it on fake tensors instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a module's forward, from the item at which it is entered to the one at which it is left."""

    enter: int
    leave: int
    with_gradients: bool
    given_cache: bool
    boundary: tuple[int, ...]
    handed_out: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Script:
    items: Sequence[Item]
    calls: Mapping[str, Sequence[Call]]
    """Of each module, in order."""
    call_at: Mapping[int, Call]
    """Item at which it is entered → call."""
    op_events: Mapping[int, Sequence[int]]
    """Of each forward op: what it allocates and releases."""
    packed: Mapping[int, int]
    """Saved tensor → storage, or UNTRACKED."""
    fixed: Sequence[Sequence[int]]
    ops: Sequence[Op]
    """Of the plain step."""
    storages: Sequence[Storage]
    """Of the plain step."""
    phases: Sequence[PhaseMark]
    from_forward: frozenset[int]
    """Storages that a forward makes, whose lives depend on the placement."""


def script_of(held: Recording, unheld: Recording) -> Script:
    """Raises CannotRearrangeError where the two recordings are not of the same forwards."""
    return _Builder(held, unheld).build()


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What happened in one phase: notes and events in their order."""

    phase: int
    entries: list[Note | int]
    """An int is an event, outside every op."""


class _Builder:
    def __init__(self, held: Recording, unheld: Recording) -> None:
        self._held, self._unheld = held, unheld
        self._items: list[Item] = []
        self._fixed: list[list[int]] = []
        self._op_events: dict[int, list[int]] = {}
        self._packed: dict[int, int] = {}
        self._pack_of: dict[int, int] = {}
        """Saved tensor of the recording that holds nothing → of the other."""
        self._storage_of = _persistent(held.log.storages, unheld.log.storages)
        """Likewise for storages."""
        self._from_forward: set[int] = set()
        self._released: set[int] = set()
        self._unseen = _indices_of(held, UNPACK) - _indices_of(held, FORGET)
        """Saved tensors of which it was not seen when their node needs them no more: with all else that it holds."""
        self._dropped: set[int] = set()
        """Storages that Python lets go of during a forward."""
        self._positions: dict[int, list[int]] = {}
        """Of each call: items at which it is entered and left."""

    def build(self) -> Script:
        held, unheld = list(_stretches(self._held)), list(_stretches(self._unheld))
        forwards = [stretch for stretch in unheld if self._phase(self._unheld, stretch) == FORWARD]
        if sum(self._phase(self._held, stretch) == FORWARD for stretch in held) != len(forwards):
            raise CannotRearrangeError("the step does not run its forwards without their backwards")
        remaining = iter(forwards)
        pairs = [(s, next(remaining) if self._phase(self._held, s) == FORWARD else None) for s in held]
        for stretch, forward in pairs:
            if forward is not None:
                self._match(stretch, forward)
        for stretch, forward in pairs:
            if stretch.phase >= 0:
                self._items.append((PHASE, stretch.phase))
            if forward is None:
                self._rest(stretch)
            else:
                self._forward(stretch, forward)
        calls = self._calls()
        return Script(
            items=self._items,
            calls=calls,
            call_at={call.enter: call for of_module in calls.values() for call in of_module},
            op_events=self._op_events,
            packed=self._packed,
            fixed=self._fixed,
            ops=self._held.log.ops,
            storages=self._held.log.storages,
            phases=self._held.log.phases,
            from_forward=frozenset(self._from_forward),
        )

    def _phase(self, recording: Recording, stretch: _Stretch) -> str:
        return recording.log.phases[stretch.phase].phase if stretch.phase >= 0 else ""

    def _match(self, stretch: _Stretch, forward: _Stretch) -> None:
        """The two recordings of one forward, item by item: births, ops and saved tensors."""
        births, others = self._births(self._held, stretch), self._births(self._unheld, forward)
        mine, theirs = self._held.log, self._unheld.log
        ops, other_ops = _indices(stretch, OP), _indices(forward, OP)
        if [mine.ops[i].name for i in ops] != [theirs.ops[i].name for i in other_ops] or [
            mine.storages[s].size_bytes for s in births
        ] != [theirs.storages[s].size_bytes for s in others]:
            raise CannotRearrangeError("two forwards of the step did not run the same ops")
        self._storage_of |= dict(zip(others, births, strict=True))
        self._from_forward |= set(births)
        packs, other_packs = _notes(stretch, PACK), _notes(forward, PACK)
        if [note.storage for note in packs] != [self._storage(note.storage) for note in other_packs]:
            raise CannotRearrangeError("two forwards of the step did not save the same tensors")
        self._pack_of |= {other.index: note.index for note, other in zip(packs, other_packs, strict=True)}
        for index, other in zip(ops, other_ops, strict=True):
            events = theirs.events[theirs.ops[other].begin : theirs.ops[other].end]
            self._op_events[index] = [self._event(event) for event in events]

    def _births(self, recording: Recording, stretch: _Stretch) -> list[int]:
        log, found = recording.log, []
        for entry in stretch.entries:
            if isinstance(entry, int):
                events: Sequence[int] = (entry,)
            elif entry.kind == OP:
                events = log.events[log.ops[entry.index].begin : log.ops[entry.index].end]
            else:
                continue
            found += [event - 1 for event in events if event > 0]
        return found

    def _forward(self, stretch: _Stretch, forward: _Stretch) -> None:
        ops = iter(_indices(stretch, OP))
        for entry in stretch.entries:  # what the phases before have left behind, and the forward's end of it
            if isinstance(entry, int) and entry < 0 and -entry - 1 not in self._from_forward:
                self._fix([entry])
        for entry in forward.entries:
            if isinstance(entry, int):
                storage = self._storage_of.get(abs(entry) - 1)
                if storage in self._from_forward:
                    if entry < 0:
                        self._dropped.add(storage)
                    self._items.append((BORN if entry > 0 else DIED, storage))
            elif entry.kind == OP:
                op = next(ops)
                self._dropped |= {-event - 1 for event in self._op_events[op] if event < 0}
                self._items.append((OP, op))
            elif entry.kind == PACK:
                self._pack(self._pack_of[entry.index], self._storage(entry.storage))
            elif entry.kind == RELEASE and entry.index in self._pack_of:
                self._release(self._pack_of[entry.index])
            elif entry.kind in (ENTER, LEAVE):
                self._positions.setdefault(entry.index, []).append(len(self._items))
                self._items.append((entry.kind, entry.index))

    def _rest(self, stretch: _Stretch) -> None:
        """Backward, optimizer and the like: the plain step's, but for what forwards made."""
        log = self._held.log
        for entry in stretch.entries:
            if isinstance(entry, int):
                self._later([entry])
            elif entry.kind == OP:
                self._later(log.events[log.ops[entry.index].begin : log.ops[entry.index].end])
            elif entry.kind == PACK:
                self._pack(entry.index, entry.storage)
            elif entry.kind in (UNPACK, FORGET):
                self._items.append((entry.kind, entry.index))
            elif entry.kind == RELEASE:
                self._release(entry.index)

    def _later(self, events: Sequence[int]) -> None:
        for event in events:
            storage = abs(event) - 1
            if storage not in self._from_forward:
                self._fix([event])
            elif storage not in self._dropped:
                # Held by more than what is saved: by Python, or by the graph itself.
                self._items.append((DIED, storage))

    def _fix(self, events: Sequence[int]) -> None:
        if not self._items or self._items[-1][0] != EVENTS:
            self._items.append((EVENTS, len(self._fixed)))
            self._fixed.append([])
        self._fixed[-1].extend(events)

    def _pack(self, index: int, storage: int) -> None:
        self._packed[index] = storage
        self._items.append((PACK, index))

    def _release(self, index: int) -> None:
        if index in self._packed and index not in self._released:
            self._released.add(index)
            if index in self._unseen:
                self._items.append((FORGET, index))
            self._items.append((RELEASE, index))

    def _event(self, event: int) -> int:
        storage = self._storage(abs(event) - 1)
        return storage + 1 if event > 0 else -(storage + 1)

    def _storage(self, storage: int) -> int:
        if storage == UNTRACKED:
            return UNTRACKED
        try:
            return self._storage_of[storage]
        except KeyError:
            raise CannotRearrangeError("a forward uses a tensor that another phase of the step makes") from None

    def _calls(self) -> dict[str, list[Call]]:
        calls: dict[str, list[Call]] = {}
        for index, (enter, leave) in sorted(self._positions.items()):
            call = self._unheld.calls[index]
            calls.setdefault(call.module, []).append(
                Call(
                    enter=enter,
                    leave=leave,
                    with_gradients=call.with_gradients,
                    given_cache=call.given_cache,
                    boundary=tuple(self._storage(storage) for storage in call.boundary),
                    handed_out=tuple(self._storage(storage) for storage in call.handed_out if storage != UNTRACKED),
                )
            )
        return calls


def _stretches(recording: Recording) -> Iterator[_Stretch]:
    """The step cut where its phases begin."""
    log = recording.log
    stretch, done = _Stretch(-1, []), 0
    for note in recording.notes:
        until = log.ops[note.index].begin if note.kind == OP else note.begin
        stretch.entries.extend(log.events[done:until])
        done = max(done, note.begin)
        if note.kind == PHASE:
            yield stretch
            stretch = _Stretch(note.index, [])
        else:
            stretch.entries.append(note)
    stretch.entries.extend(log.events[done:])
    yield stretch


def _notes(stretch: _Stretch, kind: str) -> list[Note]:
    return [entry for entry in stretch.entries if isinstance(entry, Note) and entry.kind == kind]


def _indices(stretch: _Stretch, kind: str) -> list[int]:
    return [note.index for note in _notes(stretch, kind)]


def _indices_of(recording: Recording, kind: str) -> set[int]:
    return {note.index for note in recording.notes if note.kind == kind}


def _persistent(held: Sequence[Storage], unheld: Sequence[Storage]) -> dict[int, int]:
    mine = [index for index, storage in enumerate(held) if storage.birth is None]
    theirs = [index for index, storage in enumerate(unheld) if storage.birth is None]
    if [(held[i].role, held[i].name) for i in mine] != [(unheld[i].role, unheld[i].name) for i in theirs]:
        raise CannotRearrangeError("two steps did not begin with the same tensors")
    return dict(zip(theirs, mine, strict=True))
