"""`plan`: the placement that costs least within a memory budget, or a frontier of them; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.measured import asked_step
from bench.cli.planning import budget_texts, replay_shares
from bench.cli.progress import ProgressDisplay
from bench.cli.request import CONTROL_GROUPS, refuse_unknown
from bench.cli.target import asked_target
from bench.frontier import load_frontier
from bench.records import Plan, PlanRequest, Plans
from bench.records.plan import MEASURED
from bench.report.plan_answer import floor_line, plan_lines, plans_table, source_line
from bench.report.terminal import show
from bench.spec import Controls, SpecError, to_mapping
from bench.study import PlanAnswer, Progress, ask_plans
from bench.study.device_lock import hold_device
from bench.target.spec import Target

OPTIONS = (*CONTROL_GROUPS, "caps", "placements", "target", "budget", "count", "study", "results")


@dataclass(frozen=True, kw_only=True)
class Asked:
    controls: Controls
    target: Target | None
    budgets: tuple[str, ...]
    """Empty for a frontier."""
    count: int
    directory: Path | None
    """Of the study that is named."""
    measured_shares: Mapping[str, float]

    @property
    def request(self) -> PlanRequest:
        return PlanRequest(count=0 if self.budgets else self.count, budgets=self.budgets)


def run(overrides: Sequence[str]) -> int:
    return run_verb("plan", plan, overrides)


def plan(options: Options) -> Answer:
    asked = _asked_for(options)
    answer = _answered(asked)
    plans = answer.plans
    found = _by_budget(asked.budgets, plans)
    print(_title(asked, answer))
    if asked.budgets:
        _print_budgets(found, plans)
    elif plans.rows:
        _print_frontier(plans)
    if plans.rows or plans.missing:
        print(source_line(plans, is_corrected=bool(asked.measured_shares) and plans.cost_source == MEASURED))
        print(floor_line(plans))
    for note in plans.notes:
        print(f"note: {note}")
    is_whole = all(found.values()) if asked.budgets else bool(plans.rows)
    return Answer(exit_code=COMPLETE if is_whole else PARTIAL, data=_data(asked, answer, found))


def _asked_for(options: Options) -> Asked:
    """Raises SpecError for a request that cannot be meant, before anything is built."""
    refuse_unknown(options, OPTIONS)
    count = options["count"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise SpecError(f"count: expected a whole number of at least 1, got {count!r}")
    budgets = budget_texts(options["budget"], "budget")
    target = asked_target(options["target"])
    controls, _, directory = asked_step(options)
    measured = {} if directory is None or target is not None else replay_shares(load_frontier(directory))
    return Asked(
        controls=controls, target=target, budgets=budgets, count=count, directory=directory, measured_shares=measured
    )


def _answered(asked: Asked) -> PlanAnswer:
    name = f"planning {asked.controls.model.name}"
    with ProgressDisplay() as display:
        display(Progress(done=0, total=0, label=name, seconds_left=None))
        # For a GPU that is not here no step runs on a device, so none is waited for.
        with nullcontext() if asked.target is not None else hold_device(asked.controls, name, display):
            return ask_plans(
                asked.controls,
                asked.request,
                target=None if asked.target is None else to_mapping(asked.target),
                measured_shares=asked.measured_shares,
            )


def _by_budget(budgets: Sequence[str], plans: Plans) -> dict[str, Plan | None]:
    """Budget as written → its plan, or None where no placement gets there; plans come in the order of the request."""
    rows = iter(plans.rows)
    return {text: None if text in plans.missing else next(rows, None) for text in budgets}


def _title(asked: Asked, answer: PlanAnswer) -> str:
    workload = asked.controls.workload
    device = answer.facts.device_name if answer.facts is not None else asked.controls.device.kind
    if asked.target is not None:
        device = f"{asked.target.device_name} (not here)"
    batch = " × ".join(str(size) for size in (workload.micro_batch, *workload.shape.values()))
    return f"{asked.controls.model.name} on {device}, {asked.controls.precision}, {batch}: planned, not measured\n"


def _print_budgets(found: Mapping[str, Plan | None], plans: Plans) -> None:
    for text, row in found.items():
        print(f"within {text}:")
        print("\n".join(plan_lines(row, plans)) if row is not None else plans.missing.get(text, "nothing is planned"))
        print()


def _print_frontier(plans: Plans) -> None:
    rows = sorted(plans.rows, key=lambda row: -row.peak_allocated_bytes)
    show(plans_table(rows, plans))
    print()
    for number, row in enumerate(rows, start=1):
        print(f"{number}: {row.placement}")
    print()


def _data(asked: Asked, answer: PlanAnswer, found: Mapping[str, Plan | None]) -> dict[str, Any]:
    controls, target = asked.controls, asked.target
    return {
        "model": controls.model.name,
        "precision": controls.precision,
        "workload": to_mapping(controls.workload),
        "target": None if target is None else to_mapping(target) | {"allocatable_bytes": target.allocatable_bytes},
        "study": None if asked.directory is None else str(asked.directory),
        "budgets": {text: None if row is None else row.placement for text, row in found.items()},
        "plans": to_mapping(answer.plans),
        "wall_s": answer.wall_s,
    }
