"""What the kernel says of the machine and of this process's share of it, read from `/proc` and `/sys`.

The list follows pyperf's (`pyperf/_collect_metadata.py`), without host name, users and paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.device.proc import cgroup_folders, read_choice, read_line, read_number, read_pairs, read_switch

Value = str | int | float | None

CPU = "sys/devices/system/cpu"
HUGE_PAGES = "sys/kernel/mm/transparent_hugepage"
NO_LIMIT_BYTES = 2**62
"""cgroup v1 says "no limit" as the highest number of pages."""


def machine_facts(root: Path, cores: Sequence[int]) -> dict[str, Value]:
    """Facts by name; one that cannot be read is not there.

    Args:
        root: `/`, or a tree with the same files.
        cores: those that the process may run on.
    """
    facts: dict[str, Value] = {**_cpu(root, cores), **_kernel(root), **_memory(root), **_cgroup(root)}
    return {name: value for name, value in facts.items() if value is not None}


def cpu_model(root: Path) -> str | None:
    return next((value for name, value in read_pairs(root / "proc/cpuinfo") if name == "model name"), None)


def memory_limit_bytes(root: Path) -> int | None:
    """Memory that the cgroup of this process, or one around it, allows; None where none limits it."""
    limits = [read_number(folder / "memory.max") for folder in cgroup_folders(root)]
    limits += [read_number(folder / "memory.limit_in_bytes") for folder in cgroup_folders(root, "memory")]
    return min((limit for limit in limits if limit is not None and limit < NO_LIMIT_BYTES), default=None)


def _cpu(root: Path, cores: Sequence[int]) -> dict[str, Value]:
    info = list(read_pairs(root / "proc/cpuinfo"))
    frequency = [root / CPU / f"cpu{core}/cpufreq" for core in cores]
    one = frequency[0] if frequency else root / CPU
    return {
        "cpu_cores": format_cores(cores),
        "cpu_smt": read_switch(root / CPU / "smt/active"),
        "cpu_isolated": read_line(root / CPU / "isolated") or None,
        "cpu_nohz_full": (read_line(root / CPU / "nohz_full") or "").replace("(null)", "").strip() or None,
        "cpu_mhz": _mean([_float(value) for name, value in info if name == "cpu MHz"], cores),
        "cpu_mhz_min": _mega(read_number(one / "cpuinfo_min_freq")),
        "cpu_mhz_max": _mega(read_number(one / "cpuinfo_max_freq")),
        "cpu_frequency_driver": _common(folder / "scaling_driver" for folder in frequency),
        "cpu_governor": _common(folder / "scaling_governor" for folder in frequency),
        "cpu_turbo": _turbo(root),
        "cpu_idle_driver": read_line(root / CPU / "cpuidle/current_driver"),
        "cpu_microcode": next((value for name, value in info if name == "microcode"), None),
        "hypervisor": "yes" if any(name == "flags" and "hypervisor" in value.split() for name, value in info) else None,
    }


def _kernel(root: Path) -> dict[str, Value]:
    load = (read_line(root / "proc/loadavg") or "").split()
    uptime = (read_line(root / "proc/uptime") or "").split()
    runnable = load[3].partition("/")[0] if len(load) > 3 else None
    return {
        "load_average_1min": _float(load[0]) if load else None,
        "load_average_5min": _float(load[1]) if len(load) > 1 else None,
        "load_average_15min": _float(load[2]) if len(load) > 2 else None,
        "runnable_threads": int(runnable) if runnable and runnable.isdigit() else None,
        "uptime_s": _float(uptime[0]) if uptime else None,
        "address_space_randomization": read_number(root / "proc/sys/kernel/randomize_va_space"),
        "clock_source": read_line(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "numa_balancing": read_switch(root / "proc/sys/kernel/numa_balancing"),
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or None,
    }


def _memory(root: Path) -> dict[str, Value]:
    sizes = dict(read_pairs(root / "proc/meminfo"))
    return {
        "memory_total_bytes": _kibibytes(sizes.get("MemTotal")),
        "memory_available_bytes": _kibibytes(sizes.get("MemAvailable")),
        "swap_total_bytes": _kibibytes(sizes.get("SwapTotal")),
        "swap_free_bytes": _kibibytes(sizes.get("SwapFree")),
        "swappiness": read_number(root / "proc/sys/vm/swappiness"),
        "overcommit_memory": read_number(root / "proc/sys/vm/overcommit_memory"),
        "transparent_huge_pages": read_choice(root / HUGE_PAGES / "enabled"),
        "transparent_huge_pages_defrag": read_choice(root / HUGE_PAGES / "defrag"),
        "huge_pages": read_number(root / "proc/sys/vm/nr_hugepages"),
    }


def _cgroup(root: Path) -> dict[str, Value]:
    cpusets = [folder / "cpuset.cpus.effective" for folder in cgroup_folders(root)]
    cpusets += [folder / "cpuset.cpus" for folder in cgroup_folders(root, "cpuset")]
    return {
        "cgroup_cpus": _cpu_quota(root),
        "cgroup_memory_bytes": memory_limit_bytes(root),
        "cgroup_cpuset": next((line for path in cpusets if (line := read_line(path))), None),
    }


def _cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time that the tightest cgroup allows; None where none limits it."""
    quotas: list[float] = []
    for folder in cgroup_folders(root):
        quota, _, period = (read_line(folder / "cpu.max") or "").partition(" ")
        if quota.isdigit() and period.isdigit():
            quotas.append(int(quota) / int(period))
    for folder in cgroup_folders(root, "cpu"):
        v1_quota, v1_period = (read_number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if v1_quota is not None and v1_quota > 0 and v1_period:
            quotas.append(v1_quota / v1_period)
    return min(quotas, default=None)


def format_cores(cores: Sequence[int]) -> str:
    """`0-3,8`."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _turbo(root: Path) -> str | None:
    boost = read_switch(root / CPU / "cpufreq/boost")
    no_turbo = read_number(root / CPU / "intel_pstate/no_turbo")
    return boost if no_turbo is None else ("off" if no_turbo else "on")


def _mean(values: Sequence[float | None], cores: Sequence[int]) -> float | None:
    """Over the cores that are used, where there is a value for each core of the machine."""
    chosen = [values[core] for core in cores if core < len(values)] or values
    known = [value for value in chosen if value is not None]
    return round(sum(known) / len(known), 1) if known else None


def _common(paths: Iterable[Path]) -> str | None:
    """One word where all say the same."""
    return ",".join(sorted({line for path in paths if (line := read_line(path))})) or None


def _kibibytes(text: str | None) -> int | None:
    number = (text or "").partition(" ")[0]
    return int(number) * 1024 if number.isdigit() else None


def _mega(kilo: int | None) -> float | None:
    return None if kilo is None else kilo / 1000


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
