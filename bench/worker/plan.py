"""`python -m bench.worker.plan`: what is to be planned, as JSON on stdin; the plans on the last line of stdout.

Memory comes from steps on tensors without memory. Times are measured on the real step where it is for the device at
hand and fits, and come from FLOPs and bytes otherwise.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bench.measure import is_out_of_memory
from bench.peers.peer import StepFacts
from bench.peers.registry import PEERS, budgets_of, peer_placements
from bench.placement import family_of
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.grammar import parse_placement
from bench.placement.restore import moves_state
from bench.placement.types import NONE, Placement, PlacementError
from bench.plan.budgets import budget_bytes
from bench.plan.calibration import calibration_runs, drafts, telling
from bench.plan.cost_probe import OpsDifferError, probe_costs
from bench.plan.costs import MEASURED, Measured, OpCosts, calibrated, counted_costs, roofline_costs
from bench.plan.op_times import UnsteadyStepError
from bench.plan.planner import OverBudgetError, Planned, Planner
from bench.plan.profile import profile_step
from bench.records.plan import Plan, PlanRequest, Plans
from bench.spec import Controls, to_mapping
from bench.step import TrainingStep, build_training_step
from bench.target.spec import target_from
from bench.trace.fake import FakeStep
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError
from bench.worker.answering import answer_question
from bench.worker.fake_model import FakeModel, fake_model, followed, target_model
from bench.worker.setup import set_up_process, torch_device

RESOLUTION_SHARE = 0.005
"""Of the plain step: plans whose times differ by less are not both measured."""
PLANNED_FAMILY = "planned"
MATCH_MARGIN = 0.03
"""Of the plain step, by which a plan is expected to beat a peer before no other is made for the peer's own peak."""
PROBE_STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Request:
    controls: Controls
    plan: PlanRequest
    target: Mapping[str, Any] | None = None
    """A GPU that need not be here, as in `conf/target`; None plans for the device of the controls."""
    measured_shares: Mapping[str, float] = field(default_factory=dict)
    """Placement → by what share of the plain step its own was measured to take longer; they correct the costs."""
    round: int = 1


def answer(request: Request) -> dict[str, Any]:
    """What `bench.study.planning.PlanAnswer` holds.

    Raises:
        SpecError: the request cannot be carried out as written.
    """
    began = time.monotonic()
    if request.target is None:
        set_up_process(request.controls)
        model = fake_model(request.controls)
    else:
        model = target_model(request.controls, request.target)
    if model.forecaster is None:
        return _told(request, Plans(notes=(f"nothing is planned: {model.problem}",)), model, began)
    forecaster = model.forecaster(model.modules)
    try:
        plans = _Planning(request, model, forecaster).plans()
    except CannotRearrangeError as error:
        plans = Plans(notes=(f"nothing is planned: {error}",))
    return _told(request, plans, model, began)


def _told(request: Request, plans: Plans, model: FakeModel, began: float) -> dict[str, Any]:
    return {
        "plans": to_mapping(dataclasses.replace(plans, request=request.plan)),
        "chains": to_mapping(model.chains),
        "facts": to_mapping(model.facts),
        "wall_s": round(time.monotonic() - began, 3),
    }


