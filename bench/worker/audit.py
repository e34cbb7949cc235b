"""`python -m bench.worker.audit`: placements as JSON on stdin, their verdicts on the last line of stdout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.audit.options import AuditOptions
from bench.audit.verdict import Verdict, unsupported
from bench.measure import is_out_of_memory
from bench.placement import PlacementError
from bench.spec import Controls, SpecError, to_mapping
from bench.step import describe_error
from bench.worker.answering import answer_question
from bench.worker.auditing import Auditing, CannotAuditError
from bench.worker.bench import Bench
from bench.worker.effect import replayed_in_plain_step
from bench.worker.setup import set_up_process


@dataclass(frozen=True, kw_only=True)
class Request:
    controls: Controls
    placements: tuple[str, ...]
    """Canonical texts."""
    options: AuditOptions


def answer(request: Request) -> dict[str, Any]:
    """What `bench.study.auditing.Audited` holds.

    Raises:
        SpecError: the step cannot be built.
    """
    device = set_up_process(request.controls)
    bench = Bench(request.controls, device, request.placements)
    auditing = Auditing(bench, request.controls, plain_fits=_took_a_step(bench), options=request.options)
    verdicts: list[Any] = []
    try:
        for text in request.placements:
            verdicts.append(to_mapping(_verdict(auditing, text, request.options)))
    except CannotAuditError as error:
        return {"verdicts": verdicts, "unaudited": str(error)}
    return {"verdicts": verdicts}


def _took_a_step(bench: Bench) -> bool:
    """One plain step, which makes the optimizer's state; whether it fits.

    Raises:
        SpecError: the plain model replays by itself.
    """
    try:
        found = replayed_in_plain_step(bench.step)
    except Exception as error:
        if not is_out_of_memory(error):
            return True  # what the plain step raises is part of the verdict
        bench.recover()
        return False
    if found:
        raise SpecError(f"model: it replays {found[0]} by itself; turn its own checkpointing off")
    bench.keep_state()
    return True


def _verdict(auditing: Auditing, placement: str, options: AuditOptions) -> Verdict:
    try:
        return auditing.verdict(placement)
    except (CannotAuditError, PlacementError):
        raise
    except Exception as error:  # the model's code ran; the others have their verdicts all the same
        return unsupported(placement, f"the audit broke: {describe_error(error)}", steps=options.steps)


if __name__ == "__main__":
    raise SystemExit(answer_question(Request, answer, "the step cannot be audited"))
