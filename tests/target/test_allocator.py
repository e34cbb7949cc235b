"""The simulated caching allocator against sequences worked out by hand from its rules, and what must hold of any."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from bench.target.allocator import MIB, Block, CachingAllocator, Heap, rounded
from bench.trace.peaks import Allocator, ExactAllocator

KIB = 2**10


def free_blocks(heap: Heap) -> list[tuple[int, int]]:
    """(address, size), by address."""
    return [(block.address, block.size) for block in blocks(heap) if block.is_free]


def blocks(heap: Heap) -> list[Block]:
    found = []
    for first in heap.segments:
        block: Block | None = first
        while block is not None:
            found.append(block)
            block = block.after
    return found


def test_sizes_are_rounded_up_to_512_bytes() -> None:
    assert [rounded(size) for size in (1, 512, 513, 1024)] == [512, 512, 1024, 1024]


def test_a_scalar_takes_a_small_segment_of_2_mib() -> None:
    heap = Heap()
    heap.allocate(4)
    assert (heap.requested, heap.allocated, heap.reserved) == (4, 512, 2 * MIB)
    assert free_blocks(heap) == [(512, 2 * MIB - 512)]


def test_small_blocks_share_a_segment_until_it_is_full() -> None:
    heap = Heap()
    for _ in range(4):
        heap.allocate(512 * KIB)
    assert heap.reserved == 2 * MIB
    heap.allocate(1)
    assert heap.reserved == 4 * MIB


def test_one_byte_more_than_1_mib_is_large() -> None:
    heap = Heap()
    heap.allocate(MIB)
    assert heap.reserved == 2 * MIB
    heap.allocate(MIB + 1)
    assert heap.reserved == 22 * MIB


def test_a_block_of_10_mib_gets_its_own_segment_rounded_up_to_2_mib() -> None:
    heap = Heap()
    heap.allocate(10 * MIB)
    assert heap.reserved == 10 * MIB
    heap.allocate(11 * MIB)
    assert heap.reserved == 22 * MIB


def test_what_is_left_of_a_large_block_counts_as_allocated_up_to_1_mib() -> None:
    heap = Heap()
    heap.allocate(11 * MIB)  # a segment of 12 MiB: 1 MiB is left, not more
    assert (heap.requested, heap.allocated) == (11 * MIB, 12 * MIB)
    assert free_blocks(heap) == []


def test_more_than_1_mib_left_is_split_off() -> None:
    heap = Heap()
    heap.allocate(11 * MIB - 512)
    assert heap.allocated == 11 * MIB - 512
    assert free_blocks(heap) == [(11 * MIB - 512, MIB + 512)]


def test_the_smallest_free_block_that_fits_is_taken() -> None:
    heap = Heap()
    wide, narrow = heap.allocate(40 * MIB), heap.allocate(20 * MIB)
    assert wide is not None
    assert narrow is not None
    heap.release(wide)
    heap.release(narrow)
    taken = heap.allocate(18 * MIB)
    assert taken is narrow
    assert heap.reserved == 60 * MIB


def test_of_equal_free_blocks_the_lowest_is_taken() -> None:
    heap = Heap()
    held = [heap.allocate(12 * MIB) for _ in range(3)]
    for block in reversed(held):
        assert block is not None
        heap.release(block)
    assert heap.allocate(12 * MIB) is held[0]


def test_free_neighbours_become_one_block_and_segments_never_do() -> None:
    heap = Heap()
    first, second, third = (heap.allocate(4 * MIB) for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert heap.reserved == 20 * MIB
    heap.release(first)
    heap.release(third)
    assert free_blocks(heap) == [(0, 4 * MIB), (8 * MIB, 12 * MIB)]
    heap.release(second)
    assert free_blocks(heap) == [(0, 20 * MIB)]
    heap.allocate(10 * MIB)
    heap.allocate(12 * MIB)
    assert heap.reserved == 32 * MIB


def test_fragmentation_makes_the_allocator_reserve_more_than_is_ever_allocated() -> None:
    """Two blocks of 8 MiB leave 4 MiB of a segment; with the first gone, 10 MiB fit in no hole."""
    sizes, events = [8 * MIB, 8 * MIB, 10 * MIB], [1, 2, -1, 3]
    found = CachingAllocator().simulated([], sizes, events)
    assert found.peaks.allocated_bytes == 18 * MIB
    assert found.reserved_bytes == 30 * MIB


def test_peaks_of_a_step_worked_out_by_hand() -> None:
    """Before the step 100 bytes and 3 MiB. Then 5 MiB join the 3 MiB in their segment, 200 bytes come, 5 MiB go."""
    sizes, events = [5 * MIB, 200, 7 * MIB], [1, 2, -1, 3]
    found = CachingAllocator().simulated([100, 3 * MIB], sizes, events)
    assert found.peaks.persistent_bytes == 512 + 3 * MIB
    assert found.peaks.allocated_bytes == 512 + 3 * MIB + 512 + 7 * MIB
    assert found.peaks.at_event == 4
    assert found.requested_bytes == 100 + 3 * MIB + 200 + 7 * MIB
    assert found.reserved_bytes == 2 * MIB + 20 * MIB
    assert found.block_bytes == (5 * MIB, 512, 7 * MIB)


def test_a_persistent_block_that_the_step_releases_makes_room() -> None:
    """As gradients do that `zero_grad` frees at the beginning of a step."""
    sizes, events = [12 * MIB, 12 * MIB], [-1, 2]
    found = CachingAllocator().simulated([12 * MIB], sizes, events)
    assert (found.peaks.allocated_bytes, found.reserved_bytes) == (12 * MIB, 12 * MIB)


def test_nothing_is_taken_for_an_empty_tensor() -> None:
    found = CachingAllocator().simulated([0], [0], [1, -1])
    assert (found.peaks.allocated_bytes, found.reserved_bytes, found.num_segments) == (0, 0, 0)


SIZES = st.one_of(st.integers(0, 4096), st.integers(0, 3 * MIB), st.integers(0, 60 * MIB))


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """(persistent, sizes, events) of a step that releases all that it allocates."""
    persistent = draw(st.lists(SIZES, max_size=4))
    sizes = draw(st.lists(SIZES, max_size=25))
    alive: list[int] = []
    events: list[int] = []
    for index in range(len(sizes)):
        alive.append(index)
        events.append(index + 1)
        while alive and draw(st.booleans()):
            events.append(-(alive.pop(draw(st.integers(0, len(alive) - 1))) + 1))
    events.extend(-(index + 1) for index in alive)
    return persistent, sizes, events


@given(steps())
@settings(max_examples=150, deadline=None)
def test_reserved_is_at_least_allocated_and_that_at_least_requested(
    step: tuple[list[int], list[int], list[int]],
) -> None:
    persistent, sizes, events = step
    found = CachingAllocator().simulated(persistent, sizes, events)
    exact: Allocator = ExactAllocator()
    assert found.requested_bytes == exact.peaks(persistent, sizes, events).allocated_bytes
    assert found.reserved_bytes >= found.peaks.allocated_bytes >= found.requested_bytes
    assert found.peaks.allocated_bytes >= found.peaks.persistent_bytes
    assert found.reserved_bytes % (2 * MIB) == 0


@given(steps())
@settings(max_examples=150, deadline=None)
def test_blocks_tile_their_segments_and_no_two_free_ones_touch(step: tuple[list[int], list[int], list[int]]) -> None:
    _, sizes, events = step
    heap, alive = Heap(), {}
    for event in events:
        if event > 0:
            alive[event] = heap.allocate(sizes[event - 1])
        else:
            block = alive.pop(-event)
            if block is not None:
                heap.release(block)
        for first in heap.segments:
            end, block = first.address, first
            while True:
                assert block.address == end
                end += block.size
                if block.after is None:
                    break
                assert not (block.is_free and block.after.is_free)
                assert block.after.before is block
                block = block.after
        assert sum(block.size for block in blocks(heap)) == heap.reserved
        assert sum(block.size for block in blocks(heap) if not block.is_free) == heap.allocated
    assert (heap.allocated, heap.requested) == (0, 0)
    assert len(free_blocks(heap)) == len(heap.segments)
