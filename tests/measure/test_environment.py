"""What a worker records of its machine: read from a tree of files, from NVML, and from this machine."""

import getpass
import hashlib
import inspect
import json
import os
import socket
from pathlib import Path

import pynvml
import pytest
import torch

from bench.cli.recorded import packages_hash, recorded
from bench.device import gpu_at
from bench.measure import environment_record
from bench.measure.environment import capacity_bytes
from bench.measure.gpu_facts import nvml_facts
from bench.measure.machine import format_cores, machine_facts
from bench.worker.setup import set_up_process
from tests.builders import make_controls
from tests.fake_nvml import FakeGpu, FakeNvml

CPU = torch.device("cpu")

SERVER = {
    "proc/cpuinfo": "".join(
        f"processor\t: {core}\nmodel name\t: Toy CPU @ 3 GHz\nmicrocode\t: 0xd\ncpu MHz\t\t: {3000 + core}\n"
        f"flags\t\t: fpu avx2\n\n"
        for core in range(4)
    ),
    "proc/loadavg": "1.50 0.75 0.25 3/800 4242\n",
    "proc/uptime": "86400.5 100000.0\n",
    "proc/meminfo": "MemTotal:   1000 kB\nMemAvailable:   600 kB\nSwapTotal:   200 kB\nSwapFree:   100 kB\n",
    "proc/self/cgroup": "0::/slice/job\n",
    "proc/sys/kernel/randomize_va_space": "2\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/vm/swappiness": "10\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/nr_hugepages": "16\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/devices/system/node/node1/cpulist": "\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/devices/system/cpu/isolated": "2-3\n",
    "sys/devices/system/cpu/nohz_full": "(null)\n",
    "sys/devices/system/cpu/cpuidle/current_driver": "intel_idle\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_driver": "intel_pstate\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_min_freq": "800000\n",
    "sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq": "4000000\n",
    "sys/devices/system/cpu/cpu2/cpufreq/scaling_driver": "intel_pstate\n",
    "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor": "powersave\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer [defer+madvise] madvise never\n",
    "sys/fs/cgroup/slice/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/slice/job/cpu.max": "max 100000\n",
    "sys/fs/cgroup/slice/memory.max": "524288\n",
    "sys/fs/cgroup/slice/job/memory.max": "max\n",
    "sys/fs/cgroup/slice/job/cpuset.cpus.effective": "1-2\n",
}
"""A server with cgroup v2, whose outer cgroup sets the limits."""

FACTS = {
    "cpu_cores": "1-2",
    "cpu_smt": "on",
    "cpu_isolated": "2-3",
    "cpu_mhz": 3001.5,
    "cpu_mhz_min": 800.0,
    "cpu_mhz_max": 4000.0,
    "cpu_frequency_driver": "intel_pstate",
    "cpu_governor": "performance,powersave",
    "cpu_turbo": "off",
    "cpu_idle_driver": "intel_idle",
    "cpu_microcode": "0xd",
    "load_average_1min": 1.5,
    "load_average_5min": 0.75,
    "load_average_15min": 0.25,
    "runnable_threads": 3,
    "uptime_s": 86400.5,
    "address_space_randomization": 2,
    "clock_source": "tsc",
    "numa_balancing": "on",
    "numa_nodes": 2,
    "memory_total_bytes": 1024000,
    "memory_available_bytes": 614400,
    "swap_total_bytes": 204800,
    "swap_free_bytes": 102400,
    "swappiness": 10,
    "overcommit_memory": 0,
    "transparent_huge_pages": "madvise",
    "transparent_huge_pages_defrag": "defer+madvise",
    "huge_pages": 16,
    "cgroup_cpus": 1.5,
    "cgroup_memory_bytes": 524288,
    "cgroup_cpuset": "1-2",
}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_kernels_facts_are_read_from_its_files(tmp_path: Path) -> None:
    assert machine_facts(tree(tmp_path, SERVER), [1, 2]) == FACTS


def test_a_machine_that_tells_nothing_has_no_facts(tmp_path: Path) -> None:
    assert machine_facts(tmp_path, [0, 1, 2, 5]) == {"cpu_cores": "0-2,5"}


@pytest.mark.parametrize("garbage", ["", "cpu MHz : fast\n"])
def test_a_file_that_says_something_else_costs_its_own_facts_alone(tmp_path: Path, garbage: str) -> None:
    tree(tmp_path, SERVER)
    for name, text in SERVER.items():
        (tmp_path / name).write_text(garbage)
        facts = machine_facts(tmp_path, [1, 2])
        (tmp_path / name).write_text(text)
        assert len([fact for fact in FACTS if facts.get(fact) != FACTS[fact]]) <= 4, name


def test_limits_of_cgroup_v1_are_read_too(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/job\n3:cpuset:/\n2:cpu,cpuacct:/job\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1048576\n",
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpuset/cpuset.cpus": "0-1\n",
    }
    facts = machine_facts(tree(tmp_path, files), [0])
    assert {name: value for name, value in facts.items() if name.startswith("cgroup")} == {
        "cgroup_cpus": 0.5,
        "cgroup_memory_bytes": 1048576,
        "cgroup_cpuset": "0-1",
    }


