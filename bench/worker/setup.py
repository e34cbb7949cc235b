"""Settings of the worker's process: its life, its device, threads, garbage collection, memory bound."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys

import torch

from bench.device import DeviceBusyError, DeviceLock, Holder, acquire_device, device_identity, holder_text
from bench.measure import limit_memory
from bench.spec import Controls, SpecError, device_variables, uncontrolled

PARENT_VARIABLE = "BENCH_PARENT_PID"
"""Set by a parent that supervises the worker; then the worker dies with it instead of measuring on unseen."""
PR_SET_PDEATHSIG = 1

_held: list[DeviceLock] = []
"""What this process holds to its end."""


def die_with_parent() -> None:
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before the call above
        os.kill(os.getpid(), signal.SIGKILL)


def set_up_process(controls: Controls) -> torch.device:
    """Threads, allocator bound and device as the controls say, and the lock on the device; returns the device.

    Raises:
        SpecError: the device is not there or stays busy, or allocator or OpenMP settings differ from this process's.
    """
    device = torch_device(controls)
    _hold_device(controls)
    for name, value in device_variables(controls.device).items():
        if os.environ.get(name) != value:
            raise SpecError(f"device: start the worker with {name}={value} in its environment")
    for name, value in uncontrolled(controls.device, os.environ).items():
        raise SpecError(f"device: {name}={value} is set, but is no control of this study; unset it for the worker")
    torch.set_num_threads(controls.device.threads)
    if controls.device.memory_limit_bytes is not None:
        limit_memory(controls.device.memory_limit_bytes, device)
    gc.disable()  # collected between samples instead, never inside one
    return device


def _hold_device(controls: Controls) -> None:
    """A parent that supervises the worker holds the device already; a worker run by hand holds it itself."""
    if PARENT_VARIABLE in os.environ:
        return

    def tell(holder: Holder | None) -> None:
        print(f"bench.worker: waiting for the device: {holder_text(holder)} is measuring on it", file=sys.stderr)

    spec, facts = controls.device, controls.facts
    identity = device_identity(spec.kind, spec.index, facts.device_name if facts else None)
    try:
        lock = acquire_device(identity, controls.model.name, tell)
    except (DeviceBusyError, ValueError) as error:
        raise SpecError(str(error)) from None
    if lock.problem:
        print(f"bench.worker: {lock.problem}", file=sys.stderr)
    _held.append(lock)


def torch_device(controls: Controls) -> torch.device:
    """Raises SpecError where the device asked for is not there."""
    cores = len(os.sched_getaffinity(0))
    if controls.device.threads > cores:
        raise SpecError(f"device.threads: {controls.device.threads}, but this process may use {cores} cores")
    if controls.device.kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SpecError("device.kind: no CUDA device can be used here; say device=cpu")
    if controls.device.index >= torch.cuda.device_count():
        raise SpecError(
            f"device.index: {controls.device.index}, but there are {torch.cuda.device_count()} CUDA devices"
        )
    torch.cuda.set_device(controls.device.index)
    return torch.device("cuda", controls.device.index)
