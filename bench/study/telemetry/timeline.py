"""Telemetry and rounds on one time axis."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from bench.study.telemetry.rounds import RoundSpan
from bench.study.telemetry.sampler import GPU
from bench.study.telemetry.store import TelemetrySample


class Timeline:
    """Samples by source, in order of time."""

    def __init__(self, samples: Iterable[TelemetrySample]) -> None:
        self._samples: dict[str, list[TelemetrySample]] = {}
        for sample in sorted(samples, key=lambda sample: sample.unix_time_s):
            self._samples.setdefault(sample.source, []).append(sample)
        self._times = {source: [s.unix_time_s for s in of_source] for source, of_source in self._samples.items()}

    def during(self, span: RoundSpan, source: str, margin_s: float = 0.0) -> list[TelemetrySample]:
        """Samples of a round, and of `margin_s` before and after it. Those of a GPU that is not the worker's are not
        its own."""
        return [sample for sample in self._around(span, source, margin_s) if not is_other_gpu(span, sample)]

    def other_gpus(self, span: RoundSpan) -> set[str]:
        """PCI addresses of GPUs that were watched during a round though its worker used another."""
        others = (sample for sample in self._around(span, GPU, 0.0) if is_other_gpu(span, sample))
        return {str(sample.gpu_pci_bus_id) for sample in others}

    def _around(self, span: RoundSpan, source: str, margin_s: float) -> list[TelemetrySample]:
        times = self._times.get(source, [])
        first, last = bisect_left(times, span.begin_s - margin_s), bisect_right(times, span.end_s + margin_s)
        return self._samples.get(source, [])[first:last]


def is_other_gpu(span: RoundSpan, sample: TelemetrySample) -> bool:
    if sample.source != GPU or span.gpu_pci_bus_id is None or sample.gpu_pci_bus_id is None:
        return False
    return span.gpu_pci_bus_id != sample.gpu_pci_bus_id
