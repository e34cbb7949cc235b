"""The rounds of one execution so far, and whether they are enough: the same for a worker and a simulated study."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bench.records import TIME_CAP, TimeSample, choose_reference
from bench.spec import StudySpec
from bench.stats.estimate import estimate_ratio, half_width
from bench.stats.pairs import paired_ratios
from bench.stats.stopping import StoppingRule, Widths, stop_reason


@dataclass(frozen=True, kw_only=True)
class End:
    """Of an execution."""

    rounds: int
    reason: str
    half_widths: Widths
    """Reached by each placement's ratio."""


class Rounds:
    def __init__(self, study: StudySpec, samples: Sequence[TimeSample], done: int, alive: Collection[str]) -> None:
        """
        Args:
            samples: what earlier processes of the execution measured.
            done: the whole rounds among them, the latest ones.
            alive: placements that have not failed.
        """
        protocol = study.controls.protocol
        self._study = study
        self._rule = StoppingRule(
            target_half_width=protocol.target_half_width,
            rounds_min=protocol.rounds_min,
            rounds_max=protocol.rounds_max,
        )
        self._samples: list[TimeSample] = []
        self._reference: str | None = None
        self._logs: dict[str, list[float]] = {}
        self._history: list[Widths] = []
        self.done = done
        numbers = sorted({sample.round for sample in samples})
        for index, number in enumerate(numbers):
            self._add([sample for sample in samples if sample.round == number], alive)
            if index >= len(numbers) - done:
                self._history.append(self._widths(alive))

    def end(self) -> End | None:
        """Why there need be no further round, where there need not."""
        reason = stop_reason(self._history, self._rule) if self._history else None
        return None if reason is None else self._end(reason)

    def complete(self, samples: Sequence[TimeSample], alive: Collection[str], out_of_time: bool) -> End | None:
        """Takes in a whole round; `out_of_time` says that another one would not fit under the time cap."""
        self.done += 1
        self._add(samples, alive)
        self._history.append(self._widths(alive))
        return self.end() or (self._end(TIME_CAP) if out_of_time else None)

    def _end(self, reason: str) -> End:
        return End(rounds=self.done, reason=reason, half_widths=self._history[-1])

    def _add(self, samples: Sequence[TimeSample], alive: Collection[str]) -> None:
        self._samples += samples
        reference = choose_reference(self._study, self._samples, alive)
        if reference != self._reference:
            self._reference, self._logs = reference, {}
            samples = self._samples
        if reference is not None:
            for text, ratios in paired_ratios(samples, reference).items():
                self._logs.setdefault(text, []).extend(ratio.log_ratio for ratio in ratios)

    def _widths(self, alive: Collection[str]) -> Widths:
        compared = [text for text in dict.fromkeys(s.placement for s in self._samples) if text in alive]
        return {text: self._width(text) for text in compared if text != self._reference}

    def _width(self, text: str) -> float | None:
        logs = self._logs.get(text)
        width = half_width(estimate_ratio([logs])) if logs else None
        return None if width is None else round(width, 6)
