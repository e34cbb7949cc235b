"""Variables that change a step are controls, or they do not reach a worker."""

from __future__ import annotations

import pytest

from bench.spec import DeviceSpec, uncontrolled
from bench.study.supervise import worker_environment
from tests.builders import make_controls

DEVICE = DeviceSpec(kind="cpu", allocator={"MALLOC_ARENA_MAX": "1"}, openmp={"GOMP_SPINCOUNT": 10000})


def test_what_the_controls_name_is_controlled() -> None:
    environment = {"MALLOC_ARENA_MAX": "1", "GOMP_SPINCOUNT": "10000", "OMP_NUM_THREADS": "2", "HOME": "/"}
    assert uncontrolled(DEVICE, environment) == {}


def test_what_they_do_not_name_is_told() -> None:
    environment = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "OMP_WAIT_POLICY": "PASSIVE"}
    assert uncontrolled(DEVICE, environment) == environment


def test_a_worker_gets_the_controls_and_nothing_else_that_changes_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    environment = worker_environment(make_controls(device=DEVICE))
    assert "MALLOC_TOP_PAD_" not in environment
    assert (environment["GOMP_SPINCOUNT"], environment["MALLOC_ARENA_MAX"]) == ("10000", "1")
