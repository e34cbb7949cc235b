"""`python -m bench.worker.explain`: one placement or two as JSON on stdin; logs of their steps in a folder, and on the
last line of stdout which is where.

The placement's step runs for real on the device, or on tensors without memory; the plain step, which is there to be
compared with, on such tensors alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.measure import is_out_of_memory
from bench.placement import Placement, parse_placement, placement_id
from bench.placement.wiring import record_wiring
from bench.records import PLAIN
from bench.spec import Controls, SpecError, to_mapping
from bench.step import TrainingStep, build_training_step
from bench.trace.candidates import candidates
from bench.trace.forecast import Forecaster
from bench.trace.log import StepLog, write_log
from bench.trace.record import record_real_step
from bench.worker.answering import answer_question
from bench.worker.effect import replayed_in_plain_step
from bench.worker.failure import outcome_of
from bench.worker.fake_model import FakeModel, fake_model
from bench.worker.setup import set_up_process

FAKE_SUFFIX = "-fake"
"""Of a log's file name: a step on tensors without memory, and one that ran, are both worth keeping."""


@dataclass(frozen=True, kw_only=True)
class Request:
    controls: Controls
    placements: tuple[str, ...]
    """Canonical texts: what is explained, then what it is compared with, if anything."""
    folder: str
    """For the logs; it is made."""
    real: bool = True
    """Run the step on its device; False records it on tensors without memory."""


def answer(request: Request) -> dict[str, Any]:
    """What `bench.study.recording.Recorded` holds.

    Raises:
        SpecError: the request cannot be carried out, or the step does not fit.
    """
    device = set_up_process(request.controls)
    model = fake_model(request.controls)
    notes: list[str] = []
    texts = tuple(dict.fromkeys((*request.placements, PLAIN)))
    units = sorted({unit for text in texts for region in parse_placement(text).regions for unit in region.units})
    forecaster = None if model.forecaster is None else model.forecaster(units)
    if request.real:
        logs = _real_logs(request, device, units, notes)
    elif forecaster is None:
        raise SpecError(f"real: {model.problem}; real=true records the step on its device")
    else:
        logs = {text: forecaster.by_fake_step(text)[1] for text in request.placements}
    for text, log in logs.items():
        _check_called(text, log)
    logs |= _plain_log(forecaster, logs, notes)
    found, more = _candidates(forecaster, model, request.placements[0])
    return {
        "logs": {text: _written(Path(request.folder), text, log) for text, log in logs.items()},
        "candidates": found,
        "chains": to_mapping(model.chains),
        "notes": [*notes, *more, *([model.problem] if model.problem else [])],
    }


def _real_logs(request: Request, device: torch.device, units: list[str], notes: list[str]) -> dict[str, StepLog]:
    try:
        step = build_training_step(request.controls, device)
        own = _run_watched(step)
        if own and any(text != PLAIN for text in request.placements):
            raise SpecError(f"placement: {own}; turn its own checkpointing off")
        notes += [f"{own}; what it replays is told as backward here"] if own else []
        wiring = record_wiring(step.model, units, step.forward)
        name = request.controls.model.name
        return {text: record_real_step(step, text, wiring, model=name) for text in request.placements}
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        why = outcome_of(error)[1]
        raise SpecError(f"real: the step does not fit ({why}); real=false explains it without running it") from None


def _check_called(placement: str, log: StepLog) -> None:
    called = {one.region for one in log.passes}
    for region in parse_placement(placement).regions:
        if Placement((region,)).text not in called:
            raise SpecError(f"placement {placement}: the model's forward never calls {region.units[0]}")


def _run_watched(step: TrainingStep) -> str:
    """Runs the plain step once; what it replays by itself, if anything."""
    found = replayed_in_plain_step(step)
    if not found:
        return ""
    return f"the plain model replays by itself: {len(found)} modules ran forward inside backward, the first {found[0]}"


def _plain_log(forecaster: Forecaster | None, logs: dict[str, StepLog], notes: list[str]) -> dict[str, StepLog]:
    if PLAIN in logs or forecaster is None:
        return {}
    try:
        return {PLAIN: forecaster.by_fake_step(PLAIN)[1]}
    except Exception as error:  # the model's code ran; what was asked for is explained without it
        notes.append(f"the plain step could not be followed on fake tensors: {outcome_of(error)[1]}")
        return {}


def _candidates(forecaster: Forecaster | None, model: FakeModel, placement: str) -> tuple[list[Any], list[str]]:
    """The next regions to try, as mappings; and why there are none where they could not be worked out."""
    if forecaster is None:
        return [], []
    try:
        return [to_mapping(one) for one in candidates(forecaster, placement, model.chains)], []
    except Exception as error:
        return [], [f"what to try next could not be worked out: {outcome_of(error)[1]}"]


def _written(folder: Path, placement: str, log: StepLog) -> str:
    name = f"{placement_id(placement)}{FAKE_SUFFIX if log.is_fake else ''}.json.gz"
    write_log(folder / name, log)
    return name


if __name__ == "__main__":
    raise SystemExit(answer_question(Request, answer, "the step cannot be recorded"))
