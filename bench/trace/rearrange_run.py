"""A script run under a placement, with holds counted for every storage (`bench.trace.rearrange` has the rules)."""

from __future__ import annotations

from contextlib import suppress

from bench.trace.log import PhaseMark
from bench.trace.rearrange_frames import Frame, Pass, Policy, World
from bench.trace.rearrange_reads import Reads, reads_of
from bench.trace.rearrange_regions import Entries, RegionCall
from bench.trace.rearrange_script import BORN, DIED, EVENTS, CannotRearrangeError, Script
from bench.trace.saved import ENTER, FORGET, OP, PACK, PHASE, RELEASE, UNPACK, UNTRACKED


class _EarlyStop(Exception):  # noqa: N818  # the replay has rebuilt all that is wanted
    pass


class Run:
    def __init__(
        self,
        script: Script,
        entries: Entries,
        *,
        rng_state_bytes: int,
        known_reads: dict[tuple[int, ...], Reads],
        hooks_take_nothing: bool,
    ) -> None:
        """
        Args:
            known_reads: of members' calls, by the items at which they are entered; it is filled.
            hooks_take_nothing: in replays, so that what they took in a first pass dies after its last use; else they
                hold it to the replay's end.
        """
        self._script = script
        self._entries = entries
        self._rng_state_bytes = rng_state_bytes
        self._known_reads = known_reads
        self._hooks_take_nothing = hooks_take_nothing
        self.has_escaped = False
        """Whether that made a difference to any storage's life."""
        self.events: list[int] = []
        self.sizes = [storage.size_bytes for storage in script.storages]
        self.begins: list[int | None] = [None] * len(script.items)
        """Of each item, events before it where the step itself comes to it; None where it was passed over."""
        self.phases: list[PhaseMark] = []
        self.replayed: list[int] = []
        self.num_replays = 0
        self.num_policy_ops = 0
        self._holds: list[int | None] = [None] * len(self.sizes)
        """Of each storage; None for one whose life depends on no placement."""
        for storage in script.from_forward:
            self._holds[storage] = 0
        self._frame_of: dict[int, Frame] = {}
        """Of each saved tensor that a region holds."""
        self._held: dict[int, int] = {}
        """Saved tensor → storage, where autograd holds it itself."""
        self._in_node: dict[int, int] = {}
        """Saved tensor → storage, while the backward node that asked for it uses it."""
        self._gone: set[int] = set()
        """Saved tensors that were let go of."""
        self._kept: set[int] = set()
        """Storages that a policy has kept."""
        self._num_saved = max(script.packed, default=-1) + 1

    def run(self) -> None:
        self._walk(0, len(self._script.items), Pass(World(own=None), None, False), 0)

    def _walk(self, position: int, end: int, surroundings: Pass, depth: int) -> None:
        """Runs items; the regions that begin at the first one are entered from the `depth`-th on."""
        items, entries, packed = self._script.items, self._entries, self._script.packed
        world = surroundings.world
        casts_before = world.reads.casts_before if world.reads is not None else {}
        while position < end:
            kind, index = items[position]
            if world.own is None:
                self.begins[position] = len(self.events)
            for op in casts_before.get(position, ()) if casts_before else ():
                self._cast(op, surroundings)
            if kind == OP:
                self._op(index, surroundings)
            elif kind == PACK:
                self._pack(index, packed[index], surroundings)
            elif kind == EVENTS:
                self.events.extend(self._script.fixed[index])
            elif kind == DIED:
                self._forgotten(index, world)
            elif kind == UNPACK:
                self._unpack(index)
            elif kind == FORGET:
                self._let_go(self._in_node.pop(index, UNTRACKED))
            elif kind == RELEASE:
                self._release(index, world)
            elif kind == ENTER:
                here = entries.get(position, ())
                if depth < len(here):
                    position = self._enter(position, depth, surroundings)
                    depth = 0
                    continue
            elif kind == BORN:
                self._born(index, world)
            elif kind == PHASE:
                mark = self._script.phases[index]
                self.phases.append(PhaseMark(phase=mark.phase, micro_batch=mark.micro_batch, begin=len(self.events)))
            depth = 0
            position += 1

    # Regions

    def _enter(self, position: int, depth: int, surroundings: Pass) -> int:
        """Returns the item to go on with."""
        entry = self._entries[position][depth]
        call = entry.call
        if entry.member == 0:
            self._first_pass(call, depth, surroundings)
        if entry.member == len(call.members) - 1:
            for storage in surroundings.world.spans.pop(call, ()):
                self._let_go(storage)
        return call.members[entry.member].leave + 1

    def _first_pass(self, call: RegionCall, depth: int, surroundings: Pass) -> None:
        region, world = call.region, surroundings.world
        frame = Frame(call=call)
        if world.own is not None:
            world.frames.append(frame)
        if self._keeps_rng(frame):
            frame.resources.append(self._new(self._rng_state_bytes))
        for storage in call.boundary:
            self._save_input(frame, storage, surroundings)
        policies = surroundings.policies
        if region.keeps:
            policies += (Policy(frame, is_replay=False),)
        self._members(call, Pass(world, frame, False, policies))
        frame.is_open = False
        if not frame.num_alive:
            self._free(frame)

    def _members(self, call: RegionCall, surroundings: Pass) -> None:
        is_span = len(call.members) > 1
        world = surroundings.world
        for member in call.members:
            around = [entry.call for entry in self._entries[member.enter]].index(call)
            self._walk(member.enter, member.leave, surroundings, around + 1)
            if is_span:
                waiting = world.spans.setdefault(call, [])
                for storage in dict.fromkeys(member.handed_out):
                    stands = storage if world.own is None else world.own.get(storage)
                    if stands is not None and self._holds[stands]:
                        self._hold(stands)
                        waiting.append(stands)

    def _save_input(self, frame: Frame, storage: int, surroundings: Pass) -> None:
        outer = surroundings.frame
        if outer is None:
            frame.inputs.append(storage)
            if storage != UNTRACKED:
                self._hold(storage)
                frame.resources.append(storage)
            return
        if surroundings.rebuilds or surroundings.world.own is not None:
            self._pack(UNTRACKED, storage, surroundings)
            return
        saved = self._num_saved
        self._num_saved += 1
        frame.outer = outer
        frame.inputs.append(saved)
        self._pack(saved, storage, surroundings)

    def _replay(self, frame: Frame) -> None:
        frame.is_replayed = True
        self.num_replays += 1
        inputs, taken = frame.inputs, []
        if frame.outer is not None:
            if not frame.outer.is_replayed:
                self._replay(frame.outer)
            inputs = [frame.outer.rebuilt.pop(saved) for saved in frame.inputs]
            taken = inputs
        if self._keeps_rng(frame):
            taken = [*taken, self._new(self._rng_state_bytes)]  # the generator's own, to be put back
        own = dict(zip(frame.call.boundary, inputs, strict=True))
        world = World(own=own, reads=self._reads(frame.call))
        policies = (Policy(frame, is_replay=True),) if frame.call.region.keeps else ()
        with suppress(_EarlyStop):
            self._members(frame.call, Pass(world, frame, True, policies))
        if frame.num_rebuilt != len(frame.saved):
            raise CannotRearrangeError(f"{frame.call.region} would not save the same tensors again")
        for storage in world.python:
            self._let_go(own[storage])
        for inner in world.frames:
            self._free(inner)
        for storages in (*world.spans.values(), world.graph.values(), taken):
            for storage in storages:
                self._let_go(storage)

    def _keeps_rng(self, frame: Frame) -> bool:
        return frame.call.region.options.preserve_rng and self._rng_state_bytes > 0

    def _reads(self, call: RegionCall) -> Reads:
        key = tuple(member.enter for member in call.members)
        if key not in self._known_reads:
            self._known_reads[key] = reads_of(self._script, call)
        return self._known_reads[key]

    def _free(self, frame: Frame) -> None:
        for storage in frame.resources:
            self._let_go(storage)
        frame.resources.clear()
        for results in frame.cache.values():
            for _, storage in results:
                self._let_go(storage)
        frame.cache.clear()
        if frame.outer is not None:
            for saved in frame.inputs:
                self._release(saved, None)
            frame.outer = None

    # Saved tensors

    def _pack(self, index: int, storage: int, surroundings: Pass) -> None:
        frame, world = surroundings.frame, surroundings.world
        stands = storage
        if world.own is not None and storage != UNTRACKED:
            stands = self._found(storage, world)
        if frame is None:
            if stands != UNTRACKED:
                self._held[index] = stands
                self._hold(stands)
        elif surroundings.rebuilds:
            self._rebuild(frame, index, stands, world)
        elif world.own is None:
            self._frame_of[index] = frame
            frame.saved.append(index)
            frame.num_alive += 1
        else:
            frame.num_alive += 1

    def _rebuild(self, frame: Frame, index: int, stands: int, world: World) -> None:
        if frame.num_rebuilt == len(frame.saved):
            raise CannotRearrangeError(f"{frame.call.region} would save more tensors in its replay")
        wanted = frame.saved[frame.num_rebuilt]
        frame.num_rebuilt += 1
        if stands != UNTRACKED:
            self._hold(stands)
        if wanted not in self._gone:
            frame.rebuilt[wanted] = stands
        elif stands != UNTRACKED:
            world.graph[wanted] = stands
        if frame.call.region.options.early_stop and frame.num_rebuilt == len(frame.saved):
            raise _EarlyStop

    def _unpack(self, index: int) -> None:
        """A backward node takes a saved tensor; a region then holds it no more, but the node itself."""
        frame = self._frame_of.get(index)
        if frame is None:
            storage = self._held.get(index, UNTRACKED)
            if storage != UNTRACKED:
                self._hold(storage)
        else:
            if not frame.is_replayed:
                self._replay(frame)
            storage = frame.rebuilt.pop(index)
        self._in_node[index] = storage

    def _release(self, index: int, world: World | None) -> None:
        """Autograd lets go of a saved tensor."""
        if world is not None and world.own is not None:
            self._let_go(world.graph.pop(index, UNTRACKED))
            return
        self._gone.add(index)
        frame = self._frame_of.get(index)
        if frame is None:
            self._let_go(self._held.pop(index, UNTRACKED))
            return
        self._let_go(frame.rebuilt.pop(index, UNTRACKED))
        frame.num_alive -= 1
        if not frame.num_alive and not frame.is_open:
            self._free(frame)

    # Ops and what they make

    def _op(self, index: int, surroundings: Pass) -> None:
        world = surroundings.world
        if world.reads is not None:
            if world.reads.captured:
                for storage in self._script.ops[index].reads:
                    self._found(storage, world)
            if world.reads.escaped_after:
                self._escape(index, world, world.reads)
        caching: list[tuple[Policy, tuple[str, int]]] = []
        if surroundings.policies:
            name = self._script.ops[index].name.rpartition("::")[2]
            for policy in reversed(surroundings.policies):
                call = policy.kept_call(name)
                if call is None:
                    continue
                if policy.is_replay:
                    self._from_cache(policy.frame.cache.pop(call), world)
                    break
                caching.append((policy, call))
            else:
                self.num_policy_ops += len(surroundings.policies)
                self._run_op(index, world)
        else:
            self._run_op(index, world)
        for policy, call in caching:
            kept = [(storage, self._found(storage, world)) for storage in self._script.ops[index].writes]
            for _, storage in kept:
                self._hold(storage)
            policy.frame.cache[call] = kept
            self._kept.update(storage for _, storage in kept)

    def _cast(self, op: int, surroundings: Pass) -> None:
        world = surroundings.world
        assert world.own is not None, "outside replays the cast is an item of its own"
        if any(policy.is_replay for policy in surroundings.policies):
            # torch.utils.checkpoint finds no trace of the op in the first pass and gives up.
            raise CannotRearrangeError("a replay with a policy casts weights that its first pass found cast")
        if not any(storage in world.own for storage in self._script.ops[op].writes):
            self._run_op(op, world)

    def _escape(self, op: int, world: World, reads: Reads) -> None:
        self.has_escaped = True
        if self._hooks_take_nothing:
            for storage in world.escaped:
                self._forgotten(storage, world)
            world.escaped = reads.escaped_after.get(op, ())

    def _run_op(self, index: int, world: World) -> None:
        if world.own is not None:
            self.replayed.append(index)
        elif self._kept:
            made = {event - 1 for event in self._script.op_events[index]}
            if any(storage in self._kept and storage not in made for storage in self._script.ops[index].writes):
                raise CannotRearrangeError("what a policy keeps is changed in place, which its replay would notice")
        for event in self._script.op_events[index]:
            if event > 0:
                self._born(event - 1, world)
            else:
                self._forgotten(-event - 1, world)

    def _from_cache(self, results: list[tuple[int, int]], world: World) -> None:
        assert world.own is not None, "only a replay takes what was kept"
        for storage, kept in results:
            world.own[storage] = kept
            world.python.add(storage)

    def _born(self, storage: int, world: World) -> None:
        world.python.add(storage)
        if world.own is None:
            self._holds[storage] = 1
            self.events.append(storage + 1)
        else:
            world.own[storage] = self._new(self.sizes[storage])

    def _forgotten(self, storage: int, world: World) -> None:
        """Python lets go of it."""
        if storage in world.python:
            world.python.remove(storage)
            self._let_go(storage if world.own is None else world.own[storage])

    def _found(self, storage: int, world: World) -> int:
        """The storage that stands for one of the script's in a world."""
        if world.own is None:
            return storage
        stands = world.own.get(storage)
        if stands is not None:
            return stands
        holds = self._holds[storage]
        if holds is None:
            return storage
        if not holds:
            maker = self._script.ops[self._script.storages[storage].op].name
            raise CannotRearrangeError(
                f"a replay reads a {maker} made outside its region, which is not given to it and gone by then"
            )
        return storage

    # Holds

    def _new(self, size_bytes: int) -> int:
        storage = len(self.sizes)
        self.sizes.append(size_bytes)
        self._holds.append(1)
        self.events.append(storage + 1)
        return storage

    def _hold(self, storage: int) -> None:
        holds = self._holds[storage]
        if holds is not None:
            self._holds[storage] = holds + 1

    def _let_go(self, storage: int) -> None:
        if storage == UNTRACKED:
            return
        holds = self._holds[storage]
        if holds is None:
            return
        self._holds[storage] = holds - 1
        if holds == 1:
            self.events.append(-(storage + 1))
