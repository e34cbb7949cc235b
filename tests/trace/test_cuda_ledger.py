"""Joining the CUDA allocator's history with a step. The entries are as torch.cuda.memory._snapshot documents them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.spec.roles import PARAMETER
from bench.trace.blocks import block
from bench.trace.cuda_ledger import active_blocks, blocks_of
from bench.trace.log import LIBRARY


def _entry(action: str, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": [], "time_us": 0}


HISTORY = [
    _entry("alloc", 0x900, 7),  # while the recording was set up
    _entry("free_requested", 0x900, 7),
    _entry("free_completed", 0x900, 7),
    _entry("snapshot", 0, 0),
    _entry("segment_alloc", 0x1000, 2**21),
    _entry("alloc", 0x1000, 100),
    _entry("alloc", 0x1200, 200),
    _entry("free_requested", 0x1000, 100),
    _entry("free_completed", 0x1000, 100),
    _entry("alloc", 0x1000, 300),
    _entry("free_requested", 0x1200, 200),
]
COUNTED = 40
"""Events that the allocator had counted at the first tick."""


def test_events_of_the_step_are_those_after_the_snapshot_that_change_what_is_allocated() -> None:
    blocks = blocks_of(HISTORY, [COUNTED, COUNTED + 2, COUNTED + 2, COUNTED + 5], [], [])
    assert blocks.events == [1, 2, -1, 3, -2]
    assert [storage.size_bytes for storage in blocks.storages()] == [100, 200, 300]
    assert blocks.before_tick == [0, 2, 2, 5]


def test_an_address_used_again_is_another_block() -> None:
    blocks = blocks_of(HISTORY, [COUNTED, COUNTED + 5], [], [])
    assert [blocks.owner(0x1000, events) for events in (0, 1, 2, 4, 5)] == [None, 0, 0, 2, 2]
    assert blocks.owner(0x1234, 5) is None


def test_what_was_there_before_is_known_by_its_address_or_kept_by_a_library() -> None:
    weight = block(64, role=PARAMETER, name="layer.weight")
    blocks = blocks_of(HISTORY, [COUNTED, COUNTED + 5], [(0x10, 64), (0x20, 32 * 2**20)], [(0x10, weight)])
    assert [(s.role, s.size_bytes, s.birth) for s in blocks.storages()[:2]] == [
        (PARAMETER, 64, None),
        (LIBRARY, 32 * 2**20, None),
    ]


def test_a_history_that_lost_events_is_refused() -> None:
    with pytest.raises(RuntimeError, match="counted 50 events in the step, its history has 5"):
        blocks_of(HISTORY, [COUNTED, COUNTED + 50], [], [])


def test_blocks_in_use_are_read_from_segments_by_requested_size() -> None:
    segments = [
        {
            "address": 0x1000,
            "device": 0,
            "blocks": [
                {"size": 512, "requested_size": 100, "state": "active_allocated"},
                {"size": 1024, "requested_size": 0, "state": "inactive"},
                {"size": 512, "requested_size": 500, "state": "active_allocated"},
            ],
        },
        {"address": 0x9000, "device": 1, "blocks": [{"size": 512, "state": "active_allocated"}]},
    ]
    assert list(active_blocks(segments, 0)) == [(0x1000, 100), (0x1600, 500)]
