"""What telemetry says of rounds: which are measured again, and what a reader is told."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.records import (
    ExecutionStarted,
    Record,
    Records,
    RecordWriter,
    RoundDiscarded,
    RoundDone,
    Starting,
    TimeSample,
    read_records,
)
from bench.study.telemetry import TelemetrySample, read_telemetry, rounds_to_discard, summarize, take_stock
from bench.study.telemetry.judge import SLOWDOWNS
from bench.study.telemetry.nvml import CLOCK_EVENTS, SW_POWER_CAP
from bench.study.telemetry.rounds import round_spans
from bench.study.telemetry.store import TELEMETRY_FILE, Telemetry, format_line
from bench.study.telemetry.summary import notes_of

ROUND_S = 10.0
GPU = "00000000:1B:00.0"


def rounds(number: int, first: int = 0, process: str = "a", at: float = 0.0, execution: int = 0) -> list[Record]:
    """Rounds of ten seconds, one after another, the first at `at`: announced at 0 s, sampled at 8 s, whole at 9 s."""
    entries: list[Record] = [
        ExecutionStarted(
            execution=execution,
            process=process,
            unix_time_s=at,
            placements=("none",),
            environment={"gpu_pci_bus_id": GPU},
        )
    ]
    for index in range(number):
        begin, number_ = at + index * ROUND_S, first + index
        stamp = {"execution": execution, "process": process}
        entries += [
            Starting(**stamp, unix_time_s=begin, stage="time", placement="none", round=number_),
            TimeSample(
                **stamp,
                unix_time_s=begin + 8,
                placement="none",
                round=number_,
                position=0,
                step_times_ms=(1.0,),
                wall_ms=1.0,
                optimizer_steps=1,
                batch_digest="b",
            ),
            RoundDone(**stamp, unix_time_s=begin + 9, round=number_),
        ]
    return entries


def discard(round: int, process: str = "a", execution: int = 0) -> RoundDiscarded:
    return RoundDiscarded(execution=execution, process=process, unix_time_s=1e6, round=round, reason="hot")


def gpu_at(*times: float, events: str = "hw-thermal", bus: str = GPU, **values: float) -> list[TelemetrySample]:
    return [
        TelemetrySample(unix_time_s=t, source="gpu", values={"clock_events": events, **values}, gpu_pci_bus_id=bus)
        for t in times
    ]


def cpu_at(shares: Mapping[float, float], name: str = "other_share") -> list[TelemetrySample]:
    return [TelemetrySample(unix_time_s=t, source="cpu", values={name: share}) for t, share in shares.items()]


def discarded(entries: Sequence[Record], samples: Sequence[TelemetrySample], rounds_max: int = 10) -> list[int]:
    spoiled = rounds_to_discard(Records(entries=tuple(entries)), Telemetry(samples=tuple(samples)), rounds_max)
    return [span.round for span in spoiled]


def notes(entries: Sequence[Record], samples: Sequence[TelemetrySample]) -> tuple[str, ...]:
    return notes_of(Records(entries=tuple(entries)), Telemetry(samples=tuple(samples)))


def test_a_round_lasts_from_its_first_announcement_to_its_last_record() -> None:
    spans = round_spans(Records(entries=tuple(rounds(2))))
    assert [(span.round, span.begin_s, span.end_s) for span in spans] == [(0, 0.0, 9.0), (1, 10.0, 19.0)]
    assert {span.gpu_pci_bus_id for span in spans} == {GPU}


def test_a_round_of_several_processes_has_a_span_in_each() -> None:
    """`protocol.process=fresh`: what the machine did while a process started is not the round's."""
    entries = [*rounds(1, process="a"), *rounds(1, process="b", at=100.0)]
    assert [(s.process, s.begin_s, s.end_s) for s in round_spans(Records(entries=tuple(entries)))] == [
        ("a", 0.0, 9.0),
        ("b", 100.0, 109.0),
    ]
    assert discarded(entries, gpu_at(50.0)) == []
    assert discarded(entries, gpu_at(5.0, 105.0)) == [0]


@pytest.mark.parametrize("event", sorted({*SLOWDOWNS} - {"hw-slowdown"}))
def test_one_sample_of_a_slowdown_spoils_its_round_alone(event: str) -> None:
    assert discarded(rounds(3), gpu_at(15.0, events=f"sw-power-cap {event}")) == [1]


def test_a_bare_hardware_slowdown_must_be_seen_twice() -> None:
    assert discarded(rounds(3), gpu_at(15.0, events="hw-slowdown")) == []
    assert discarded(rounds(3), gpu_at(15.0, 15.2, events="hw-slowdown")) == [1]


@pytest.mark.parametrize("event", sorted({*CLOCK_EVENTS.values()} - {*SLOWDOWNS}))
def test_other_reasons_for_slower_clocks_spoil_nothing(event: str) -> None:
    assert discarded(rounds(1), gpu_at(5.0, 6.0, 7.0, events=event)) == []


def test_a_sample_just_outside_a_round_counts_and_one_between_rounds_does_not() -> None:
    assert discarded(rounds(2), gpu_at(9.1)) == [0]
    assert discarded(rounds(2), gpu_at(9.5)) == []
    assert discarded(rounds(2), gpu_at(9.9)) == [1]


def test_another_gpu_spoils_nothing_and_is_told() -> None:
    samples = gpu_at(5.0, bus="00000000:99:00.0")
    assert discarded(rounds(1), samples) == []
    assert notes(rounds(1), samples) == (
        "telemetry watched the GPU at 00000000:99:00.0, the worker used another: set CUDA_DEVICE_ORDER=PCI_BUS_ID",
    )


