"""One measuring study a device: an advisory lock that all users of the machine share."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

DIRECTORY_VARIABLE = "BENCH_LOCK_DIR"
LIMIT_VARIABLE = "BENCH_LOCK_WAIT_S"
DIRECTORY = Path("/tmp/boundary-bench")
"""Not the temporary folder of `TMPDIR`, nor of the user's session: a lock must be where all others look."""
POLL_S = 0.5


class DeviceBusyError(RuntimeError):
    """Another study still held the device when the time to wait for it was over."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who holds a device, by its own word."""

    study: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class DeviceLock:
    """Held from `acquire_device` to `release`, or to the end of the process, however it ends."""

    descriptor: int | None
    problem: str | None = None
    """Why the device is not locked; None where it is."""

    def release(self) -> None:
        if self.descriptor is not None:
            os.ftruncate(self.descriptor, 0)
            os.close(self.descriptor)


def acquire_device(
    identity: str,
    study: str,
    on_wait: Callable[[Holder | None], None],
    *,
    limit_s: float | None = None,
    environment: Mapping[str, str] = os.environ,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> DeviceLock:
    """Waits until no other study holds the device, and holds it. Where no lock can be made, such as on a read-only
    file system, the device is used all the same, and the lock says so.

    Args:
        identity: of `device_identity`.
        study: name that others are told while they wait; no path.
        on_wait: called once for each holder that is waited for; None where the holder is not readable.
        limit_s: seconds to wait; None takes `BENCH_LOCK_WAIT_S`, and waits for ever where that is not set.

    Raises:
        DeviceBusyError: the limit is over.
        ValueError: `BENCH_LOCK_WAIT_S` is not a number of seconds.
    """
    limit_s = _limit_s(environment) if limit_s is None else limit_s
    directory = Path(environment.get(DIRECTORY_VARIABLE) or DIRECTORY)
    path = directory / f"{re.sub(r'[^A-Za-z0-9_.-]', '-', identity)}.lock"
    try:
        descriptor = _open(path)
    except OSError as error:
        return DeviceLock(descriptor=None, problem=f"the device is not locked: {path}: {error.strerror}")
    try:
        problem = _wait(descriptor, identity, on_wait, limit_s, sleep, now)
        if problem is None:
            _sign(descriptor, study)
    except BaseException:
        os.close(descriptor)
        raise
    if problem is not None:
        os.close(descriptor)
        return DeviceLock(descriptor=None, problem=f"the device is not locked: {path}: {problem}")
    return DeviceLock(descriptor=descriptor)


def _limit_s(environment: Mapping[str, str]) -> float | None:
    text = environment.get(LIMIT_VARIABLE)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{LIMIT_VARIABLE}: {text!r} is not a number of seconds; unset it to wait for ever") from None


def _open(path: Path) -> int:
    """Opens the lock file for everyone. `O_CREAT` is kept for a file that is not there: in a sticky directory the
    kernel refuses it for another user's file (`fs.protected_regular`)."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o1777)  # mkdir's own mode is cut by the umask
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:  # another study was faster
        return os.open(path, flags)
    os.fchmod(descriptor, 0o666)
    return descriptor


def _wait(
    descriptor: int,
    identity: str,
    on_wait: Callable[[Holder | None], None],
    limit_s: float | None,
    sleep: Callable[[float], None],
    now: Callable[[], float],
) -> str | None:
    """None when the lock is held, else why it cannot be."""
    began = now()
    told: list[Holder | None] = []
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            pass
        except OSError as error:  # a file system without locks
            return error.strerror
        holder = _holder(descriptor)
        if limit_s is not None and now() - began >= limit_s:
            raise DeviceBusyError(f"{identity}: {holder_text(holder)} still holds the device after {limit_s:g} s")
        if not told or holder != told[-1]:
            told.append(holder)
            on_wait(holder)
        sleep(POLL_S)


def holder_text(holder: Holder | None) -> str:
    return "another study" if holder is None else f"{holder.study} (process {holder.pid})"


def _sign(descriptor: int, study: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"study": study, "pid": os.getpid()}).encode(), 0)


def _holder(descriptor: int) -> Holder | None:
    """None where the holder has not signed yet."""
    try:
        data = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(study=str(data["study"]), pid=int(data["pid"]))
    except (ValueError, KeyError, TypeError):
        return None