def test_capacity_is_what_the_outermost_tight_cgroup_leaves(tmp_path: Path) -> None:
    assert capacity_bytes(CPU, tree(tmp_path, SERVER)) == 524288
    assert capacity_bytes(CPU, tmp_path / "nothing") == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_cores_are_written_as_runs() -> None:
    assert format_cores([8, 0, 1, 3, 2]) == "0-3,8"
    assert format_cores([]) == ""


def test_this_machine_has_a_record_of_flat_facts() -> None:
    record = environment_record(CPU)
    assert all(value is None or isinstance(value, (str, int, float)) for value in record.values())
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    for name in (
        "cpu", "kernel", "libc", "python", "python_compiler", "python_build_digest", "timer", "timer_resolution_s",
        "load_average_1min", "uptime_s", "memory_total_bytes", "threads", "parallel_backend", "torch_build_digest",
        "mkldnn", "cpu_capability", "float32_matmul_precision", "gc_thresholds", "version.torch",
    ):  # fmt: skip
        assert record[name] not in (None, ""), name
    assert record["cpu_affinity"] == len(os.sched_getaffinity(0))
    assert record["threads"] == torch.get_num_threads()
    assert record["parallel_backend"] in torch.__config__.parallel_info()


def test_a_record_names_no_host_user_or_path() -> None:
    """The home folder's and the host's names may be part of other words, so they are looked for as whole values."""
    record = environment_record(CPU, variables={"OMP_NUM_THREADS": "2", "TORCH_HOME": "/home/somebody/.cache"})
    values = {str(value) for value in record.values()}
    assert not values & {socket.gethostname(), getpass.getuser(), str(Path.cwd()), str(Path.home())}
    assert not [value for value in values if value.startswith("/")]
    assert record["env.TORCH_HOME"] == "(a path)"


def test_only_variables_that_change_a_step_are_recorded() -> None:
    variables = {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/root"}
    record = environment_record(CPU, variables=variables)
    found = {name: value for name, value in record.items() if name.startswith("env.")}
    assert found == {"env.OMP_NUM_THREADS": "2", "env.PYTHONHASHSEED": "0"}


def test_settings_are_recorded_as_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    threads, enabled = torch.get_num_threads(), gc.isenabled()
    monkeypatch.setenv("BENCH_PARENT_PID", str(os.getppid()))
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)  # no control of these
    try:
        set_up_process(make_controls())
        record = environment_record(CPU)
        assert (record["threads"], record["gc_enabled"]) == (1, "False")
        torch.set_float32_matmul_precision("high")
        assert environment_record(CPU)["float32_matmul_precision"] == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(threads)
        if enabled:
            gc.enable()


def test_nvml_facts_leave_out_what_the_model_does_not_have() -> None:
    nvml = FakeNvml(FakeGpu())
    assert nvml_facts(nvml, gpu_at(nvml, "00000000:1B:00.0")) == {
        "driver": "580.65.06",
        "driver_cuda": "13.0",
        "gpu_vbios": "96.00.A5.00.01",
        "gpu_ecc": "on",
        "gpu_persistence": "off",
        "gpu_compute_mode": 0,
        "gpu_power_limit_w": 700.0,
        "gpu_power_limit_default_w": 700.0,
        "gpu_power_limit_max_w": 700.0,
        "gpu_sm_clock_max_mhz": 1980,
        "gpu_memory_clock_max_mhz": 3201,
    }


def test_the_fake_nvml_has_the_real_ones_functions() -> None:
    for name, function in inspect.getmembers(FakeNvml, inspect.isfunction):
        if name.startswith("nvml"):
            real = inspect.signature(inspect.unwrap(getattr(pynvml, name)))
            assert list(inspect.signature(function).parameters)[1:] == list(real.parameters), name


def test_a_study_records_what_is_installed(tmp_path: Path) -> None:
    found = recorded(tmp_path)
    assert found == {"packages_sha256": packages_hash()}
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    assert recorded(tmp_path)["constraints_sha256"] == hashlib.sha256(b"torch==2.13.0\n").hexdigest()


def test_a_file_that_git_does_not_know_makes_the_source_dirty(tmp_path: Path) -> None:
    import subprocess

    def git(*arguments: str) -> str:
        settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", str(tmp_path), *settings, *arguments], check=True, capture_output=True)
        return done.stdout.decode().strip()

    tree(tmp_path, {"bench/a.py": "a", ".gitignore": "*.pyc\n"})
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    tree(tmp_path, {"notes.txt": "", "bench/a.pyc": ""})
    assert recorded(tmp_path)["git_commit"] == commit
    tree(tmp_path, {"bench/b.py": "b"})
    assert recorded(tmp_path)["git_commit"] == f"{commit}-dirty"
    (tmp_path / "bench/b.py").unlink()
    tree(tmp_path, {"bench/a.py": "changed"})
    assert recorded(tmp_path)["git_commit"] == f"{commit}-dirty"
