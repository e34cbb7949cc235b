"""The recorder: when it reads, what it writes, and that nothing in it reaches the study."""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.study.telemetry import Recorder, Sampler, read_telemetry
from bench.study.telemetry.recorder import FAILURES_MAX, FLUSH_S, RESERVE_BYTES, stretch
from bench.study.telemetry.sampler import Scalar
from bench.study.telemetry.store import TELEMETRY_FILE, format_line


class Counting:
    """A sampler that counts its reads; `faults` says in which reads it fails."""

    def __init__(self, source: str = "cpu", period_s: float = 0.5, faults: Sequence[int] = ()) -> None:
        self.source, self.period_s = source, period_s
        self.reads, self.closed = 0, False
        self.read_in = threading.Event()
        self._faults = faults

    def read(self) -> Mapping[str, Scalar]:
        self.reads += 1
        self.read_in.set()
        if self.reads in self._faults:
            raise RuntimeError("no driver")
        return {"reads": self.reads}

    def close(self) -> None:
        self.closed = True


class Simulated:
    """A recorder whose time passes only while it waits."""

    def __init__(self, directory: Path, *samplers: Sampler, **options: Any) -> None:
        self.at = 1000.0
        self.recorder = Recorder(
            directory, samplers, {"gpu_pci_bus_id": "x"}, monotonic=lambda: self.at, unix=lambda: self.at, **options
        )
        self.recorder.begin()

    def run(self, seconds: float) -> None:
        until = self.at + seconds
        while self.at < until - 1e-9:
            self.at = min(until, self.at + self.recorder.step())


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / TELEMETRY_FILE).read_text().splitlines()]


def test_every_sampler_has_a_period_of_its_own(tmp_path: Path) -> None:
    gpu, cpu = Counting("gpu", 0.2), Counting("cpu", 0.5)
    simulated = Simulated(tmp_path, gpu, cpu)
    simulated.run(10.0)
    assert (gpu.reads, cpu.reads) == (50, 20)
    simulated.recorder.end()
    assert [line["unix_time_s"] for line in lines(tmp_path) if line["source"] == "cpu"][:3] == [1000.0, 1000.5, 1001.0]


def test_lines_reach_the_disk_about_once_a_second(tmp_path: Path) -> None:
    simulated = Simulated(tmp_path, Counting(period_s=0.2))
    simulated.run(FLUSH_S * 0.9)
    assert not (tmp_path / TELEMETRY_FILE).read_bytes()
    simulated.run(FLUSH_S * 0.4)
    assert len(lines(tmp_path)) == 1 + 6
    simulated.recorder.end()


def test_start_and_end_say_what_was_watched_and_what_it_took(tmp_path: Path) -> None:
    sampler = Counting()
    simulated = Simulated(tmp_path, sampler)
    simulated.run(2.0)
    simulated.recorder.end()
    first, *_, last = lines(tmp_path)
    assert first == {"unix_time_s": 1000.0, "source": "recorder", "event": "start", "gpu_pci_bus_id": "x"}
    assert (last["event"], last["samples"], last["wall_s"], last["full"]) == ("end", 4, 2.0, "False")
    assert last["cpu_s"] >= 0
    assert sampler.closed


def test_a_sampler_that_keeps_failing_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    broken, sound = Counting("gpu", 0.2, faults=range(1, 100)), Counting()
    simulated = Simulated(tmp_path, broken, sound)
    simulated.run(10.0)
    simulated.recorder.end()
    assert broken.reads == FAILURES_MAX
    assert sound.reads == 20
    (event,) = [line for line in lines(tmp_path) if line.get("event") == "failure"]
    assert event["problem"] == "gpu telemetry was given up: RuntimeError: no driver"


def test_a_sampler_that_fails_now_and_then_is_kept(tmp_path: Path) -> None:
    flaky = Counting(faults=[n for n in range(1, 21) if n % FAILURES_MAX])
    simulated = Simulated(tmp_path, flaky)
    simulated.run(10.0)
    simulated.recorder.end()
    assert flaky.reads == 20


def test_a_number_that_json_has_not_counts_as_a_failed_read(tmp_path: Path) -> None:
    class NotANumber(Counting):
        def read(self) -> Mapping[str, Scalar]:
            return {"power_w": float("nan")}

    simulated = Simulated(tmp_path, NotANumber())
    simulated.run(5.0)
    simulated.recorder.end()
    assert [line["source"] for line in lines(tmp_path)] == ["recorder"] * 3


def test_reads_get_rarer_as_the_file_fills_up_and_end_below_the_limit(tmp_path: Path) -> None:
    assert [stretch(size, 100) for size in (0, 49, 50, 74, 75, 99, 100)] == [1, 1, 4, 4, 16, 16, None]
    limit = 8 * RESERVE_BYTES
    sampler = Counting(period_s=0.2)
    simulated = Simulated(tmp_path, sampler, limit_bytes=limit)
    simulated.run(3600.0)
    simulated.recorder.end()
    assert limit - 2 * RESERVE_BYTES < (tmp_path / TELEMETRY_FILE).stat().st_size <= limit
    assert lines(tmp_path)[-1]["full"] == "True"
    gaps = [
        b["unix_time_s"] - a["unix_time_s"] for a, b in zip(lines(tmp_path)[1:], lines(tmp_path)[2:-1], strict=False)
    ]
    assert sorted({round(gap, 1) for gap in gaps}) == [0.2, 0.8, 3.2]


def test_a_later_recorder_goes_on_in_the_same_file(tmp_path: Path) -> None:
    for _ in range(2):
        simulated = Simulated(tmp_path, Counting())
        simulated.run(1.0)
        simulated.recorder.end()
    telemetry = read_telemetry(tmp_path)
    assert (len(telemetry.samples), len(telemetry.events)) == (4, 4)


def test_the_thread_reads_while_the_block_runs_and_ends_with_it(tmp_path: Path) -> None:
    sampler = Counting(period_s=0.001)
    with Recorder(tmp_path, [sampler], {}):
        assert sampler.read_in.wait(10)
    assert sampler.closed
    assert "telemetry" not in {thread.name for thread in threading.enumerate()}
    assert [event.values["event"] for event in read_telemetry(tmp_path).events] == ["start", "end"]


def test_a_directory_that_cannot_be_written_to_costs_telemetry_alone(tmp_path: Path) -> None:
    with Recorder(tmp_path / "nowhere", [Counting()], {}):
        pass
    assert read_telemetry(tmp_path / "nowhere").samples == ()


def test_an_error_of_the_block_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Recorder(tmp_path, [Counting()], {}):
        raise KeyboardInterrupt


def test_torn_and_foreign_lines_are_skipped(tmp_path: Path) -> None:
    sound = format_line(1.0, "cpu", {"busy_share": 0.5})
    torn = b'{"unix_time_s":2.0,"sou'
    foreign = [b"[]\n", b'{"source":"cpu"}\n', b'{"unix_time_s":"soon","source":"cpu"}\n', b"\xff\n", b"\n"]
    (tmp_path / TELEMETRY_FILE).write_bytes(b"".join([*foreign, sound, torn]))
    (sample,) = read_telemetry(tmp_path).samples
    assert (sample.unix_time_s, sample.source, sample.values) == (1.0, "cpu", {"busy_share": 0.5})
