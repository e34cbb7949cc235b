"""What the samplers read: of a GPU through NVML, of cores and processes from the kernel's files."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pynvml
import pytest

from bench.device import gpu_at
from bench.study.telemetry.cpu import CpuSampler
from bench.study.telemetry.nvml import PROCESSES_EVERY, NvmlSampler
from bench.study.telemetry.processes import RESCAN_S, Family
from tests.fake_nvml import FakeGpu, FakeNvml

BUS = "00000000:1B:00.0"
TICKS = os.sysconf("SC_CLK_TCK")


def sampler_of(nvml: FakeNvml, own: Collection[int] = ()) -> NvmlSampler:
    nvml.nvmlInit()
    return NvmlSampler(nvml, gpu_at(nvml, BUS), lambda: own)


def test_a_gpu_is_read_in_full() -> None:
    nvml = FakeNvml(FakeGpu(processes={10: 2**20, 11: 2**21}))
    assert sampler_of(nvml, own=[10]).read() == {
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 2619,
        "power_w": 450.0,
        "temperature_c": 60,
        "utilization_percent": 99,
        "clock_events": "",
        "memory_used_bytes": 2**30,
        "compute_pids": "10 11",
        "other_processes": 1,
        "other_memory_bytes": 2**21,
    }


def test_reasons_for_slower_clocks_are_words() -> None:
    events = pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonHwThermalSlowdown
    nvml = FakeNvml(FakeGpu(clock_events=events))
    assert sampler_of(nvml).read()["clock_events"] == "sw-power-cap hw-thermal"


@pytest.mark.parametrize(
    ("listed", "own", "others"),
    [
        ({}, [1], 0),
        ({1: None}, [1], 0),
        ({1: None, 2: None}, [1], 1),
        ({900: None}, [1], 0),
        ({900: 1, 901: 1}, [1], 1),
    ],
)
def test_strangers_are_counted_beside_one_process_of_the_study(
    listed: dict[int, int | None], own: list[int], others: int
) -> None:
    """In a container NVML lists other ids than the study knows; then one of them is the worker."""
    assert sampler_of(FakeNvml(FakeGpu(processes=listed)), own).read()["other_processes"] == others


def test_processes_are_listed_once_in_a_few_reads() -> None:
    sampler = sampler_of(FakeNvml(FakeGpu()))
    listed = ["compute_pids" in sampler.read() for _ in range(2 * PROCESSES_EVERY)]
    assert [index for index, is_listed in enumerate(listed) if is_listed] == [0, PROCESSES_EVERY]


def test_what_a_model_does_not_have_is_absent_and_not_asked_again() -> None:
    unsupported = {"nvmlDeviceGetPowerUsage": pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)}
    nvml = FakeNvml(FakeGpu(errors=dict(unsupported)))
    sampler = sampler_of(nvml)
    assert "power_w" not in sampler.read()
    nvml.change(errors={})
    assert "power_w" not in sampler.read()


def test_a_quantity_that_fails_once_comes_back() -> None:
    nvml = FakeNvml(FakeGpu(errors={"nvmlDeviceGetPowerUsage": pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)}))
    sampler = sampler_of(nvml)
    assert "power_w" not in sampler.read()
    nvml.change(errors={})
    assert sampler.read()["power_w"] == 450.0


def test_a_driver_too_old_to_list_processes_gives_the_rest() -> None:
    mismatch = pynvml.NVMLLibraryMismatchError("Unversioned function called")
    sample = sampler_of(FakeNvml(FakeGpu(errors={"nvmlDeviceGetComputeRunningProcesses": mismatch}))).read()
    assert "compute_pids" not in sample
    assert sample["sm_clock_mhz"] == 1980


def test_a_lost_gpu_is_an_error() -> None:
    names = [name for name in dir(FakeNvml) if name.startswith("nvmlDeviceGet")]
    lost = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        sampler_of(FakeNvml(FakeGpu(errors=dict.fromkeys(names, lost)))).read()


def test_a_closed_sampler_gives_nvml_back() -> None:
    nvml = FakeNvml(FakeGpu())
    sampler_of(nvml).close()
    assert nvml.initialized == 0


class Machine:
    """Two cores of the study (1 and 2) among three; the parent is process 5, its worker 6, a stranger 7."""

    def __init__(self, root: Path) -> None:
        self.root, self.at = root, 100.0
        self.ticks = {core: dict.fromkeys(("user", "idle", "steal"), 0) for core in range(3)}
        self.processes = {5: (1, 0), 6: (5, 0), 7: (1, 0)}
        """pid → parent, ticks."""
        self.throttled_us = 0
        (root / "sys/class/hwmon/hwmon0").mkdir(parents=True)
        (root / "sys/class/hwmon/hwmon0/name").write_text("k10temp\n")
        (root / "sys/class/hwmon/hwmon0/temp1_input").write_text("61500\n")
        for core, kilohertz in ((1, 3_000_000), (2, 2_000_000)):
            folder = root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
            folder.mkdir(parents=True)
            (folder / "scaling_cur_freq").write_text(f"{kilohertz}\n")
        self.write()

    def write(self) -> None:
        proc = self.root / "proc"
        for pid, (parent, ticks) in self.processes.items():
            (proc / str(pid)).mkdir(parents=True, exist_ok=True)
            times = f"{ticks} 0 0 0"
            (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} {'0 ' * 9}{times} 20 0 1 0\n")
        rows = [f"cpu{core} {t['user']} 0 0 {t['idle']} 0 0 0 {t['steal']} 0 0" for core, t in self.ticks.items()]
        (proc / "stat").write_text("\n".join(["cpu  0 0 0 0 0 0 0 0 0 0", *rows, "ctxt 1", ""]))
        (proc / "self").mkdir(exist_ok=True)
        (proc / "self/cgroup").write_text("0::/job\n")
        group = self.root / "sys/fs/cgroup/job"
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.stat").write_text(f"usage_usec 0\nnr_throttled 1\nthrottled_usec {self.throttled_us}\n")

    def family(self) -> Family:
        return Family(5, self.root, now=lambda: self.at)

    def sampler(self) -> CpuSampler:
        return CpuSampler(self.family(), cores=[1, 2], root=self.root, now=lambda: self.at)


def test_shares_are_of_the_studys_cores_and_since_the_last_read(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    sampler = machine.sampler()
    assert sampler.read() == {"frequency_mhz": 2500.0, "temperature_c": 61.5}
    machine.at += 1.0
    machine.ticks[0]["user"] = TICKS  # not a core of the study
    machine.ticks[1]["user"] = TICKS
    machine.ticks[2] |= {"user": TICKS // 2, "steal": TICKS // 10}
    machine.processes[6] = (5, TICKS)
    machine.throttled_us = 250_000
    machine.write()
    assert sampler.read() == {
        "busy_share": 0.75,
        "own_share": 0.5,
        "other_share": 0.25,
        "steal_share": 0.05,
        "throttled_share": 0.25,
    }


def test_counters_that_tick_apart_never_give_a_negative_share(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    sampler = machine.sampler()
    sampler.read()
    machine.at += 1.0
    machine.processes[6] = (5, TICKS)
    machine.write()
    assert sampler.read()["other_share"] == 0.0


def test_a_kernel_that_tells_no_sensors_and_no_quota_gives_the_shares(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for path in (*tmp_path.glob("sys/class/hwmon/*/*"), *tmp_path.glob("sys/devices/system/cpu/*/cpufreq/*")):
        path.unlink()
    (tmp_path / "sys/fs/cgroup/job/cpu.stat").unlink()
    sampler = machine.sampler()
    assert sampler.read() == {}
    machine.at += 1.0
    assert set(sampler.read()) == {"busy_share", "own_share", "other_share", "steal_share"}


def test_a_family_is_searched_for_until_there_is_one_and_then_seldom(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    family = machine.family()
    assert set(family.pids()) == {5, 6}
    machine.processes[8] = (6, 0)
    machine.write()
    assert set(family.pids()) == {5, 6}
    machine.at += RESCAN_S
    assert set(family.pids()) == {5, 6, 8}


def test_time_of_a_worker_that_ended_is_its_parents(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.processes[6] = (5, 30)
    machine.write()
    family = machine.family()
    assert family.cpu_ticks() == 30
    (tmp_path / "proc/6/stat").unlink()
    (tmp_path / "proc/5/stat").write_text(f"5 (python) S 1 {'0 ' * 9}1 0 30 0 20 0 1 0\n")
    del machine.processes[6]
    assert family.cpu_ticks() == 31


def test_this_machines_own_processes_are_found() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {os.getpid(), child.pid} <= set(Family().pids())
        child.kill()


def test_this_machine_can_be_read() -> None:
    times = iter([0.0, 1.0])
    sampler = CpuSampler(Family(), now=lambda: next(times))
    sampler.read()
    sample = sampler.read()
    for name in ("busy_share", "own_share", "other_share", "steal_share"):
        assert 0.0 <= float(sample[name]) <= 1.0
