"""A study waits until no other measures on its device: their times and peaks would be each other's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.device import DeviceBusyError, Holder, acquire_device, device_identity, holder_text
from bench.spec import Controls, StudySpec
from bench.study.progress import Progress, Watch
from bench.study.supervise import WorkerError


@contextmanager
def device_lock(study: StudySpec, directory_name: str, watch: Watch) -> Iterator[str | None]:
    """Holds the study's device; while it waits, `watch` is told for whom. Yields why the device is not locked, or None
    where it is. Workers that this process starts do not lock it again.

    Raises:
        WorkerError: another study still holds it after `BENCH_LOCK_WAIT_S`, or that is not a number.
    """
    with hold_device(study.controls, directory_name, watch) as problem:
        yield problem


@contextmanager
def hold_device(controls: Controls, name: str, watch: Watch) -> Iterator[str | None]:
    """As `device_lock`, for work on the device that is no study; `name` is what those who wait are told."""
    device, facts = controls.device, controls.facts

    def tell(holder: Holder | None) -> None:
        message = f"waiting for the device: {holder_text(holder)} is measuring on it; Ctrl-C gives up"
        watch(Progress(done=0, total=0, label="waiting for the device", seconds_left=None, message=message))

    identity = device_identity(device.kind, device.index, facts.device_name if facts else None)
    try:
        lock = acquire_device(identity, name, tell)
    except (DeviceBusyError, ValueError) as error:
        raise WorkerError(str(error)) from None
    try:
        yield lock.problem
    finally:
        lock.release()
