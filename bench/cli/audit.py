"""`audit`: is a placement's replayed step the plain step, and where is it not?"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.audit.options import AuditOptions
from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.measured import of_study
from bench.cli.progress import ProgressDisplay
from bench.cli.request import CONTROL_GROUPS, caps_of, controls_of, refuse_unknown
from bench.cli.studies import find_study
from bench.placement import check_modules, check_ops, generate_placements
from bench.records import PLAIN, read_study
from bench.report.table import DEFAULT_WIDTH
from bench.report.verdicts import render_verdicts
from bench.spec import Controls, PlacementEntry, SpecError, StudySpec, from_mapping, to_mapping
from bench.study import WorkerError, probe_worker
from bench.study.auditing import audit_placements

OPTIONS = (*CONTROL_GROUPS, "caps", "placements", "placement", "trials", "steps", "study", "results", "tracker")


def run(overrides: Sequence[str]) -> int:
    return run_verb("audit", audit_replays, overrides)


def audit_replays(options: Options) -> Answer:
    refuse_unknown(options, OPTIONS)
    wanted = from_mapping(AuditOptions, {name: options[name] for name in ("trials", "steps")})
    try:
        controls, placements = _asked_for(options)
        with ProgressDisplay() as display:
            name = f"auditing {controls.model.name}"
            verdicts = audit_placements(controls, placements, to_mapping(wanted), name=name, watch=display)
    except WorkerError as error:
        print(f"boundary-bench: {error}", file=sys.stderr)
        return Answer(exit_code=PARTIAL, data={"error": str(error)})
    shown = render_verdicts(verdicts)
    if sys.stdout.isatty():
        Console().print(shown)
    else:
        console = Console(width=DEFAULT_WIDTH, color_system=None, force_terminal=False, highlight=False)
        with console.capture() as capture:
            console.print(shown)
        sys.stdout.writelines(line.rstrip() + "\n" for line in capture.get().splitlines())
    return Answer(exit_code=COMPLETE, data={"verdicts": [dict(verdict) for verdict in verdicts]})


def _asked_for(options: Mapping[str, Any]) -> tuple[Controls, list[str]]:
    """Controls with their facts, and canonical placements: the one asked for, else those of the study, else those that
    a sweep of the model would measure.

    Raises:
        SpecError: a placement that the model cannot take, naming close ones, or none but the plain step.
    """
    results: Path = options["results"]
    study: StudySpec | None = None
    if options["study"] is None:
        caps_of(options)
        controls = controls_of(options)
    else:
        study = read_study(find_study(options["study"], results))
        of_study(study)
        controls = study.controls
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
