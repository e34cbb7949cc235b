"""Telemetry of the cores that a study may run on, from `/proc` and `/sys`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.device.proc import cgroup_folders, read_lines, read_number
from bench.study.telemetry.processes import Family
from bench.study.telemetry.sampler import CPU, Scalar

PERIOD_S = 0.5
SLOW_EVERY = 4
"""Reads between two of frequency and temperature: asking a core for its frequency may interrupt it."""
FREQUENCY_CORES = 8
"""As many cores are asked for their frequency."""
SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")

ROOT = Path("/")


@dataclass(frozen=True, kw_only=True)
class _Times:
    """Counters since boot, in seconds."""

    at: float
    busy: float
    steal: float
    own: float
    throttled: float | None


class CpuSampler:
    """Reads what share of the cores was busy since the last read, of that the study's own processes and all others;
    the share that a hypervisor took; the time that a CPU quota stopped the cgroup; frequency and temperature.

    Shares are of all the time of `cores`. The first read has no shares.
    """

    source = CPU
    period_s = PERIOD_S

    def __init__(
        self,
        family: Family,
        cores: Collection[int] | None = None,
        root: Path = ROOT,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._family = family
        self._cores = frozenset(os.sched_getaffinity(0) if cores is None else cores)
        self._now = now
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._cgroups = [
            path
            for folder in (*cgroup_folders(root), *cgroup_folders(root, "cpu"))
            if (path := folder / "cpu.stat").exists()
        ]
        self._frequencies = _frequency_files(root, self._cores)
        self._thermometers = _thermometers(root)
        self._last: _Times | None = None
        self._reads = 0

    def read(self) -> Mapping[str, Scalar]:
        sample: dict[str, Scalar] = {}
        times = self._times()
        if self._last is not None and times.at > self._last.at:
            sample |= self._shares(self._last, times)
        self._last = times
        if self._reads % SLOW_EVERY == 0:
            sample |= self._slow()
        self._reads += 1
        return sample

    def close(self) -> None:
        pass

    def _shares(self, last: _Times, times: _Times) -> dict[str, Scalar]:
        span = (times.at - last.at) * len(self._cores)
        busy, own = times.busy - last.busy, max(0.0, times.own - last.own)
        sample: dict[str, Scalar] = {
            "busy_share": _share(busy, span),
            "own_share": _share(own, span),
            "other_share": _share(busy - own, span),
            "steal_share": _share(times.steal - last.steal, span),
        }
        if times.throttled is not None and last.throttled is not None:
            sample["throttled_share"] = _share(times.throttled - last.throttled, times.at - last.at)
        return sample

    def _times(self) -> _Times:
        """Raises OSError or ValueError where `/proc/stat` is not as expected."""
        busy = steal = 0
        with (self._root / "proc/stat").open() as file:
            next(file)
            for line in file:
                if not line.startswith("cpu"):
                    break
                name, *ticks = line.split()
                if int(name[3:]) in self._cores:
                    user, nice, system, _, _, irq, softirq, stolen = map(int, ticks[:8])
                    busy += user + nice + system + irq + softirq
                    steal += stolen
        return _Times(
            at=self._now(),
            busy=busy * self._tick_s,
            steal=steal * self._tick_s,
            own=self._family.cpu_ticks() * self._tick_s,
            throttled=self._throttled_s(),
        )

    def _throttled_s(self) -> float | None:
        """Of all cgroups around the study together: each counts what its own quota stopped."""
        found: list[float] = []
        for path in self._cgroups:
            for line in read_lines(path):
                name, _, value = line.partition(" ")
                if name in ("throttled_usec", "throttled_time"):
                    found.append(int(value) / (1e6 if name == "throttled_usec" else 1e9))
        return sum(found) if found else None

    def _slow(self) -> dict[str, Scalar]:
        sample: dict[str, Scalar] = {}
        frequencies = [kilo for path in self._frequencies if (kilo := read_number(path)) is not None]
        if frequencies:
            sample["frequency_mhz"] = round(sum(frequencies) / len(frequencies) / 1000, 1)
        temperatures = [milli for path in self._thermometers if (milli := read_number(path)) is not None]
        if temperatures:
            sample["temperature_c"] = max(temperatures) / 1000
        return sample


def _share(part: float, whole: float) -> float:
    """Counters tick in hundredths of a second, so that a part may seem negative or more than the whole."""
    return round(min(1.0, max(0.0, part / whole)), 4)


def _frequency_files(root: Path, cores: Collection[int]) -> list[Path]:
    files = (root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in sorted(cores))
    return [path for path in files if path.exists()][:FREQUENCY_CORES]


def _thermometers(root: Path) -> list[Path]:
    found: list[Path] = []
    for name in (root / "sys/class/hwmon").glob("hwmon*/name"):
        if read_lines(name)[:1] and read_lines(name)[0].strip() in SENSORS:
            found += sorted(name.parent.glob("temp*_input"))
    return found
