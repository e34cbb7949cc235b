"""The view of an experiment that MLflow's UI opens by a link: the columns and charts that a frontier is read by.

MLflow keeps the views that people share as tags of the experiment, and opens one by its key in the address. This one is
put there when the experiment is made. MLflow has no default view, so the descriptions link to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

SHARED_VIEW = "mlflow.sharedViewState."
"""Prefix of the tag; the rest is the key of the view."""
STEP_TIME, TIME_RATIO = "time/step_time_ms", "time/ratio"
PEAK, PEAK_SHARE = "memory/peak_allocated_mib", "memory/peak_share_of_reference"
CONFIDENCE = "frontier/confidence"
COLUMNS = (
    *(("tags", name) for name in ("completeness", "outcome", "on_frontier", "verdict")),
    *(("metrics", name) for name in (STEP_TIME, TIME_RATIO, PEAK, PEAK_SHARE, CONFIDENCE)),
    *(("params", name) for name in ("placement.regions", "placement.keeps", "precision")),
)
SECTION = "Step time against peak memory"
MAX_RUNS = 100
"""Runs that a chart shows; MLflow's own bound is 10 for parallel coordinates."""


def view_state() -> str:
    """Of studies."""
    section = "boundary-bench"
    card = {"metricSectionId": section, "deleted": False, "isGenerated": False, "runsCountToCompare": MAX_RUNS}
    scatter = card | {
        "type": "SCATTER",
        "uuid": "boundary-bench-scatter",
        "xaxis": {"key": PEAK, "type": "METRIC"},
        "yaxis": {"key": STEP_TIME, "type": "METRIC"},
    }
    parallel = card | {
        "type": "PARALLEL",
        "uuid": "boundary-bench-parallel",
        "selectedParams": ["placement.regions", "placement.keeps"],
        "selectedMetrics": [PEAK, STEP_TIME],
        "showAllRuns": True,
    }
    return state_of(PEAK, COLUMNS, [scatter, parallel], section, SECTION)


def state_of(order_by: str, columns: Sequence[tuple[str, str]], charts: Sequence[Any], section: str, title: str) -> str:
    """JSON as MLflow 3 reads it; what is not named here keeps MLflow's default.

    Args:
        order_by: a metric: MLflow then shows runs flat. Under their parents they are folded, and no chart has them.
        columns: (`tags`, `metrics` or `params`, name).
        section: id of the one section that holds the charts.
    """
    state = {
        "orderByKey": f"metrics.`{order_by}`",
        "orderByAsc": False,
        "selectedColumns": [f"{kind}.`{name}`" for kind, name in columns],
        "runsHiddenMode": "SHOW_ALL",
        "isAccordionReordered": True,
        "compareRunCharts": list(charts),
        "compareRunSections": [{"uuid": section, "name": title, "display": True, "isReordered": True}],
    }
    return json.dumps(state, separators=(",", ":"))


def view_key(state: str | None = None) -> str:
    """As MLflow makes it: the same state has the same key, by default that of studies."""
    return hashlib.sha256((state or view_state()).encode()).hexdigest()


def view_link(experiment_id: str, *, charts: bool, state: str | None = None) -> str:
    """Address of the view inside MLflow's UI: relative, so it holds whatever the server is called."""
    mode = "CHART" if charts else "TABLE"
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={view_key(state)}&compareRunsMode={mode}"
