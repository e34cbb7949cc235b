"""CUDA's caching allocator, simulated: what it would report of the allocations and releases of a step.

After `DeviceCachingAllocator` in c10/cuda/CUDACachingAllocator.cpp, with its default settings, on one stream and with
memory enough: sizes are rounded up to 512 bytes; blocks of at most 1 MiB are cut from segments of 2 MiB, larger ones
from segments of 20 MiB or, from 10 MiB on, of their own size rounded up to 2 MiB; the smallest free block that fits is
taken, of equal ones the one at the lowest address; what is left of it becomes a free block, unless it is too small to
be worth it, and then counts as allocated; free neighbours in a segment become one. Segments are kept. Addresses are the
simulation's: where the driver puts a segment is not known, so ties between equal free blocks may fall otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.trace.log import LIBRARY, StepLog
from bench.trace.peaks import Peaks

MIB = 2**20
MIN_BLOCK_BYTES = 512
SMALL_BYTES = MIB
"""The largest block of the small pool, and what has to be left of a large block for it to be split."""
SMALL_SEGMENT_BYTES = 2 * MIB
LARGE_SEGMENT_BYTES = 20 * MIB
MIN_OWN_SEGMENT_BYTES = 10 * MIB
"""From this size on, a block that fits nowhere gets a segment of its own."""
SEGMENT_ROUNDING_BYTES = 2 * MIB


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What the allocator reports of one step."""

    peaks: Peaks
    requested_bytes: int
    """High-water mark of what was asked for, without rounding."""
    block_bytes: tuple[int, ...]
    """Of each storage, by its index, the block that it was given; 0 where it was given none."""
    num_segments: int
    """Held at the end."""

    @property
    def reserved_bytes(self) -> int:
        assert self.peaks.reserved_bytes is not None, "a caching allocator reserves"
        return self.peaks.reserved_bytes


class CachingAllocator:
    """Answers as `torch.cuda.memory_stats` would."""

    def __init__(self, library: Sequence[int] = ()) -> None:
        """`library`: bytes of blocks that cuBLAS and the like keep, and that no log needs to know of."""
        self._library = tuple(library)

    def peaks(self, persistent: Sequence[int], sizes: Sequence[int], events: Sequence[int]) -> Peaks:
        """See `bench.trace.peaks.Allocator`."""
        return self.simulated(persistent, sizes, events).peaks

    def simulated(self, persistent: Sequence[int], sizes: Sequence[int], events: Sequence[int]) -> Simulation:
        """Takes what `peaks` takes, and says more."""
        before: list[tuple[int | None, int]] = [(None, size) for size in self._library]
        before += zip(_storages(persistent, sizes, events), persistent, strict=True)
        return _run(before, sizes, events)


def simulate_log(log: StepLog) -> Simulation:
    """A recorded step, its persistent blocks allocated first: those of libraries, then the others in their order."""
    there = [index for index, s in enumerate(log.storages) if s.birth is None]
    there.sort(key=lambda index: log.storages[index].role != LIBRARY)
    before = [(index, log.storages[index].size_bytes) for index in there]
    return _run(before, [storage.size_bytes for storage in log.storages], log.events)


@dataclass(eq=False, slots=True)
class Block:
    address: int
    size: int
    requested: int
    is_small: bool
    is_free: bool = False
    before: Block | None = field(default=None, repr=False)
    """Its neighbour in the segment."""
    after: Block | None = field(default=None, repr=False)


