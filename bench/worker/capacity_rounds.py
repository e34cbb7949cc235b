"""`python -m bench.worker.capacity_rounds`: timed samples of placements, each at its own size, in shuffled rounds.

The model is built once; batches and placements are swapped. Nothing watches the timed steps, and no memory is read.
"""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.capacity.placing import placement_at
from bench.capacity.types import DOES_NOT_FIT
from bench.measure import allocator_state, has_settled, is_out_of_memory, time_steps
from bench.spec import Controls, PlacementEntry
from bench.worker.bench import Bench
from bench.worker.capacity_lines import Lines, serve
from bench.worker.capacity_step import build_step, num_units, swap_batches
from bench.worker.effect import check_effect
from bench.worker.failure import outcome_of
from bench.worker.setup import set_up_process
from bench.worker.warmup import MAX_SKIPPED_STEPS


@dataclass(frozen=True, kw_only=True)
class PointToTime:
    entry: PlacementEntry
    size: int
    controls: Controls
    """At the size; all points of a request differ in the workload alone."""


@dataclass(frozen=True, kw_only=True)
class AskedRound:
    round: int
    order: tuple[int, ...]
    """Indices of points."""
    first_position: int = 0
    """In the round, of the first of them; others of it may have processes of their own."""


@dataclass(frozen=True, kw_only=True)
class RoundsRequest:
    points: tuple[PointToTime, ...]
    rounds: tuple[AskedRound, ...]
    unit: str
    cap_s: float | None = None
    """No further round begins that would end later, counted from the start of the first."""
    entries: tuple[PlacementEntry, ...] = ()
    options: Mapping[str, Any] | None = None
    """Of the generators, where the axis changes the model."""


class _Timing:
    def __init__(self, request: RoundsRequest, lines: Lines) -> None:
        self._request = request
        self._lines = lines
        self._process = uuid.uuid4().hex[:8]
        first = request.points[0].controls
        self._device = set_up_process(first)
        self._step = build_step(first, self._device, lines)
        self._texts = [self._text(point.entry) for point in request.points]
        self._bench = Bench(first, self._device, self._texts, step=self._step)
        self._at: int | None = None
        """The point whose batches the step has."""
        self._failed: set[int] = set()

    def warm_up(self) -> None:
        """One step at each size, so that kernels of its shapes are made and, on the CPU, the heap has grown; the
        largest comes first, since the others then find what they need. Then the first point until it has settled."""
        sizes: dict[int, int] = {}
        for index, point in enumerate(self._request.points):
            sizes.setdefault(point.size, index)
        for size in sorted(sizes, reverse=True):
            self._guarded(sizes[size], partial(self._warm_step, sizes[size]))
        if 0 not in self._failed:
            self._guarded(0, self._settle)

    def run(self) -> None:
        began, longest_s = time.monotonic(), 0.0
        for asked in self._request.rounds:
            round_began = time.monotonic()
            for position, index in enumerate(asked.order):
                if index not in self._failed:
                    self._sample(index, asked.round, asked.first_position + position)
            longest_s = max(longest_s, time.monotonic() - round_began)
            cap_s = self._request.cap_s
            if cap_s is not None and time.monotonic() - began + longest_s > cap_s:
                return

    def _sample(self, index: int, number: int, position: int) -> None:
        def take() -> None:
            point = self._request.points[index]
            protocol, step = point.controls.protocol, self._step
            switched = self._swap(index)
            with self._bench.placed(self._texts[index]) as applied:
                # An emptied cache asks the driver for segments again, which is not the step's time.
                for _ in range(protocol.settle_steps + (switched and self._device.type == "cuda")):
                    step.run()
                gc.collect()
                applied.reset_counts()
                before = step.optimizer_steps
                times = time_steps(step.run, protocol.steps_per_sample, self._device)
                taken = step.optimizer_steps - before
                if taken != protocol.steps_per_sample and step.scaler is None:
                    raise RuntimeError(f"{taken} optimizer steps were taken, expected {protocol.steps_per_sample}")
                check_effect(applied, self._bench.wiring, protocol.steps_per_sample, len(step.batches))
            workload = point.controls.workload
            self._lines.tell(
                "sample",
                {
                    "process": self._process,
                    "placement": point.entry.text,
                    "size": point.size,
                    "accumulation": len(step.batches),
                    "round": number,
                    "position": position,
                    "step_times_ms": [round(t, 4) for t in times.steps_ms],
                    "num_samples": workload.micro_batch * len(step.batches),
                    "num_units": num_units(step, workload, self._request.unit),
                    "optimizer_steps": taken,
                    "batch_digest": step.batch_digest,
                },
            )

        self._guarded(index, take)

    def _warm_step(self, index: int) -> None:
        self._swap(index)
        with self._bench.placed(self._texts[index]):
            for _ in range(MAX_SKIPPED_STEPS):
                self._step.run()
                if self._step.optimizer_steps:
                    return

    def _settle(self) -> None:
        self._swap(0)
        protocol = self._request.points[0].controls.protocol
        times: list[float] = []
        states: list[tuple[int, ...]] = []
        least, most = protocol.warmup_steps_min, protocol.warmup_steps_max
        with self._bench.placed(self._texts[0]):
            while len(times) < most and not (len(times) >= least and has_settled(times, states)):
                self._lines.tell("settling", len(times))  # each step is a sign of life
                times += time_steps(self._step.run, 1, self._device).steps_ms
                states.append(allocator_state(self._device))

    def _swap(self, index: int) -> bool:
        """Whether the step has other batches now, or another placement comes."""
        if self._at == index:
            return False
        point = self._request.points[index]
        if self._at is None or point.size != self._request.points[self._at].size:
            self._at = None  # until it has them: drawing may fail
            swap_batches(self._step, point.controls.workload)
            if self._device.type == "cuda":  # blocks cut for one size are in the way of another
                gc.collect()
                torch.cuda.empty_cache()
        self._at = index
        return True

    def _guarded(self, index: int, work: Callable[[], None]) -> None:
        """Does `work`; a point that fails is told, and not tried again."""
        point = self._request.points[index]
        self._lines.tell("starting", {"placement": point.entry.text, "size": point.size})
        try:
            work()
            return
        except (Exception, SystemExit) as error:
            outcome, reason = outcome_of(error)
            told = {"outcome": DOES_NOT_FIT if is_out_of_memory(error) else outcome, "reason": reason}
        self._failed.add(index)
        self._lines.tell("failed", {"placement": point.entry.text, "size": point.size, **told})
        self._bench.recover()

    def _text(self, entry: PlacementEntry) -> str:
        options, step = self._request.options, self._step
        if options is None:
            return entry.text
        return placement_at(entry, self._request.entries, options, step.family.chains(step.model))


def measure(request: RoundsRequest, lines: Lines) -> None:
    timing = _Timing(request, lines)
    timing.warm_up()
    timing.run()


if __name__ == "__main__":
    raise SystemExit(serve(RoundsRequest, measure))