class _Planning:
    def __init__(self, request: Request, model: FakeModel, forecaster: Forecaster) -> None:
        self._request, self._model, self._forecaster = request, model, forecaster
        self._notes: list[str] = []
        self._missing: dict[str, str] = {}
        self._is_stateful = False
        self._costs = self._calibrated(self._probed())
        self._planner = Planner(forecaster, model.chains, self._costs, finish=self._finished)

    def plans(self) -> Plans:
        asked = self._request.plan
        peers = list(self._peers()) if asked.peers else []
        rows = [*self._planned(asked), *peers]
        if asked.match_peers:
            rows += self._matching(peers, [row for row in rows if row.peer is None])
        floor = self._planner.floor()
        plain = self._planner.plain.forecast
        return Plans(
            rows=tuple(rows),
            missing=self._missing,
            persistent_bytes=plain.persistent_bytes,
            floor_bytes=floor.forecast.peak_allocated_bytes,
            plain_bytes=plain.peak_allocated_bytes,
            step_ms=self._costs.step_ms,
            cost_source=self._costs.source,
            notes=tuple(self._notes),
        )

    def _planned(self, asked: PlanRequest) -> Iterator[Plan]:
        resolution_ms = RESOLUTION_SHARE * self._costs.step_ms
        if asked.count:
            for planned in self._planner.frontier(asked.count, resolution_ms=resolution_ms):
                yield self._row(planned)
        for text in asked.budgets:
            yield from self._within(self._bytes(text), text)

    def _within(self, budget: int, told: str) -> Iterator[Plan]:
        try:
            yield self._row(self._planner.plan(budget))
        except OverBudgetError as error:
            self._missing[told] = str(error)

    def _matching(self, peers: Sequence[Plan], plans: Sequence[Plan]) -> Iterator[Plan]:
        """Plans for peers' peaks, but where one that is there is expected to be clearly faster than every peer."""
        margin_ms = MATCH_MARGIN * self._costs.step_ms
        there = list(plans)
        for peak in sorted({row.peak_allocated_bytes for row in peers}):
            rival_ms = _least_ms(peers, peak)
            if _least_ms(there, peak) + margin_ms <= rival_ms < math.inf:
                continue
            new = list(self._within(peak, f"{peak} bytes"))
            there += new
            yield from new

    def _row(self, planned: Planned) -> Plan:
        budget = planned.budget_bytes
        where = "floor" if budget is None else f"{budget / 2**20:,.1f} MiB"
        return Plan(
            placement=planned.placement.text,
            label=f"{PLANNED_FAMILY} ({where})" if planned.placement.regions else NONE.text,
            peak_allocated_bytes=planned.forecast.peak_allocated_bytes,
            replay_ms=round(planned.replay_ms, 4),
            step_ms=round(self._costs.step_ms, 4),
            bound_ms=round(planned.bound_ms, 4),
            budget_bytes=budget,
            round=self._request.round,
        )

    def _peers(self) -> Iterator[Plan]:
        profile = profile_step(self._forecaster, self._model.chains, self._costs)
        facts = StepFacts(
            model=self._forecaster.model,
            chains=self._model.chains,
            log=self._forecaster.plain_log,
            op_ms=self._costs.op_ms,
            new_step=self._new_step,
        )
        budgets = [self._bytes(text) for text in self._request.plan.peer_budgets] or list(
            budgets_of(profile, (0.2, 0.4, 0.6, 0.8))
        )
        answers = peer_placements(profile, facts, self._request.plan.peers, budgets)
        self._missing |= dict(answers.reasons)
        for label, placement in answers.placed:
            try:
                yield self._peer_row(label, self._finished(placement))
            except (PlacementError, UnsupportedPlacementError) as error:
                self._missing[label] = str(error)

    def _peer_row(self, label: str, placement: Placement) -> Plan:
        name = family_of(label)
        with suppress(CannotRearrangeError, PlacementError, UnsupportedPlacementError):
            self._planner.consider(placement.unrestored())  # so that no plan at its peak is dearer
        forecast = self._forecaster.forecast(placement)
        try:
            replay_ms = round(self._costs.replay_ms(self._forecaster.rearranged(placement.unrestored())), 4)
        except CannotRearrangeError:
            replay_ms = None
        return Plan(
            placement=placement.text,
            label=label,
            peak_allocated_bytes=forecast.peak_allocated_bytes,
            replay_ms=replay_ms,
            step_ms=round(self._costs.step_ms, 4),
            peer=name,
            is_installable=PEERS[name].is_installable,
            round=self._request.round,
        )

    def _new_step(self) -> FakeStep:
        return followed(self._request.controls, torch_device(self._request.controls))[0]

    def _bytes(self, text: str) -> int:
        plain = self._planner.plain.forecast
        return budget_bytes(text, persistent_bytes=plain.persistent_bytes, peak_bytes=plain.peak_allocated_bytes)

    def _probed(self) -> OpCosts:
        """Measured on the real step; from FLOPs and bytes where it is not here, does not fit or runs other ops."""
        log = self._forecaster.plain_log
        if self._request.target is not None:
            return roofline_costs(log, target_from(self._request.target))
        try:
            step = build_training_step(self._request.controls, torch_device(self._request.controls))
            step.run()
            self._is_stateful = moves_state([step.model], step.forward)
            costs = probe_costs(step, log, num_steps=PROBE_STEPS)
            if self._request.measured_shares:
                return costs
            return self._corrected(step, costs)
        except (OpsDifferError, UnsteadyStepError) as error:
            why = str(error)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            why = "the plain step does not fit"
        self._notes.append(f"times come from FLOPs and bytes, since they could not be measured: {why}")
        return counted_costs(log)

    def _corrected(self, step: TrainingStep, costs: OpCosts) -> OpCosts:
        """By the placements that tell most, and then by what would be planned with costs so corrected."""
        chains, forecaster = self._model.chains, self._forecaster

        def run(placements: Sequence[Placement]) -> list[Measured]:
            return calibration_runs(step, forecaster, costs, placements, self._finished)

        runs = run(telling(forecaster.plain_log, chains))
        planner = Planner(forecaster, chains, calibrated(costs, runs), finish=self._finished)
        return calibrated(costs, runs + run(drafts(planner)))

    def _calibrated(self, costs: OpCosts) -> OpCosts:
        if costs.source != MEASURED or not self._request.measured_shares:
            return costs
        measured = []
        for text, share in self._request.measured_shares.items():
            try:
                counts = self._forecaster.rearranged(parse_placement(text).unrestored())
            except (CannotRearrangeError, PlacementError, UnsupportedPlacementError):
                continue
            measured.append(Measured(counts=counts, extra_ms=share * costs.step_ms))
        return calibrated(costs, measured)

    def _finished(self, placement: Placement) -> Placement:
        return placement.restored() if self._is_stateful else placement


def _least_ms(rows: Iterable[Plan], peak_bytes: int) -> float:
    within = (row.replay_ms for row in rows if row.peak_allocated_bytes <= peak_bytes)
    return min((ms for ms in within if ms is not None), default=math.inf)


if __name__ == "__main__":
    raise SystemExit(answer_question(Request, answer, "the model cannot be planned"))
