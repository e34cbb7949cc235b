"""`audit`: is a placement's replayed step the plain step, and where is it not?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bench.audit.options import AuditOptions
from bench.cli.answer import COMPLETE, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.measured import asked_step
from bench.cli.progress import ProgressDisplay
from bench.cli.request import CONTROL_GROUPS, refuse_unknown
from bench.placement import check_modules, check_ops, generate_placements
from bench.records import PLAIN
from bench.report.terminal import show
from bench.report.verdicts import render_verdicts
from bench.spec import Controls, PlacementEntry, SpecError, from_mapping, to_mapping
from bench.study import probe_worker
from bench.study.auditing import audit_placements

OPTIONS = (*CONTROL_GROUPS, "caps", "placements", "placement", "trials", "steps", "study", "results", "tracker")


def run(overrides: Sequence[str]) -> int:
    return run_verb("audit", audit_replays, overrides)


def audit_replays(options: Options) -> Answer:
    refuse_unknown(options, OPTIONS)
    wanted = from_mapping(AuditOptions, {name: options[name] for name in ("trials", "steps")})
    controls, placements = _asked_for(options)
    with ProgressDisplay() as display:
        name = f"auditing {controls.model.name}"
        verdicts = audit_placements(controls, placements, to_mapping(wanted), name=name, watch=display)
    show(render_verdicts(verdicts))
    return Answer(exit_code=COMPLETE, data={"verdicts": [dict(verdict) for verdict in verdicts]})


def _asked_for(options: Mapping[str, Any]) -> tuple[Controls, list[str]]:
    """Controls with their facts, and canonical placements: the one asked for, else those of the study, else those that
    a sweep of the model would measure.

    Raises:
        SpecError: a placement that the model cannot take, naming close ones, or none but the plain step.
    """
    controls, study, _ = asked_step(options)
    probe = probe_worker(controls)
    entries: Sequence[PlacementEntry]
    if options["placement"] is not None:
        asked = options["placement"]
        texts = [str(one) for one in asked] if isinstance(asked, list) else [str(asked)]
        entries = generate_placements({"explicit": texts}, probe.chains)
    elif study is not None:
        entries = study.placements
    else:
        entries = generate_placements(options["placements"], probe.chains)
    check_modules(entries, probe.modules)
    check_ops(entries, probe.ops)
    placements = [entry.text for entry in entries if entry.text != PLAIN]
    if not placements:
        raise SpecError("placement: none replays nothing, so there is nothing to audit; name regions, such as h.0..5")
    return dataclasses.replace(controls, facts=probe.facts), placements
