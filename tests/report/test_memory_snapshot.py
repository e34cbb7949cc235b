"""The snapshot for PyTorch's memory viewer, read as its own tools read it."""

from __future__ import annotations

import itertools
import pickle
import pickletools
from pathlib import Path
from typing import Any

from hypothesis import given
from torch.cuda import _memory_viz

from bench.report.memory_snapshot import memory_snapshot, write_memory_snapshot
from bench.trace.log import StepLog
from tests.report.memory_logs import logs, toy_log

VIEWER_OPCODES = {
    "PROTO", "APPEND", "APPENDS", "LIST", "TUPLE", "NEWFALSE", "NEWTRUE", "NONE", "BINGET", "BININT", "BININT1",
    "BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME", "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT",
    "SETITEMS", "SETITEM", "DICT", "SHORT_BINUNICODE", "BINUNICODE", "STOP", "EMPTY_TUPLE", "TUPLE1", "TUPLE2",
    "TUPLE3", "BINFLOAT",
}  # fmt: skip
"""That `unpickle` of torch/utils/viz/MemoryViz.js knows; it fails at any other."""


def totals_of(snapshot: dict[str, Any]) -> list[int]:
    """Allocated bytes after each allocation and release, as the viewer adds them up."""
    total, line = 0, []
    for entry in snapshot["device_traces"][0]:
        if entry["action"] in ("alloc", "free_completed"):
            total += entry["size"] if entry["action"] == "alloc" else -entry["size"]
            line.append(total)
    return line


@given(logs())
def test_the_trace_is_the_timeline_after_what_was_there_before(log: StepLog) -> None:
    line = totals_of(memory_snapshot(log))
    num_before = len(line) - len(log.events)
    before = [0, *line[:num_before]]
    assert before[-1] == log.persistent_bytes
    assert [before[-1], *line[num_before:]] == log.timeline()


def test_what_is_left_is_in_segments_and_pytorchs_own_summary_agrees() -> None:
    log = toy_log()
    snapshot = memory_snapshot(log)
    left = log.timeline()[-1]
    assert sum(block["size"] for segment in snapshot["segments"] for block in segment["blocks"]) == left
    said = _memory_viz.segsum(snapshot)  # raises where sizes do not add up
    assert f"total_allocated: {_memory_viz.Bytes(left)}" in said
    assert f"segments: {len(snapshot['segments'])}" in said


def test_pytorch_reads_the_trace_and_finds_every_block() -> None:
    said = _memory_viz.trace(memory_snapshot(toy_log(replayed=True)))
    assert "MEM[" not in said  # a block outside every segment
    assert "cudaMalloc" in said
    assert "snapshot.pickle" in _memory_viz.trace_plot(memory_snapshot(toy_log()))


@given(logs())
def test_no_two_blocks_ever_share_an_address(log: StepLog) -> None:
    entries = memory_snapshot(log)["device_traces"][0]
    spans = sorted((e["addr"], e["addr"] + e["size"]) for e in entries if e["action"] == "alloc")
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_every_release_names_a_block_that_was_allocated_in_a_segment() -> None:
    state: dict[int, str] = {}
    for entry in memory_snapshot(toy_log(replayed=True))["device_traces"][0]:
        before = {
            "segment_alloc": None, "alloc": "segment_alloc", "free_requested": "alloc",
            "free_completed": "free_requested", "segment_free": "free_completed",
        }  # fmt: skip
        if entry["action"] != "snapshot":
            assert state.get(entry["addr"]) == before[entry["action"]]
            state[entry["addr"]] = entry["action"]


def test_frames_tell_op_source_module_region_phase_and_tensor() -> None:
    log = toy_log(replayed=True)
    entries = memory_snapshot(log)["device_traces"][0]
    replayed = [
        entry
        for entry in entries
        if entry["action"] == "alloc" and any("replay" in frame["filename"] for frame in entry["frames"])
    ]
    assert len(replayed) == 2
    assert [(f["filename"], f["line"], f["name"]) for f in replayed[0]["frames"]] == [
        ("op", 11 - 2, "addmm"),
        ("toy/model.py", 12, "forward"),
        ("module", 0, "h.1.mlp"),
        ("replay pass of region", 0, "h.1"),
        ("phase", 0, "backward"),
        ("tensor", log.ops[9].writes[0], "saved activations float32 [51200]"),
    ]


def test_categories_are_told_and_the_one_that_the_viewer_needs_is_there() -> None:
    categories = {entry["category"] for entry in memory_snapshot(toy_log())["device_traces"][0] if "category" in entry}
    assert {"parameters", "saved activations", "gradients", "unknown"} <= categories


def test_the_file_is_what_the_viewer_can_unpickle(tmp_path: Path) -> None:
    written = write_memory_snapshot(tmp_path / "memory.snapshot.pickle", toy_log()).read_bytes()
    assert {opcode.name for opcode, _, _ in pickletools.genops(written)} <= VIEWER_OPCODES
    assert written[1] in (2, 3, 4)
    assert pickle.loads(written) == memory_snapshot(toy_log())
