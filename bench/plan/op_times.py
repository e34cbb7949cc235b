"""Times of every op of a real step, taken where it runs.

They come from steps that are watched, so they serve planning alone: no step time is ever made of them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench.measure.clock import time_steps
from bench.step.interface import FORWARD, Step
from bench.trace.blocks import Blocks
from bench.trace.ledger import AllocatorLedger, Key, Tick
from bench.trace.recorder import Recorder

OVERHEAD_CALLS = 400


class UnsteadyStepError(RuntimeError):
    """The step does not dispatch the same operators each time, so they cannot be timed one by one."""


@dataclass(frozen=True, kw_only=True)
class OpTimes:
    names: tuple[str, ...]
    """Of the step's ops, those that `bench.trace.log.Op` counts, in order."""
    ms: tuple[tuple[float, ...], ...]
    """Of each watched step, of each op; shape (steps, ops). On the CPU with the Python around the op, views included;
    on a GPU of the kernels alone. The watching itself is taken off."""
    plain_ms: tuple[float, ...]
    """Of the unwatched step before each of the watched ones."""
    calls_per_op: float
    """Dispatched calls of the forwards over their ops: views and values that are read pass a dispatch mode too."""


def time_ops(step: Step, num_steps: int) -> OpTimes:
    """Runs `1 + 2 * num_steps` plain steps, every second one unwatched. They change weights and optimizer state as any
    steps do.

    Raises:
        UnsteadyStepError: as it says.
    """
    watch = _Watch(step)
    with watch.timer, watch.recording():
        step.run(watch.on_phase)
    overhead = _overhead_ms(step.device)
    measured: list[tuple[float, ...]] = []
    plain: list[float] = []
    for _ in range(num_steps):
        plain += time_steps(step.run, 1, step.device).steps_ms
        timer = _Timer(step.device)
        with timer:
            step.run()
        if timer.called != watch.timer.called:
            raise UnsteadyStepError("two steps of the plain model did not dispatch the same operators")
        measured.append(_of_ops(timer.spans_ms(), watch.calls, overhead, timer.spans_touch))
    return OpTimes(names=watch.names, ms=tuple(measured), plain_ms=tuple(plain), calls_per_op=watch.calls_per_op)


def _of_ops(spans: Sequence[float], calls: Sequence[int], overhead_ms: float, spans_touch: bool) -> tuple[float, ...]:
    """
    Args:
        spans: of each dispatched call.
        calls: of each op, its number among them.
        spans_touch: the views before an op are taken to be part of it; else it has its own span alone.
    """
    less = [max(span - overhead_ms, 0.0) for span in spans]
    if not spans_touch:
        return tuple(less[call] for call in calls)
    until = list(itertools.accumulate(less, initial=0.0))
    starts = [0, *(call + 1 for call in calls)]
    return tuple(until[call + 1] - until[start] for start, call in zip(starts, calls, strict=False))


class _Clock(Protocol):
    spans_touch: bool
    """Whether a span begins where the one before ended, and not with its own call."""

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def spans_ms(self) -> list[float]: ...


class _HostClock:
    spans_touch = True

    def __init__(self) -> None:
        self._marks = [time.perf_counter_ns()]

    def begin(self) -> None:
        pass

    def end(self) -> None:
        self._marks.append(time.perf_counter_ns())

    def spans_ms(self) -> list[float]:
        return [(end - begin) * 1e-6 for begin, end in itertools.pairwise(self._marks)]


class _CudaClock:
    """Events on the current stream, read once the device has caught up. What the host does meanwhile is not counted."""

    spans_touch = False

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._begun: list[torch.cuda.Event] = []
        self._ended: list[torch.cuda.Event] = []

    def begin(self) -> None:
        self._begun.append(self._mark())

    def end(self) -> None:
        self._ended.append(self._mark())

    def spans_ms(self) -> list[float]:
        torch.cuda.synchronize(self._device)
        return [begin.elapsed_time(end) for begin, end in zip(self._begun, self._ended, strict=True)]

    def _mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


class _Timer(TorchDispatchMode):
    """One span for each dispatched call."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._clock: _Clock = _CudaClock(device) if device.type == "cuda" else _HostClock()
        self.called: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._clock.begin()
        result = func(*args, **(kwargs or {}))
        self.called.append(func)
        self._clock.end()
        return result

    def spans_ms(self) -> list[float]:
        return self._clock.spans_ms()

    @property
    def spans_touch(self) -> bool:
        return self._clock.spans_touch


class _Identities(AllocatorLedger):
    """Tells storages apart while the step runs, and keeps nothing for later."""

    def __init__(self, device_type: str) -> None:
        super().__init__()
        self.device_type = device_type

    def tick(self) -> Tick:
        return 0

    def key(self, tensor: torch.Tensor) -> Key | None:
        """Empty storages have no address but are storages, as on fake tensors."""
        if tensor.device.type != self.device_type or tensor.layout != torch.strided:
            return None
        return tensor.untyped_storage()._cdata

    def _joined(self) -> Blocks:
        raise RuntimeError("no allocator was watched")


class _Watch(Recorder):
    """Says which of the dispatched calls are ops, in the recorder's sense."""

    def __init__(self, step: Step) -> None:
        super().__init__(step, _Identities(step.device.type))
        self.timer = _Timer(step.device)
        """To be entered before, so that it lies below and sees what the recorder lets through."""
        self.calls: list[int] = []
        """Of each op, its number among the dispatched calls."""
        self._forward_calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = len(self._seen.ops)
        self._forward_calls += self._phase == FORWARD
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if len(self._seen.ops) > before:
            self.calls.append(len(self.timer.called) - 1)
        return result

    @property
    def calls_per_op(self) -> float:
        return self._forward_calls / max(sum(op.phase == FORWARD for op in self._seen.ops), 1)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(op.name for op in self._seen.ops)


def _overhead_ms(device: torch.device) -> float:
    """By how much a span is longer than what runs in it takes where nobody watches."""
    tensor = torch.zeros((), device=device)

    def calls() -> float:
        begun = time.perf_counter_ns()
        for _ in range(OVERHEAD_CALLS):
            tensor.add_(0)
        return (time.perf_counter_ns() - begun) * 1e-6

    with torch.no_grad():
        timer = _Timer(device)
        with timer:
            calls()
        watched = sorted(timer.spans_ms())[OVERHEAD_CALLS // 2]
        if not timer.spans_touch:  # two events around a kernel that does nothing
            return watched
        return max(watched - calls() / OVERHEAD_CALLS, 0.0)
