"""`measure`: the frontier of a training script's own step."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.frontier import build_frontier, write_frontier
from bench.own.controls import Scalar, named_precision, own_controls
from bench.own.execution import print_progress, run_here
from bench.own.kept import Kept, PythonRandom
from bench.own.observe import observe
from bench.own.step import OwnStep, OwnStepFunction
from bench.own.study import OwnStudy
from bench.placement import NONE, Placement, check_modules, generate_placements
from bench.placement.applying import self_checkpointing
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.fingerprint import fingerprint_of
from bench.records import read_records, read_study, study_path, write_study
from bench.records.directory import STUDY_FILE
from bench.records.lock import study_lock
from bench.spec import (
    AUDITS,
    AUTO,
    GATE,
    RESTORES,
    Caps,
    ChainInfo,
    PlacementEntry,
    ProtocolSpec,
    SpecError,
    StudySpec,
    control_key,
    from_mapping,
    validate_caps,
    validate_protocol,
)
from bench.step import Stateful, default_chains
from bench.step.precision import PRECISIONS
from bench.study.device_lock import device_lock
from bench.study.progress import Watch
from bench.study.run import extend

PLACEMENTS: Mapping[str, object] = {"none": True, "each": True, "every": [2], "but_last": [1], "spans": ["sqrt"]}
"""What is measured where nothing is asked for; any model with chains can take it."""
TIME_CAP_S = 300.0


def measure(
    step: OwnStepFunction,
    model: nn.Module,
    placements: Sequence[str | Placement] | Mapping[str, object] | None = None,
    *,
    optimizer: torch.optim.Optimizer,
    name: str = "own",
    results: str | Path = "results",
    batch: Any = None,
    state: Sequence[Stateful] = (),
    controls: Mapping[str, Scalar] | None = None,
    chains: Sequence[ChainInfo] | None = None,
    micro_batch: int | None = None,
    precision: str | None = None,
    protocol: Mapping[str, object] | None = None,
    time_cap_s: float | None = TIME_CAP_S,
    reference: str | None = None,
    audit: str = GATE,
    restore: str = AUTO,
    plots: bool = True,
    watch: Watch | None = None,
) -> OwnStudy:
    """Measures step time and peak memory of `step` under each placement, in this process, as a study in `results`.

    Called again, also by a later run of the script, it measures only what is missing. Afterwards model, optimizer,
    `state` and random generators are as they were before; gradients are freed.

    Args:
        step: one whole training step (forward, backward, one optimizer step) that can be repeated: it must use the same
            batch each time. Returns its loss, by which placements are held against the plain step, or None.
        model: what placements are applied to; in training mode, with nothing checkpointed.
        placements: texts, or a mapping as in `conf/placements`. None takes PLACEMENTS.
        optimizer: that takes the step. Its own hook proves that it did.
        name: of the study directory, `<name>-<key>`.
        batch: the tensors (any pytree) that the step uses: they are counted as persistent memory on the CPU, and their
            digest is recorded. Without it neither is known.
        state: what else the step changes: schedules, a GradScaler, moving averages.
        controls: what else is held fixed and cannot be seen, such as `{"dataset": "web-3"}`; part of the control key.
        chains: units for generators; None finds them (`default_chains`).
        micro_batch: samples in one forward; None reads the leading size of what the model is called with.
        precision: one of fp32, bf16-autocast, bf16-pure, fp16-autocast; None reads weights and autocast.
        protocol: fields of `bench.spec.ProtocolSpec` that differ from its defaults, such as `rounds_max`.
        time_cap_s: wall seconds of measuring; None for no cap.
        reference: the placement that ratios are relative to; None is `none` where it fits.
        audit: `gate` proves each placement's replay before it is measured, and turns away what trains otherwise; `off`
            measures it all.
        restore: `auto` measures the twin with @restore of a placement that was turned away, where that one is valid;
            `off` does not.
        plots: draws them into the study, where matplotlib and seaborn are installed.
        watch: gets `bench.study.Progress` events; None prints to stderr.

    Raises:
        SpecError: an argument is wrong, or the step is not one that can be measured.
        UnsupportedPlacementError: the model already checkpoints itself.
        FreshProcessError: a placement left this process in disorder; run the script again and it goes on.
        StudyBusyError: another process is measuring the same study.
        WorkerError: the device stays busy for longer than BENCH_LOCK_WAIT_S.
    """
    why = self_checkpointing(model)
    if why:
        raise UnsupportedPlacementError(f"the plain model already checkpoints itself: {why}")
    if not model.training:
        raise SpecError("model: it is in eval mode; call model.train()")
    compiled = [n for n, m in model.named_modules() if hasattr(m, "_orig_mod") or m._compiled_call_impl is not None]
    if compiled:
        raise SpecError(
            f"model: {compiled[0] or 'it'} is compiled; a placement changes its forward, so that each sample would "
            "compile anew; measure the plain model"
        )
    for option, asked, allowed in (("audit", audit, AUDITS), ("restore", restore, RESTORES)):
        if asked not in allowed:
            raise SpecError(f"{option}: {asked!r} is not one of {', '.join(allowed)}")
    device = _device(model)
    chain_infos = default_chains(model) if chains is None else tuple(chains)
    entries, reference_text = _placements(placements, chain_infos, reference)
    check_modules(entries, [module for module, _ in model.named_modules() if module])
    rules = from_mapping(ProtocolSpec, {"warmup_steps_max": 4, **(protocol or {})}, "protocol")
    validate_protocol(rules)
    if rules.executions != 1 or rules.process != "shared":
        raise SpecError("protocol: measure() is one process; run the script again with another name for a second one")
    caps = Caps(time_cap_s=time_cap_s)
    validate_caps(caps)
    others = (*state, PythonRandom())
    kept = Kept(model, optimizer, others)
    seen = observe(step, model, optimizer, [entry.text for entry in entries], device, kept)
    precision_name = named_precision(model, seen.autocast, precision)
    all_controls = own_controls(
        name=name,
        step=step,
        model=model,
        optimizer=optimizer,
        device=device,
        seen=seen,
        precision=precision_name,
        micro_batch=micro_batch,
        protocol=rules,
        declared=controls or {},
    )
    study = StudySpec(
        name=name,
        key=control_key(all_controls),
        controls=all_controls,
        placements=entries,
        chains=chain_infos,
        caps=caps,
        audit=audit,
        restore=restore,
        reference=reference_text,
        recorded=fingerprint_of(model).recorded(),
    )
    directory = study_path(Path(results), study)
    directory.mkdir(parents=True, exist_ok=True)
    own = OwnStep(
        step,
        model=model,
        optimizer=optimizer,
        device=device,
        precision=PRECISIONS[precision_name],
        num_micro_batches=seen.micro_batches,
        batch=batch,
        others=others,
    )
    try:
        say = watch or print_progress()
        with study_lock(directory), device_lock(study, directory.name, say) as problem:
            if problem:
                print(f"bench.measure: {problem}", file=sys.stderr)
            if (directory / STUDY_FILE).exists():
                study = extend(read_study(directory), study)
            write_study(directory, study)
            run_here(directory, study, own, kept.restore, seen.plain_loss, say)
    finally:
        own.close()
        kept.restore()
    return _finished(directory, plots)


def _device(model: nn.Module) -> torch.device:
    devices = {parameter.device for parameter in model.parameters()}
    if len(devices) != 1 or next(iter(devices)).type not in ("cpu", "cuda"):
        found = ", ".join(sorted(map(str, devices))) or "no parameter"
        raise SpecError(f"model: all its parameters must lie on one device, the CPU or a GPU; found {found}")
    return devices.pop()


def _placements(
    asked: Sequence[str | Placement] | Mapping[str, object] | None,
    chains: Sequence[ChainInfo],
    reference: str | None,
) -> tuple[tuple[PlacementEntry, ...], str | None]:
    """Entries with `none` among them, which everything is compared with, and the reference's canonical text."""
    if asked is None:
        asked = PLACEMENTS
    if isinstance(asked, Mapping):
        entries = generate_placements(asked, chains)
    elif isinstance(asked, (str, Placement)):
        raise SpecError(f"placements: expected a list of them, got {asked!r}")
    else:
        entries = generate_placements({"explicit": [str(placement) for placement in asked]}, chains)
    extra = [NONE.text] if reference is None else [NONE.text, reference]
    wanted = generate_placements({"explicit": extra}, chains)
    known = {entry.text for entry in entries}
    added = tuple(entry for entry in wanted if entry.text not in known)
    return (*added, *entries), None if reference is None else wanted[-1].text


def _finished(directory: Path, plots: bool) -> OwnStudy:
    study = read_study(directory)
    frontier = build_frontier(study, read_records(directory))
    write_frontier(directory, frontier)
    if plots and importlib.util.find_spec("seaborn"):
        from bench.report import write_plots

        write_plots(directory, study, frontier)
    return OwnStudy(directory=directory, frontier=frontier)
