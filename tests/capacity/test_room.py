"""What a probe's process may take of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.spec import DeviceSpec
from bench.study.capacity_room import KEPT_FREE_BYTES, LIBRARY_BYTES, SLACK_BYTES, free_bytes, room_for
from tests.builders import make_controls

MIB, GIB = 2**20, 2**30
CPU = make_controls()


def machine(root: Path, available: int, limit: int | None = None, used: int = 0, cached: int = 0) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {available // 1024} kB\n")
    if limit is not None:
        (root / "proc/self/cgroup").write_text("0::/job\n")
        folder = root / "sys/fs/cgroup/job"
        folder.mkdir(parents=True)
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")
    return root


def test_free_is_what_is_available_and_what_the_cgroup_leaves(tmp_path: Path) -> None:
    assert free_bytes(machine(tmp_path / "a", 8 * GIB)) == 8 * GIB
    assert free_bytes(machine(tmp_path / "b", 8 * GIB, limit=4 * GIB, used=3 * GIB, cached=GIB)) == 2 * GIB
    assert free_bytes(tmp_path / "nothing") is None


def test_on_the_cpu_the_process_gets_more_than_the_limit(tmp_path: Path) -> None:
    room = room_for(CPU, 4 * GIB, 4 * GIB, machine(tmp_path, 64 * GIB))
    assert (room.bound_bytes, room.is_cut, room.refused) == (12 * GIB, False, "")
    assert room_for(CPU, 100 * MIB, None, tmp_path).bound_bytes == 100 * MIB + SLACK_BYTES


def test_a_process_that_gets_less_than_it_should_is_marked(tmp_path: Path) -> None:
    room = room_for(CPU, 4 * GIB, 3 * GIB, machine(tmp_path, 5 * GIB))
    assert (room.bound_bytes, room.is_cut) == (5 * GIB - KEPT_FREE_BYTES - LIBRARY_BYTES, True)


@pytest.mark.parametrize("forecast", [5 * GIB, None])
def test_what_the_machine_has_no_room_for_is_not_started(tmp_path: Path, forecast: int | None) -> None:
    root = machine(tmp_path, 5 * GIB if forecast else 600 * MIB)
    assert "to spare for it" in room_for(CPU, 4 * GIB, forecast, root).refused


def test_on_a_gpu_the_allocator_is_held_to_the_limit_itself() -> None:
    gpu = make_controls(device=DeviceSpec(kind="cuda"))
    assert room_for(gpu, 4 * GIB, 99 * GIB).bound_bytes == 4 * GIB
