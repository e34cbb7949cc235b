"""One page that shows the memory of a step and answers questions about it: every tensor, from op to op.

The page needs nothing but itself: the log is inside it as JSON, the program is plain JavaScript (`memory_viewer_*.js`),
and its own policy forbids it to load anything.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from bench.explain.leaks import leaked
from bench.explain.passes import is_in_replay
from bench.report.memory_axis import aligned_axes
from bench.report.memory_colours import COLOURS
from bench.report.memory_data import MemoryData, memory_data
from bench.report.memory_modules import module_runs
from bench.report.memory_words import amount, moment, peak_of, small_amount
from bench.report.quantities import memory_unit
from bench.trace.categories import CATEGORIES, classify
from bench.trace.log import StepLog

PARTS = ("step", "picture", "page")
"""Of the program, in the order in which they stand in the page."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
POSITION_DECIMALS = 2


def write_memory_html(path: Path, log: StepLog, *, other: StepLog | None = None) -> Path:
    """Writes the page of `log`, with `other` to switch to and as an outline behind it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(memory_html(log, title=f"{log.model}, {log.placement}", other=other), encoding="utf-8")
    return path


def memory_html(log: StepLog, *, title: str, other: StepLog | None = None) -> str:
    logs = [log] if other is None else [log, other]
    axes = aligned_axes(*logs)
    pictures = [memory_data(step, axis) for step, axis in zip(logs, axes, strict=True)]
    content = {
        "title": title,
        "width": axes[0].width,
        "categories": [{"name": name, "colour": COLOURS[name]} for name in CATEGORIES],
        "steps": [_step(step, data) for step, data in zip(logs, pictures, strict=True)],
    }
    values = {
        "policy": html.escape(POLICY),
        "title": html.escape(title),
        "style": _asset("memory_viewer.css"),
        "summary": "".join(map(_summary, pictures)),
        "data": as_script_json(content),
        "script": "\n".join(_asset(f"memory_viewer_{part}.js") for part in PARTS),
    }
    # In one pass, so that a title with a mark in it stays a title.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: values[mark[1]], _asset("memory_viewer.html"))


def as_script_json(content: Any) -> str:
    """JSON that cannot end the script element that it stands in, whatever its texts are."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    return resources.files("bench.report").joinpath(name).read_text(encoding="utf-8")


def _step(log: StepLog, data: MemoryData) -> dict[str, Any]:
    """The log in columns, texts numbered once. What is older than the step and unknown is left out of the alive."""
    classes = tuple(classify(log))
    names, modules = _Numbers(), _Numbers()
    return {
        "model": log.model,
        "placement": log.placement,
        "device": log.device,
        "isFake": log.is_fake,
        "peak": {"bytes": data.peak.bytes, "events": data.peak.events},
        "events": list(log.events),
        "states": [round(x, POSITION_DECIMALS) for x in data.axis.states],
        "ops": {
            "name": [names(op.name) for op in log.ops],
            "module": [modules(op.module) for op in log.ops],
            "source": [op.source for op in log.ops],
            "replayed": [int(is_in_replay(log, op.region_pass)) for op in log.ops],
            "begin": [op.begin for op in log.ops],
            "end": [op.end for op in log.ops],
            "reads": [list(op.reads) for op in log.ops],
        },
        "names": names.texts,
        "modules": modules.texts,
        "sources": list(log.sources),
        "tensors": {
            "bytes": [s.size_bytes for s in log.storages],
            "category": [CATEGORIES.index(one.category) for one in classes],
            "name": [s.name for s in log.storages],
            "shape": [s.shape and " × ".join(map(str, s.shape)) for s in log.storages],
            "dtype": [s.dtype for s in log.storages],
            "op": [s.op for s in log.storages],
            "birth": [s.birth for s in log.storages],
            "death": [s.death for s in log.storages],
        },
        "leaked": list(leaked(log, classes)),
        "phases": [
            {"name": span.phase, "batch": span.micro_batch, "left": span.left, "right": span.right}
            for span in data.axis.phases
        ],
        "marks": [{"name": mark.phase, "batch": mark.micro_batch, "begin": mark.begin} for mark in log.phases],
        "passes": [
            {
                "region": p.region,
                "kind": p.kind,
                "depth": bar.depth,
                "begin": p.begin,
                "end": p.end,
                "left": bar.left,
                "right": bar.right,
                "boundary": list(p.boundary),
            }
            for p, bar in zip(log.passes, data.passes, strict=True)
        ],
        "runs": [
            {"group": run.group, "number": run.number, "phase": run.phase, "left": run.left, "right": run.right}
            for run in module_runs(log, data.axis)
        ],
    }


def _summary(data: MemoryData) -> str:
    """The step's peak in words and as a table: what the picture says, for those who do not see it."""
    unit = memory_unit([data.peak.bytes])
    rows = "".join(
        f"<tr><th scope=row>{html.escape(category)}</th><td>{small_amount(size, unit)}</td><td>{size:,}</td></tr>"
        for category, size in reversed(data.peak.by_category.items())
    )
    where = html.escape(moment(data.peak, data.num_micro_batches))
    return (
        f"<section><h3>{html.escape(data.placement)}</h3>"
        f"<p>{peak_of(data, unit)} in {where}.</p>"
        "<table><thead><tr><th scope=col>category<th scope=col>at the peak<th scope=col>bytes</tr></thead>"
        f"<tbody>{rows}<tr><th scope=row>all</th><td>{amount(data.peak.bytes, unit)}</td><td>{data.peak.bytes:,}</td>"
        "</tr></tbody></table></section>"
    )


class _Numbers:
    """Numbers texts as they come."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._number: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._number:
            self._number[text] = len(self.texts)
            self.texts.append(text)
        return self._number[text]