def test_a_discarded_round_is_not_discarded_again() -> None:
    assert discarded([*rounds(3), discard(1)], gpu_at(15.0, 25.0)) == [2]


def test_a_gpu_that_is_always_slow_ends_in_a_note() -> None:
    """Each process measures the three rounds that the protocol asks for."""
    entries: list[Record] = []
    hot = gpu_at(*(float(second) for second in range(100)))
    retries = 0
    while spoiled := discarded([*entries, *rounds(3, 3 * retries, f"p{retries}", 30.0 * retries)], hot, rounds_max=3):
        entries += rounds(3, 3 * retries, f"p{retries}", 30.0 * retries) + [
            discard(number, f"p{retries}") for number in spoiled
        ]
        retries += 1
    assert retries == 1
    assert notes([*entries, *rounds(3, 3, "p1", 30.0)], hot) == (
        "the GPU was too hot and the hardware slowed it down in 3 of 3 rounds that count: mend cooling or power, and "
        "measure the study anew",
    )


def test_executions_have_retries_of_their_own() -> None:
    entries = [*rounds(1), discard(0), *rounds(1, execution=1, process="b", at=50.0)]
    assert discarded(entries, gpu_at(55.0), rounds_max=1) == [0]


def test_a_power_cap_is_told() -> None:
    assert notes(rounds(3), gpu_at(5.0, 15.0, events=SW_POWER_CAP)) == (
        "the GPU's power limit held its clocks down in 2 of 3 rounds: usual under full load",
    )


def test_strangers_on_the_gpu_are_told() -> None:
    alone, shared = gpu_at(5.0, events="", other_processes=0), gpu_at(15.0, events="", other_processes=2)
    assert notes(rounds(3), alone) == ()
    assert notes(rounds(3), [*alone, *shared]) == (
        "up to 2 other processes were on the GPU in 1 of 3 rounds: times and peaks of the device may be theirs",
    )


@pytest.mark.parametrize(
    ("name", "share", "note"),
    [
        ("other_share", 0.1, None),
        ("other_share", 0.3, "other processes took 20 % of the cores during the rounds (up to 30 % in one round)"),
        ("steal_share", 0.1, "the hypervisor took 7 % of the cores' time from this machine (up to 10 % in one round)"),
        ("throttled_share", 0.2, "a CPU quota stopped the study for 13 % of the time (up to 20 % in one round)"),
    ],
)
def test_shares_of_others_are_told_above_their_limits(name: str, share: float, note: str | None) -> None:
    """In two of three rounds; what was between the rounds does not count."""
    samples = cpu_at({5.0: share, 6.0: share, 15.0: share, 25.0: 0.0, 9.5: 1.0}, name)
    assert notes(rounds(3), samples) == (() if note is None else (note,))


def written(directory: Path, entries: Sequence[Record], samples: Sequence[TelemetrySample]) -> None:
    writer = RecordWriter(directory)
    writer.append_all(entries)
    writer.close()
    start = format_line(0.0, "recorder", {"event": "start", "gpu_pci_bus_id": GPU, "problem": "no lock"})
    end = format_line(99.0, "recorder", {"event": "end", "samples": 1, "wall_s": 50.0, "cpu_s": 0.1, "full": "True"})
    body = [format_line(sample.unix_time_s, sample.source, sample.values) for sample in samples]
    (directory / TELEMETRY_FILE).write_bytes(b"".join([start, *body, end]))


def test_taking_stock_discards_in_the_records_and_sums_up_beside_them(tmp_path: Path) -> None:
    written(tmp_path, rounds(3), gpu_at(15.0, power_w=300.0) + gpu_at(5.0, 6.0, 25.0, events="", power_w=500.0))
    (record,) = take_stock(tmp_path, rounds_max=10)
    assert (record.execution, record.process, record.round) == (0, "a", 1)
    assert record.reason == "the GPU was too hot and the hardware slowed it down"
    assert read_records(tmp_path).entries[-1] == record
    summary = json.loads((tmp_path / "telemetry.json").read_text())
    assert (summary["rounds"], summary["discarded_rounds"]) == (2, 1)
    assert summary["quantities"]["gpu.power_w"] == {"min": 500.0, "median": 500.0, "max": 500.0}
    assert summary["recorder"] == {"wall_s": 50.0, "cpu_s": 0.1, "cpu_share": 0.002}
    assert summary["notes"] == [
        "no lock",
        "telemetry is full: later rounds were not watched",
    ]
    assert take_stock(tmp_path, rounds_max=10) == ()


def test_a_study_without_telemetry_has_an_empty_summary(tmp_path: Path) -> None:
    assert summarize(tmp_path) == {
        "rounds": 0,
        "discarded_rounds": 0,
        "notes": [],
        "quantities": {},
        "recorder": {"wall_s": 0, "cpu_s": 0},
    }


def test_telemetry_that_cannot_be_judged_costs_the_study_nothing(tmp_path: Path) -> None:
    written(tmp_path, rounds(1), [])
    with (tmp_path / TELEMETRY_FILE).open("ab") as file:
        file.write(format_line(1.0, "recorder", {"event": "end", "wall_s": "much", "cpu_s": 0}))
    assert take_stock(tmp_path, rounds_max=10) == ()
    assert "telemetry could not be judged" in (tmp_path / "log.txt").read_text()
    assert len(read_telemetry(tmp_path).events) == 3
