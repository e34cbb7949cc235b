"""Telemetry around a worker: what can be watched here, and what its rounds come to when it has ended."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.device import NvmlUnavailableError, find_gpu, open_nvml
from bench.records import LOG_FILE, RecordWriter, RoundDiscarded, read_records
from bench.spec import Controls
from bench.study.telemetry.cpu import CpuSampler
from bench.study.telemetry.judge import rounds_to_discard
from bench.study.telemetry.nvml import NvmlSampler
from bench.study.telemetry.processes import Family
from bench.study.telemetry.recorder import Recorder
from bench.study.telemetry.sampler import Sampler, Scalar
from bench.study.telemetry.store import read_telemetry
from bench.study.telemetry.summary import summarize


@contextmanager
def recording(directory: Path, controls: Controls, problems: Sequence[str] = ()) -> Iterator[None]:
    """Records the study's device while the block runs. `problems` are noted with the telemetry's own."""
    try:
        samplers, facts = _samplers(controls)
    except Exception as error:  # the study goes on unwatched
        samplers, facts = [], {"problem": f"nothing was watched: {type(error).__name__}: {error}"}
    told = [*problems, *([facts["problem"]] if "problem" in facts else [])]
    if told:
        facts["problem"] = "; ".join(map(str, told))
    with Recorder(directory, samplers, facts):
        yield


def take_stock(directory: Path, rounds_max: int) -> tuple[RoundDiscarded, ...]:
    """Discards the rounds that the hardware spoiled, appending a record for each, and writes `telemetry.json`. To be
    called when no worker is writing. `rounds_max` is the protocol's; see `rounds_to_discard`. A fault in here costs the
    study nothing: it is told in its log."""
    try:
        discarded = _discard(directory, rounds_max)
        summarize(directory)
    except Exception:
        with suppress(OSError), (directory / LOG_FILE).open("a", encoding="utf-8") as log:
            log.write(f"telemetry could not be judged:\n{traceback.format_exc()}")
        return ()
    return discarded


def _discard(directory: Path, rounds_max: int) -> tuple[RoundDiscarded, ...]:
    spoiled = rounds_to_discard(read_records(directory), read_telemetry(directory), rounds_max)
    discarded = tuple(
        RoundDiscarded(
            execution=span.execution,
            process=span.process,
            unix_time_s=round(time.time(), 3),
            round=span.round,
            reason=reason,
        )
        for span, reason in spoiled.items()
    )
    if discarded:
        writer = RecordWriter(directory)
        writer.append_all(discarded)
        writer.close()
    return discarded


def _samplers(controls: Controls) -> tuple[list[Sampler], dict[str, Scalar]]:
    """What can be watched, and what is to be said of it at the start."""
    family = Family()
    samplers: list[Sampler] = []
    facts: dict[str, Scalar] = {}
    if controls.device.kind == "cuda":
        name = controls.facts.device_name if controls.facts else None
        try:
            nvml = open_nvml()
            gpu = find_gpu(nvml, controls.device.index, name)
            samplers.append(NvmlSampler(nvml, gpu, family.pids))
            facts["gpu_pci_bus_id"] = gpu.pci_bus_id
        except NvmlUnavailableError as error:
            facts |= {"gpu_pci_bus_id": "", "problem": f"the GPU was not watched: {error}"}
    samplers.append(CpuSampler(family))
    return samplers, facts
