"""Two studies never measure on one device at once."""

import gc
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.device import DeviceBusyError, Holder, NvmlUnavailableError, acquire_device, device_identity, find_gpu
from bench.device.identity import BOOT_ID
from bench.records import TimeSample, read_records
from bench.spec import SpecError, StudySpec
from bench.study import Progress, WorkerError, run_study
from bench.study.device_lock import device_lock
from bench.worker.setup import PARENT_VARIABLE, set_up_process
from tests.builders import make_controls
from tests.fake_nvml import FakeGpu, FakeNvml
from tests.toy_study import toy_study

HOLD = """
import sys
from bench.device import acquire_device
acquire_device(sys.argv[1], "other-study", lambda holder: None)
print("held", flush=True)
sys.stdin.read()
"""


class Waiter:
    """Simulated time; `when_it_sleeps` is what the world does meanwhile."""

    def __init__(self, when_it_sleeps: Any = lambda: None) -> None:
        self.told: list[Holder | None] = []
        self.slept: list[float] = []
        self._when_it_sleeps = when_it_sleeps

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._when_it_sleeps()

    def acquire(self, **options: Any) -> Any:
        return acquire_device(
            "cpu-1", "this-study", self.told.append, sleep=self.sleep, now=lambda: sum(self.slept), **options
        )


def hold_elsewhere(identity: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, identity], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_waiter_knows_whom_it_waits_for_and_goes_on_when_they_are_gone() -> None:
    other = hold_elsewhere("cpu-1")
    with other:
        waiter = Waiter(when_it_sleeps=lambda: (other.kill(), other.wait()))
        lock = waiter.acquire()
    assert waiter.told == [Holder(study="other-study", pid=other.pid)]
    assert waiter.slept == [0.5]
    assert lock.problem is None
    lock.release()


def test_other_devices_are_not_waited_for() -> None:
    waiter = Waiter()
    locks = [waiter.acquire(), acquire_device("cpu-2", "this-study", waiter.told.append)]
    assert waiter.told == []
    for lock in locks:
        lock.release()


def test_a_released_device_is_free_and_names_nobody(tmp_path: Path) -> None:
    Waiter().acquire().release()
    assert [path.read_text() for path in (tmp_path / "locks").iterdir()] == [""]
    Waiter().acquire(limit_s=0).release()


def test_a_limit_ends_the_wait_and_names_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Waiter().acquire()
    waiter = Waiter()
    message = rf"cpu-1: this-study \(process {os.getpid()}\) still holds the device after 2 s"
    with pytest.raises(DeviceBusyError, match=message):
        waiter.acquire(limit_s=2.0)
    assert waiter.slept == [0.5] * 4
    assert len(waiter.told) == 1
    monkeypatch.setenv("BENCH_LOCK_WAIT_S", "0")
    with pytest.raises(DeviceBusyError, match="after 0 s"):
        waiter.acquire()
    monkeypatch.setenv("BENCH_LOCK_WAIT_S", "soon")
    with pytest.raises(ValueError, match="BENCH_LOCK_WAIT_S: 'soon' is not a number of seconds"):
        waiter.acquire()
    lock.release()


def test_a_holder_that_has_not_signed_is_waited_for_all_the_same(tmp_path: Path) -> None:
    lock = Waiter().acquire()
    (path,) = (tmp_path / "locks").iterdir()
    path.write_text("{")
    waiter = Waiter(when_it_sleeps=lock.release)
    waiter.acquire().release()
    assert waiter.told == [None]


def test_locks_are_open_to_every_user(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        lock = Waiter().acquire()
    finally:
        os.umask(mask)
    (path,) = (tmp_path / "locks").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o1777
    lock.release()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "locks/cpu-1.lock").symlink_to(tmp_path / "precious")
    assert "the device is not locked" in (Waiter().acquire().problem or "")
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_lock_that_cannot_be_made_is_a_note(unlocked_study: tuple[StudySpec, Path]) -> None:
    directory = unlocked_study[1]
    assert len(read_records(directory).of(TimeSample)) == 3
    (note,) = [note for note in json.loads((directory / "telemetry.json").read_text())["notes"] if "locked" in note]
    assert note.startswith("the device is not locked: ")


def test_a_study_with_nothing_left_to_measure_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, unlocked_study: tuple[StudySpec, Path]
) -> None:
    study, directory = unlocked_study
    monkeypatch.setenv("BENCH_LOCK_WAIT_S", "0")
    with device_lock(study, "toy-1", lambda event: None):
        run_study(study, directory.parent, watch=lambda event: None)


