"""A capacity directory's projections: answer, tables, plots, MLflow. All are rebuilt from its records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.capacity.store import read_capacity_records, read_spec, write_answer
from bench.capacity.summary import summarise
from bench.capacity.types import Answer
from bench.cli.tracking import to_store
from bench.report.capacity_files import write_capacity_files
from bench.track.capacity_run import publish_capacity


def redraw_capacity(directory: Path) -> Answer:
    """Works the answer out of the records again, and writes it with its tables and plots."""
    answer = summarise(read_spec(directory), read_capacity_records(directory))
    write_answer(directory, answer)
    write_capacity_files(directory, answer)
    return answer


def publish_answer(directory: Path, answer: Answer, results: Path, options: Mapping[str, Any]) -> bool:
    """Brings the capacity to the tracker; False where the store could not take it, which is told and not raised."""
    published, is_done = to_store(results, options, lambda uri: publish_capacity(directory, answer, uri))
    if published is not None:
        print(f"MLflow: {published.experiment_name}, run {published.parent_run_id}")
    return is_done