class Heap:
    """Blocks and segments of one device, with running totals. Sizes are bytes."""

    def __init__(self) -> None:
        self.allocated = self.requested = self.reserved = 0
        self.peak_allocated = self.peak_requested = self.peak_reserved = 0
        self.segments: list[Block] = []
        """The first block of each segment."""
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        """(size, address) of free blocks of the small pool (True) and the large, in order."""
        self._at: dict[int, Block] = {}
        self._end = 0

    def allocate(self, requested: int) -> Block | None:
        """None where nothing is asked for."""
        if requested == 0:
            return None
        size = rounded(requested)
        is_small = size <= SMALL_BYTES
        block = self._fitting(size, is_small) or self._segment(size, is_small)
        left = block.size - size
        if left >= MIN_BLOCK_BYTES if is_small else left > SMALL_BYTES:
            self._split(block, size)
        block.is_free, block.requested = False, requested
        self.allocated += block.size
        self.requested += requested
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.peak_requested = max(self.peak_requested, self.requested)
        return block

    def release(self, block: Block) -> None:
        assert not block.is_free, "released twice"
        self.allocated -= block.size
        self.requested -= block.requested
        block.is_free, block.requested = True, 0
        if block.before is not None and block.before.is_free:
            self._unlist(block.before)
            block = self._joined(block.before, block)
        if block.after is not None and block.after.is_free:
            self._unlist(block.after)
            block = self._joined(block, block.after)
        self._list(block)

    def _fitting(self, size: int, is_small: bool) -> Block | None:
        free = self._free[is_small]
        position = bisect_left(free, (size, 0))
        if position == len(free):
            return None
        block = self._at[free[position][1]]
        del free[position]
        return block

    def _segment(self, size: int, is_small: bool) -> Block:
        if is_small:
            segment = SMALL_SEGMENT_BYTES
        elif size < MIN_OWN_SEGMENT_BYTES:
            segment = LARGE_SEGMENT_BYTES
        else:
            segment = -(-size // SEGMENT_ROUNDING_BYTES) * SEGMENT_ROUNDING_BYTES
        block = Block(address=self._end, size=segment, requested=0, is_small=is_small)
        self._end += segment
        self._at[block.address] = block
        self.segments.append(block)
        self.reserved += segment
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = Block(
            address=block.address + size,
            size=block.size - size,
            requested=0,
            is_small=block.is_small,
            is_free=True,
            before=block,
            after=block.after,
        )
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        self._at[rest.address] = rest
        self._list(rest)

    def _joined(self, block: Block, after: Block) -> Block:
        block.size += after.size
        block.after = after.after
        if after.after is not None:
            after.after.before = block
        del self._at[after.address]
        return block

    def _list(self, block: Block) -> None:
        insort(self._free[block.is_small], (block.size, block.address))

    def _unlist(self, block: Block) -> None:
        free = self._free[block.is_small]
        del free[bisect_left(free, (block.size, block.address))]


def rounded(size_bytes: int) -> int:
    """What a block of this size takes at least."""
    return max(-(-size_bytes // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES, MIN_BLOCK_BYTES)


def _storages(persistent: Sequence[int], sizes: Sequence[int], events: Sequence[int]) -> list[int | None]:
    """Which storage each persistent block is, as far as it matters: one that the step releases without having allocated
    it was there before, and is the first of its size."""
    found: list[int | None] = [None] * len(persistent)
    born: set[int] = set()
    for event in events:
        if event > 0:
            born.add(event - 1)
        elif -event - 1 not in born:
            index = -event - 1
            fits = (n for n, size in enumerate(persistent) if size == sizes[index] and found[n] is None)
            position = next(fits, None)
            if position is not None:
                found[position] = index
    return found


def _run(before: Sequence[tuple[int | None, int]], sizes: Sequence[int], events: Sequence[int]) -> Simulation:
    """`before`: (storage or None, bytes) of what is there before the step, in the order of allocation."""
    heap = Heap()
    blocks = [0] * len(sizes)
    alive: dict[int, Block] = {}

    def allocate(storage: int | None, size: int) -> None:
        block = heap.allocate(size)
        if block is not None and storage is not None:
            alive[storage] = block
            blocks[storage] = block.size

    for storage, size in before:
        allocate(storage, size)
    persistent_bytes, highest, at_event = heap.allocated, heap.allocated, 0
    for number, event in enumerate(events, start=1):
        if event > 0:
            allocate(event - 1, sizes[event - 1])
            if heap.allocated > highest:
                highest, at_event = heap.allocated, number
        else:
            block = alive.pop(-event - 1, None)
            if block is not None:
                heap.release(block)
    return Simulation(
        peaks=Peaks(
            allocated_bytes=highest,
            at_event=at_event,
            persistent_bytes=persistent_bytes,
            reserved_bytes=heap.peak_reserved,
        ),
        requested_bytes=heap.peak_requested,
        block_bytes=tuple(blocks),
        num_segments=len(heap.segments),
    )
