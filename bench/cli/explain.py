"""`explain`: what coexists at a step's peak, who holds it, and what replaying which region would free."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.explained import Explained, explained
from bench.cli.measured import asked_step, measured_study
from bench.cli.paths import shown
from bench.cli.progress import ProgressDisplay
from bench.cli.project import draw, publish
from bench.cli.request import CONTROL_GROUPS, refuse_unknown
from bench.cli.tracking import check_tracker
from bench.placement import check_modules, check_ops, generate_placements, placement_id
from bench.records import PLAIN, TRACE_FOLDER, replace_text, slug, write_json
from bench.report.memory_pictures import write_memory_pictures
from bench.report.terminal import plain_text, show
from bench.spec import Controls, SpecError, control_key, short_key
from bench.study import probe_worker
from bench.study.recording import record_steps
from bench.trace.log import StepLog, read_log

OPTIONS = (
    *CONTROL_GROUPS,
    *("caps", "placements", "placement", "other", "real", "residuals", "study", "results", "tracker"),
)
EXPLAINED_FOLDER = "explain"
"""Under the results folder: what was explained of steps that no study measured."""
MAX_NAME = 60
"""Characters of a placement in a file's name."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    controls: Controls
    placement: str
    """Canonical."""
    other: str | None
    study: Path | None
    """That measured this step."""
    folder: Path
    """For logs, pictures and the explanation."""

    def against(self, logs: Mapping[str, StepLog]) -> str | None:
        """What the placement is compared with: the other one, or the plain step."""
        other = self.other if self.other is not None else PLAIN if self.placement != PLAIN else None
        return other if other in logs else None

    @property
    def file_name(self) -> str:
        """Of what is written about the placement: readable, and its own."""
        return f"{slug(self.placement)[:MAX_NAME]}-{placement_id(self.placement)}"


def run(overrides: Sequence[str]) -> int:
    return run_verb("explain", explain_step, overrides)


def explain_step(options: Options) -> Answer:
    refuse_unknown(options, OPTIONS)
    results: Path = options["results"]
    check_tracker(results, options["tracker"])
    for name in ("real", "residuals"):
        if not isinstance(options[name], bool):
            raise SpecError(f"{name}: expected true or false, got {options[name]!r}")
    asked = _asked_for(options)
    placements = [asked.placement, *([asked.other] if asked.other else [])]
    with ProgressDisplay() as display:
        name = f"explaining {asked.controls.model.name}"
        recorded = record_steps(
            asked.controls, placements, asked.folder, real=options["real"], name=name, watch=display
        )
    logs = {text: read_log(asked.folder / file) for text, file in recorded.logs.items()}
    told = explained(asked.placement, asked.other, recorded, logs, asked.study)
    pictures = _draw(asked, logs)
    show(told.rendered(residuals=options["residuals"]))
    _write(asked, told)
    to_open = [path for path in pictures if path.suffix in (".png", ".html")]
    for name, path in (("study", asked.study), ("folder", asked.folder), *(("picture", path) for path in to_open)):
        if path is not None:
            print(f"{name + ':':<9}{shown(path)}")
    published = _publish(asked, results, options["tracker"])
    data = told.data() | {
        "study": None if asked.study is None else str(asked.study),
        "logs": {text: str(asked.folder / file) for text, file in recorded.logs.items()},
        "pictures": [str(path) for path in pictures],
    }
    return Answer(exit_code=COMPLETE if published else PARTIAL, data=data)


def _asked_for(options: Mapping[str, Any]) -> Asked:
    """Raises SpecError for a placement that the model cannot take, naming close ones."""
    results: Path = options["results"]
    controls, _, directory = asked_step(options)
    texts = [str(options["placement"]), *([] if options["other"] is None else [str(options["other"])])]
    probe = probe_worker(controls)
    entries = [generate_placements({"explicit": [text]}, probe.chains)[0] for text in texts]
    check_modules(entries, probe.modules)
    check_ops(entries, probe.ops)
    if directory is None:
        controls = dataclasses.replace(controls, facts=probe.facts)
        directory = measured_study(results, controls)
    step = f"{slug(controls.model.name)}-{short_key(control_key(controls))}"
    other = entries[1].text if len(entries) > 1 and entries[1].text != entries[0].text else None
    return Asked(
        controls=controls,
        placement=entries[0].text,
        other=other,
        study=directory,
        folder=directory / TRACE_FOLDER if directory is not None else results / EXPLAINED_FOLDER / step,
    )


def _draw(asked: Asked, logs: Mapping[str, StepLog]) -> list[Path]:
    other = asked.against(logs)
    return write_memory_pictures(
        asked.folder,
        logs[asked.placement],
        other=None if other is None else logs[other],
        name=f"memory-{asked.file_name}",
    )


def _write(asked: Asked, told: Explained) -> None:
    """What was printed, with everything that regions keep, and the same as JSON."""
    replace_text(asked.folder / f"explained-{asked.file_name}.txt", plain_text(told.rendered(residuals=True)))
    write_json(asked.folder / f"explained-{asked.file_name}.json", told.data())


def _publish(asked: Asked, results: Path, options: Mapping[str, Any]) -> bool:
    """With the study that measured the step; what no study measured is on the disk alone."""
    if asked.study is None:
        return True
    draw(asked.study)
    return publish(asked.study, results, options)
