"""`capacity`: what the freed memory buys: the largest size that trains within a limit, and the throughput there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.capacity.store import read_answer
from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.paths import shown
from bench.cli.planning import plan_request
from bench.cli.progress import ProgressDisplay
from bench.cli.projected_capacity import publish_answer
from bench.cli.recorded import recorded
from bench.cli.request import CONTROL_GROUPS, caps_of, controls_of, refuse_unknown
from bench.cli.tracking import check_tracker
from bench.plan.budgets import budget_bytes
from bench.report.capacity_files import write_capacity_files
from bench.report.capacity_table import render_capacity
from bench.report.terminal import show
from bench.spec import OFF, SpecError, to_mapping
from bench.study.capacity import run_capacity
from bench.study.capacity_request import CapacityRequest, resolved

OWN_OPTIONS = (
    "limit",
    "headroom",
    "axis",
    "multiple",
    "keep",
    "largest",
    "evaluation",
    "multiples",
    "rounds",
    "time_cap_s",
)
OPTIONS = (*CONTROL_GROUPS, *OWN_OPTIONS, "audit", "caps", "placements", "restore", "results", "tracker")
PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def run(overrides: Sequence[str]) -> int:
    return run_verb("capacity", capacity, overrides)


def capacity(options: Options) -> Answer:
    refuse_unknown(options, OPTIONS)
    results: Path = options["results"]
    plan = plan_request(options["placements"])
    check_tracker(results, options["tracker"])
    spec = resolved(asked(options))
    with ProgressDisplay() as display:
        directory = run_capacity(spec, results, watch=display, plan=plan)
    answer = read_answer(directory)
    pictures = write_capacity_files(directory, answer)
    show(render_capacity(answer))
    print(f"\ncapacity: {shown(directory)}")
    plot = next((path for path in pictures if path.suffix == ".png"), None)
    if plot is not None:
        print(f"plot:     {shown(plot)}")
    published = publish_answer(directory, answer, results, options["tracker"])
    data = {"capacity": str(directory), "answer": to_mapping(answer)}
    return Answer(exit_code=COMPLETE if answer.is_complete and published else PARTIAL, data=data)


def asked(options: Options) -> CapacityRequest:
    """Raises SpecError, naming the option, where one is of the wrong type."""
    if not isinstance(options["evaluation"], bool):
        raise SpecError(f"evaluation: expected true or false, got {options['evaluation']!r}")
    return CapacityRequest(
        controls=controls_of(options),
        placements=options["placements"],
        axis=str(options["axis"]),
        multiple=_optional("multiple", options["multiple"]),
        limit_bytes=None if options["limit"] is None else size_of("limit", options["limit"]),
        headroom=share_of(options["headroom"]),
        keep=str(options["keep"]),
        largest=_optional("largest", options["largest"]),
        evaluation=options["evaluation"],
        multiples=_whole_numbers("multiples", options["multiples"], least=2),
        rounds=_whole_number("rounds", options["rounds"], least=0),
        time_cap_s=_seconds("time_cap_s", options["time_cap_s"]),
        probe_timeout_s=caps_of(options).sample_timeout_s,
        audit=_word(options["audit"]),
        restore=_word(options["restore"]),
        recorded=recorded(),
    )


def size_of(option: str, value: Any) -> int:
    """Bytes of `4GiB`, `24GB` or a bare number.

    Raises:
        SpecError: it is none of them.
    """
    text = str(value)
    try:
        if "%" not in text and not isinstance(value, bool):
            return budget_bytes(text, persistent_bytes=0, peak_bytes=0)
    except SpecError:
        pass
    raise SpecError(f"{option}: {text!r} is no size; write 4GiB or 24GB")


def share_of(value: Any) -> float:
    """0.05 of `5%`, `0.05` or 0.05.

    Raises:
        SpecError: it is no share from 0 up to 1.
    """
    match = PERCENT.fullmatch(str(value).strip())
    try:
        share = float(match[1]) / 100 if match else float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share < 1:
        raise SpecError(f"headroom: {value!r} is no share of the limit; write 5%")
    return share


def _word(value: Any) -> str:
    return OFF if value is False else str(value)  # YAML reads a bare `off` as false


def _whole_number(option: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecError(f"{option}: expected a whole number of at least {least}, got {value!r}")
    return value


def _optional(option: str, value: Any) -> int | None:
    return None if value is None else _whole_number(option, value, least=1)


def _whole_numbers(option: str, value: Any, least: int) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(sorted({_whole_number(option, one, least) for one in values}))


def _seconds(option: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise SpecError(f"{option}: expected seconds above 0, got {value!r}")
    return float(value)
