"""Recording the step of a study: real on its device, or on fake tensors."""

from __future__ import annotations

from contextlib import ExitStack

import torch

from bench.placement.applying import apply
from bench.placement.wiring import Wiring
from bench.step import Step
from bench.step.state import roles
from bench.trace.cpu_ledger import CpuLedger
from bench.trace.cuda_ledger import CudaLedger
from bench.trace.fake_ledger import FakeLedger, Workspace
from bench.trace.log import StepLog
from bench.trace.recorder import Recorder


def record_real_step(step: Step, placement: str, wiring: Wiring | None, *, model: str) -> StepLog:
    """The second of two steps under `placement`; both change weights and optimizer state as any step does."""
    ledger = CudaLedger(step.device) if step.device.type == "cuda" else CpuLedger()
    recorder = Recorder(step, ledger)
    with ExitStack() as around:
        around.enter_context(recorder.modules_named())
        around.enter_context(apply(step.model, placement, wiring=wiring))
        if isinstance(ledger, CudaLedger):
            step.run()
            torch.cuda.synchronize(step.device)
            torch.cuda.empty_cache()
            around.enter_context(ledger.watching())
        else:
            around.enter_context(ledger.watching())
            step.run()
        ledger.begin(roles(step))
        with recorder.recording():
            step.run(recorder.on_phase)
    return recorder.log(model=model, placement=placement, device=str(step.device), is_fake=False)


def record_fake_step(
    step: Step, placement: str, wiring: Wiring | None, *, model: str, workspace: Workspace | None = None
) -> StepLog:
    """One step of a step that was built, and has run once, under the FakeTensorMode that is entered now."""
    ledger = FakeLedger(step.device.type, roles(step), workspace)
    recorder = Recorder(step, ledger)
    with recorder.modules_named(), apply(step.model, placement, wiring=wiring), recorder.recording():
        step.run(recorder.on_phase)
    return recorder.log(model=model, placement=placement, device=str(step.device), is_fake=True)
