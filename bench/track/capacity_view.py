"""The view of an experiment that a capacity's run links to: throughput against size, relative to `none`.

It stands beside the view of the studies of the same model and device (`bench.track.view`). Axes are relative, since one
experiment may hold capacities along several axes: times none's size, and shares of its throughput.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from bench.track.view import MAX_RUNS, SHARED_VIEW

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

LARGEST, TIMES_NONE, RELATIVE = "capacity/largest", "capacity/times_none", "throughput/relative"
RATE, MARGIN = "throughput/units_per_s", "capacity/margin_mib"
SECTION = "Throughput against size, relative to none"
COLUMNS = (
    *(("tags", name) for name in ("capacity", "ended", "on_frontier", "verdict")),
    *(("metrics", name) for name in (LARGEST, TIMES_NONE, RELATIVE, RATE, MARGIN)),
    *(("params", name) for name in ("capacity.axis", "capacity.limit_bytes", "placement.regions", "placement.keeps")),
)


def capacity_view_state() -> str:
    """JSON as MLflow 3 reads it; what is not named here keeps MLflow's default."""
    section = "boundary-bench-capacity"
    scatter = {
        "type": "SCATTER",
        "uuid": "boundary-bench-capacity-scatter",
        "metricSectionId": section,
        "deleted": False,
        "isGenerated": False,
        "runsCountToCompare": MAX_RUNS,
        "xaxis": {"key": TIMES_NONE, "type": "METRIC"},
        "yaxis": {"key": RELATIVE, "type": "METRIC"},
    }
    state = {
        # Ordered by a metric, MLflow shows runs flat. Under their parents they are folded, and no chart has them.
        "orderByKey": f"metrics.`{TIMES_NONE}`",
        "orderByAsc": False,
        "selectedColumns": [f"{kind}.`{name}`" for kind, name in COLUMNS],
        "runsHiddenMode": "SHOW_ALL",
        "isAccordionReordered": True,
        "compareRunCharts": [scatter],
        "compareRunSections": [{"uuid": section, "name": SECTION, "display": True, "isReordered": True}],
    }
    return json.dumps(state, separators=(",", ":"))


def capacity_view_key() -> str:
    """As MLflow makes it: the same state has the same key."""
    return hashlib.sha256(capacity_view_state().encode()).hexdigest()


def capacity_view_link(experiment_id: str, *, charts: bool) -> str:
    """Address of the view inside MLflow's UI: relative, so it holds whatever the server is called."""
    mode = "CHART" if charts else "TABLE"
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={capacity_view_key()}&compareRunsMode={mode}"


def put_capacity_view(client: MlflowClient, experiment_id: str) -> None:
    """Adds the view to an experiment that lacks it."""
    from mlflow.exceptions import MlflowException

    name = SHARED_VIEW + capacity_view_key()
    if client.get_experiment(experiment_id).tags.get(name) == capacity_view_state():
        return
    try:
        client.set_experiment_tag(experiment_id, name, capacity_view_state())
    except MlflowException:
        # Of two writers that add the same tag at once, a database refuses one.
        if client.get_experiment(experiment_id).tags.get(name) != capacity_view_state():
            raise