def test_a_study_says_whom_it_waits_for() -> None:
    study = toy_study(("none",))
    other = hold_elsewhere(device_identity("cpu"))
    events: list[Progress] = []

    def watch(event: Progress) -> None:
        events.append(event)
        other.kill()

    with other, device_lock(study, "toy-1", watch) as problem:
        assert problem is None
    assert [event.message for event in events] == [
        f"waiting for the device: other-study (process {other.pid}) is measuring on it; Ctrl-C gives up"
    ]


def test_ctrl_c_ends_the_wait_and_leaves_the_device_to_its_holder() -> None:
    held = Waiter().acquire()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Waiter(when_it_sleeps=interrupt).acquire()
    held.release()
    Waiter().acquire(limit_s=0).release()


def test_a_study_that_may_not_wait_gives_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENCH_LOCK_WAIT_S", "0")
    with (
        device_lock(toy_study(("none",)), "toy-1", lambda event: None),
        pytest.raises(WorkerError, match=rf"toy-1 \(process {os.getpid()}\) still holds the device after 0 s"),
    ):
        run_study(toy_study(("none",)), tmp_path, watch=lambda event: None)


def test_a_worker_by_hand_takes_the_lock_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LOCK_WAIT_S", "0")
    monkeypatch.delenv(PARENT_VARIABLE, raising=False)
    with (
        device_lock(toy_study(("none",)), "toy-1", lambda event: None),
        pytest.raises(SpecError, match=r"toy-1 \(process \d+\) still holds the device after 0 s"),
    ):
        set_up_process(make_controls())


def test_a_worker_of_a_parent_leaves_the_lock_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LOCK_WAIT_S", "0")
    monkeypatch.setenv(PARENT_VARIABLE, str(os.getppid()))
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)  # no control of these
    threads = torch.get_num_threads()
    try:
        with device_lock(toy_study(("none",)), "toy-1", lambda event: None):
            assert set_up_process(make_controls()) == torch.device("cpu")
    finally:
        torch.set_num_threads(threads)
        gc.enable()


def test_a_machine_has_one_cpu_lock_a_boot(tmp_path: Path) -> None:
    assert device_identity("cpu") == device_identity("cpu", index=1)
    (tmp_path / BOOT_ID).parent.mkdir(parents=True)
    (tmp_path / BOOT_ID).write_text("0123456789abcdef\n")
    assert device_identity("cpu", root=tmp_path) == "cpu-01234567"


@pytest.mark.parametrize(
    ("visible", "index", "identity"),
    [(None, 1, "cuda-visible-1"), ("3,GPU-ab", 1, "cuda-visible-GPU-ab"), ("3", 0, "cuda-visible-3")],
)
def test_without_nvml_a_gpu_is_named_by_what_is_visible(
    visible: str | None, index: int, identity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise NvmlUnavailableError("NVML: Driver Not Loaded")

    monkeypatch.setattr("bench.device.identity.open_nvml", refuse)
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert device_identity("cuda", index, environment=environment) == identity


TWO = (
    FakeGpu(name="A", uuid="GPU-aa11", bus_id="00000000:01:00.0"),
    FakeGpu(name="A", uuid="GPU-bb22", bus_id="00000000:02:00.0"),
)
MIXED = (*TWO, FakeGpu(name="B", uuid="GPU-cc33", bus_id="00000000:03:00.0"))


@pytest.mark.parametrize(
    ("gpus", "environment", "index", "name", "bus"),
    [
        (TWO, {}, 1, None, "02"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "1,0"}, 0, None, "02"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, 0, None, "02"),
        (MIXED, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, 2, None, "03"),
        (MIXED, {}, 0, "B", "03"),
        (TWO, {"CUDA_VISIBLE_DEVICES": "MIG-1"}, 0, None, "01"),
    ],
)
def test_the_gpu_behind_a_cuda_ordinal_is_found(
    gpus: tuple[FakeGpu, ...], environment: dict[str, str], index: int, name: str | None, bus: str
) -> None:
    nvml = FakeNvml(*gpus, migs={"MIG-1": 0})
    assert find_gpu(nvml, index, name, environment).pci_bus_id == f"00000000:{bus}:00.0"


@pytest.mark.parametrize(
    ("environment", "index", "name", "message"),
    [
        ({}, 0, "A", "2 of 3 GPUs may be CUDA device 0"),
        ({}, 0, None, "0 of 3 GPUs may be CUDA device 0"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, 1, None, "CUDA_VISIBLE_DEVICES=0 has no device 1"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-2"}, 0, None, "Not Found"),
    ],
)
def test_a_gpu_that_may_be_another_is_not_guessed(
    environment: dict[str, str], index: int, name: str | None, message: str
) -> None:
    with pytest.raises(NvmlUnavailableError, match=message):
        find_gpu(FakeNvml(*MIXED), index, name, environment)
