"""The memory timelines that the HTML report holds, and words where a placement has none."""

from __future__ import annotations

import math
from typing import Any

from bench.records import Forecasts
from bench.records.forecast import FAKE_STEP
from bench.records.timeline import Timeline, Timelines
from bench.report.memory_colours import COLOURS
from bench.report.quantities import memory_unit
from bench.spec import OWN_TARGET, StudySpec
from bench.trace.categories import CATEGORIES

REMAKE = (
    "To have it, remove forecast.json from the study's folder and give the same sweep command again: it forecasts anew "
    "and measures only what is missing. Then export again."
)


def timeline_data(timeline: Timeline) -> dict[str, Any]:
    """For the page's program."""
    phases = [
        {"name": mark.phase, "batch": mark.micro_batch, "begin": mark.begin, "made": mark.made, "peak": mark.peak_bytes}
        for mark in timeline.phases
    ]
    return {
        "peak": timeline.peak_bytes,
        "peakPoint": timeline.peak_point,
        "peakOp": timeline.peak_op,
        "peakModule": timeline.peak_module,
        "peakInReplay": timeline.peak_in_replay,
        "width": timeline.width,
        "at": timeline.positions,
        "made": timeline.made,
        "remade": timeline.remade,
        "bytes": [timeline.by_category.get(name, (0,)) for name in CATEGORIES],
        "phases": phases,
    }


def category_data() -> list[dict[str, str]]:
    """Lowest in the stack first."""
    return [{"name": name, "colour": COLOURS[name]} for name in CATEGORIES]


def origin_of(timeline: Timeline, forecasts: Forecasts, measured_bytes: int | None) -> str:
    """Sentences on where the timeline comes from, how its peak compares to the measured one, and what it leaves out."""
    forecast = forecasts.placements.get(timeline.placement)
    is_whole = forecast is None or forecast.method == FAKE_STEP
    way = "run on tensors without memory" if is_whole else "worked out from the plain step"
    told = [f"A forecast: the step was {way}."]
    unit = memory_unit([timeline.peak_bytes])
    if forecast is not None and forecast.peak_allocated_bytes != timeline.peak_bytes:
        beyond = f"{unit.text(forecast.peak_allocated_bytes - timeline.peak_bytes)} {unit.name}"
        told.append(
            f"Blocks are as large as was asked for; what the allocator rounds up and libraries keep adds {beyond} to "
            "the forecast peak."
        )
    elif measured_bytes is not None:
        off = timeline.peak_bytes - measured_bytes
        apart = f"{abs(off):,} bytes {'above' if off > 0 else 'below'}" if off else "to the byte"
        told.append(f"Its peak is {apart} the measured one.")
    if timeline.largest_error_bytes:
        least = 10.0**-unit.decimals * unit.size
        off_by = f"{unit.text(math.ceil(timeline.largest_error_bytes / least) * least)} {unit.name}"
        told.append(
            f"Of all its moments {len(timeline.positions)} are kept; the others lie within {off_by} of the lines."
        )
    return " ".join(told)


def why_none(placement: str, study: StudySpec, forecasts: Forecasts, timelines: Timelines) -> str:
    """Why a placement has no timeline, and how to get one."""
    if placement in forecasts.missing:
        return f"No memory timeline: it comes with the forecast, and there is none. {forecasts.missing[placement]}"
    if study.controls.model.target == OWN_TARGET:
        return "No memory timeline: only the script that this step is from can build it, so it was not forecast."
    if timelines.problem is not None:
        return f"No memory timeline: {timelines.problem}"
    if placement in forecasts.placements:
        return f"No memory timeline: the forecast is from before timelines were kept. {REMAKE}"
    return f"No memory timeline: the placement was not forecast. {REMAKE}"
