"""Memory timelines of the placements that are forecast, from what their forecasts are made of anyway."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.placement import parse_placement
from bench.records import Forecast, Forecasts
from bench.records.forecast import REARRANGED
from bench.records.timeline import Timeline
from bench.trace.compact import StepMemory, compact
from bench.trace.forecast import Forecaster
from bench.trace.log import StepLog
from bench.trace.step_memory import memory_of_log, memory_of_rearranged
from bench.worker.failure import outcome_of


class TimelineForecaster:
    """A forecaster that keeps the timeline of every whole step that it runs. A timeline that cannot be made is among
    the problems: no forecast is lost for it."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster
        self._timelines: dict[str, Timeline] = {}
        self._problems: dict[str, str] = {}

    def by_fake_step(self, placement: str) -> tuple[Forecast, StepLog]:
        forecast, log = self._forecaster.by_fake_step(placement)
        self._keep(placement, lambda: memory_of_log(log))
        return forecast, log

    def fast(self, placement: str) -> Forecast:
        return self._forecaster.fast(placement)

    def timelines(self, forecasts: Forecasts) -> tuple[dict[str, Timeline], tuple[str, ...]]:
        """Of the placements that were forecast, each by the way in which it was; and a sentence where one is missing.

        What was rearranged is worked out a second time: that takes milliseconds, and keeping it all takes memory.
        """
        for text, forecast in forecasts.placements.items():
            if forecast.method == REARRANGED:
                self._keep(text, partial(self._rearranged, text))
        missing = [(text, self._problems[text]) for text in forecasts.placements if text in self._problems]
        found = {text: self._timelines[text] for text in forecasts.placements if text in self._timelines}
        if not missing:
            return found, ()
        text, why = missing[0]
        count = f"{len(missing)} placement{'s' if len(missing) > 1 else ''}"
        return found, (f"no memory timeline of {count}, of {text} since {why}",)

    def _keep(self, text: str, memory: Callable[[], StepMemory]) -> None:
        try:
            self._timelines[text] = compact(memory())
        except Exception as error:
            self._problems[text] = outcome_of(error)[1]

    def _rearranged(self, text: str) -> StepMemory:
        forecaster, placement = self._forecaster, parse_placement(text)
        found = forecaster.rearranged(placement)
        return memory_of_rearranged(found, forecaster.plain_recording, forecaster.rearranger.script, placement)
