"""The view of an experiment that a capacity's run links to: throughput against size, relative to `none`.

It stands beside the view of the studies of the same model and device (`bench.track.view`). Axes are relative, since one
experiment may hold capacities along several axes: times none's size, and shares of its throughput.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.track.experiment import set_tag
from bench.track.view import MAX_RUNS, SHARED_VIEW, state_of, view_key, view_link

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
    return state_of(TIMES_NONE, COLUMNS, [scatter], section, SECTION)


def capacity_view_link(experiment_id: str, *, charts: bool) -> str:
    return view_link(experiment_id, charts=charts, state=capacity_view_state())


def put_capacity_view(client: MlflowClient, experiment_id: str) -> None:
    """Adds the view to an experiment that lacks it."""
    state = capacity_view_state()
    name = SHARED_VIEW + view_key(state)
    if client.get_experiment(experiment_id).tags.get(name) != state:
        set_tag(client, experiment_id, name, state)
