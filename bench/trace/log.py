"""The log of one training step: what ran, which blocks of memory it made, and when each came and went.

Plain data without torch, so that it can be read, explained and drawn where there is none. Time is counted in events:
every allocation and every release is one, in the order in which they happened.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from bench.spec.roles import BUFFER, GRADIENT, INPUT, OPTIMIZER_STATE, PARAMETER, SCALER

SCHEMA_VERSION = 1
NOWHERE = -1
"""Index that points at nothing: no op, no pass, no source line."""

LIBRARY, REMAINDER = "library", "remainder"
ROLES = (PARAMETER, BUFFER, GRADIENT, OPTIMIZER_STATE, INPUT, SCALER, LIBRARY, REMAINDER)
"""What a block is to the step, where its bytes alone do not say. `library`: kept by cuBLAS and the like. A `remainder`
is older than the step and nothing that the harness knows of, such as a tensor that a module holds to its next call."""

FIRST, REPLAY = "first", "replay"
Kind = str


@dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """One operator that allocated, computed or wrote; views are left out."""

    name: str
    """As dispatched below autograd, without namespace `aten`: `addmm`, `native_layer_norm_backward`."""
    module: str
    """Qualified name of the innermost module whose forward ran it; of a backward op, of the forward op it belongs to.
    Empty outside every module."""
    phase: str
    """`forward`, `backward`, `optimizer`, `zero_grad`; a replay's ops are in `backward`."""
    micro_batch: int
    region_pass: int
    """Innermost pass of a region that it ran in, an index into `StepLog.passes`, or NOWHERE."""
    source: int
    """Source line outside torch that called it (of a backward op, that called its forward op): an index into
    `StepLog.sources`, or NOWHERE."""
    forward_op: int
    """Of a backward op, the op whose gradient it computes, or NOWHERE."""
    flops: int | None
    """None where no formula is known."""
    moved_bytes: int
    """Read and written: all tensors taken in and handed out, each once."""
    reads: tuple[int, ...]
    """Storages of its arguments."""
    writes: tuple[int, ...]
    """Storages of its results, those that it changed in place included."""
    begin: int
    """Events before it began."""
    end: int
    """Events when it had ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """One block of memory; views and tensors that share it are this one block."""

    size_bytes: int
    """As the allocator counts it."""
    role: str | None
    """One of ROLES, or None: made by the step."""
    name: str
    """Of a parameter, buffer or state tensor; empty otherwise."""
    shape: tuple[int, ...] | None
    """Of the first tensor seen on it; None for memory that only a kernel saw."""
    dtype: str | None
    """`float32`, `int64` …"""
    op: int
    """That was running as it was allocated, or NOWHERE."""
    birth: int | None
    """Its allocation among the events; None where it was there before the step."""
    death: int | None
    """Its release; None where it outlives the step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionPass:
    """One pass through one region of the placement."""

    region: str
    """Text form."""
    call: int
    """Which call of the region in the step, from 0: a unit called twice, or a second micro-batch."""
    kind: Kind
    """`first` or `replay`."""
    around: int
    """The pass that it ran in, or NOWHERE."""
    begin: int
    """Events before it began."""
    end: int
    boundary: tuple[int, ...]
    """Storages of the tensors that it was given."""
    handed_out: tuple[int, ...]
    """Storages of the tensors that it returned; empty where it stopped early."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseMark:
    phase: str
    micro_batch: int
    begin: int
    """Events before it began."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepLog:
    model: str
    placement: str
    device: str
    """Where it ran, or the target that it was forecast for."""
    is_fake: bool
    """Whether it ran on tensors without memory, so that kernels and allocator are predicted and not seen."""
    ops: tuple[Op, ...]
    storages: tuple[Storage, ...]
    passes: tuple[RegionPass, ...]
    phases: tuple[PhaseMark, ...]
    sources: tuple[str, ...]
    """`transformers/models/gpt2/modeling_gpt2.py:251 forward`."""
    events: tuple[int, ...]
    """Storage s allocated: s + 1; released: -(s + 1)."""

    @property
    def persistent_bytes(self) -> int:
        """Alive before the step."""
        return sum(s.size_bytes for s in self.storages if s.birth is None)

    def timeline(self) -> list[int]:
        """Allocated bytes, the persistent state included, before any event and after each; shape (events + 1,)."""
        total = self.persistent_bytes
        line = [total]
        for event in self.events:
            total += self.storages[event - 1].size_bytes if event > 0 else -self.storages[-event - 1].size_bytes
            line.append(total)
        return line

    def peak(self) -> tuple[int, int]:
        """(bytes, events) of the high-water mark: the first moment at which most is allocated."""
        line = self.timeline()
        most = max(line)
        return most, line.index(most)

    def alive_at(self, events: int) -> list[int]:
        """Storages allocated once `events` events have happened."""
        return [
            index
            for index, s in enumerate(self.storages)
            if (s.birth is None or s.birth < events) and (s.death is None or s.death >= events)
        ]

    def op_at(self, events: int) -> int:
        """The op that was running, or had last run, once `events` events have happened; NOWHERE before the first."""
        low, high = 0, len(self.ops)
        while low < high:
            middle = (low + high) // 2
            if self.ops[middle].begin < events:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def phase_at(self, events: int) -> PhaseMark:
        """The phase that the last of `events` events happened in."""
        begun = [mark for mark in self.phases if mark.begin < events] or list(self.phases[:1])
        return begun[-1]


def write_log(path: Path, log: StepLog) -> None:
    """As gzipped JSON, one list a field; the file is whole or is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with gzip.GzipFile(partial, "wb", mtime=0) as file:
        file.write(json.dumps(_packed(log), separators=(",", ":")).encode())
    partial.replace(path)


def read_log(path: Path) -> StepLog:
    """Raises ValueError for a file that is no log, or of another version."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            packed = json.load(file)
        version = packed["schema_version"]
        if version == SCHEMA_VERSION:
            return _unpacked(packed)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: no step log ({error!r})") from None
    raise ValueError(f"{path}: version {version} of the step log, expected {SCHEMA_VERSION}; record it again")


_ROWS: Mapping[str, type] = {"ops": Op, "storages": Storage, "passes": RegionPass, "phases": PhaseMark}
_TUPLES = frozenset({"reads", "writes", "shape", "boundary", "handed_out"})


def _packed(log: StepLog) -> dict[str, Any]:
    packed: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    for field in fields(StepLog):
        value = getattr(log, field.name)
        row = _ROWS.get(field.name)
        packed[field.name] = (
            value if row is None else {column.name: [getattr(r, column.name) for r in value] for column in fields(row)}
        )
    return packed


def _unpacked(packed: Mapping[str, Any]) -> StepLog:
    values: dict[str, Any] = {}
    for field in fields(StepLog):
        value = packed[field.name]
        row = _ROWS.get(field.name)
        if row is not None:
            value = tuple(row(**columns) for columns in _rows(value))
        elif isinstance(value, list):
            value = tuple(value)
        values[field.name] = value
    return StepLog(**values)


def _rows(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    names = list(columns)
    for values in zip(*columns.values(), strict=True):
        yield {
            name: tuple(value) if name in _TUPLES and value is not None else value
            for name, value in zip(names, values, strict=True)
        }
