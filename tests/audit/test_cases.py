"""Every kind of fault gets its verdict and its name, and what is valid raises no alarm."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import nn

from bench.audit import KINDS, AuditOptions
from bench.audit.twin import RESTORABLE
from bench.audit.verdict import INVALID, UNSUPPORTED, VALID
from tests.audit import parts
from tests.audit.cases import FURTHER, KNOWN, Case
from tests.audit.checks import audited

CASES = KNOWN + FURTHER
REFUSED = "reentrant behind an input without gradient"
"""A placement of ours will not do it."""


RESTORED = [
    case
    for case in CASES
    if case.kind in RESTORABLE
    and case.between is None  # what the loop changes stays changed
    and "preserve_rng_state" not in case.options  # torch's generator is left to the checkpoint
    and case.name not in ("noise that is saved before it is drawn", "a hook that counts in its closure")
]


def by_name(case: Case) -> str:
    return case.name


def test_every_kind_has_a_case() -> None:
    assert {case.kind for case in CASES if case.kind} == set(KINDS)


IN_BOTH_PRECISIONS = pytest.mark.parametrize(
    ("case", "amp"),
    [
        pytest.param(case, amp, id=f"{case.name}-{'bf16-autocast' if amp else 'fp32'}")
        for case in CASES
        for amp in ((False, True) if case.amp else (False,))
    ],
)


@IN_BOTH_PRECISIONS
def test_a_checkpoint_put_on_by_hand_is_valid_or_invalid_of_its_kind(case: Case, amp: bool) -> None:
    verdict = audited(case, by_hand=True, amp=amp)
    assert (verdict.outcome, verdict.kind) == ((INVALID, case.kind) if case.kind else (VALID, "")), str(verdict)


@IN_BOTH_PRECISIONS
def test_a_placement_is_valid_or_invalid_of_its_kind(case: Case, amp: bool) -> None:
    verdict = audited(case, by_hand=False, amp=amp)
    if case.name == REFUSED:
        assert verdict.outcome in (UNSUPPORTED, INVALID), str(verdict)
        assert "no input of blocks.0 requires a gradient" in str(verdict)
        return
    kind = "" if case.mended else case.kind
    assert (verdict.outcome, verdict.kind) == ((INVALID, kind) if kind else (VALID, "")), str(verdict)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_the_scale_of_the_loss_does_not_matter(case: Case) -> None:
    verdict = audited(case, by_hand=True, scale=1e-6)
    assert (verdict.outcome, verdict.kind) == ((INVALID, case.kind) if case.kind else (VALID, "")), str(verdict)


@pytest.mark.parametrize("case", RESTORED, ids=by_name)
def test_what_moves_twice_is_valid_to_the_bit_with_restore(case: Case) -> None:
    """Over three steps: what the first replay moves is read by the second, and what comes of that by the third."""
    placement = "+".join(f"{unit}@restore" for unit in case.placement.split("+"))
    verdict = audited(case, placement=placement, options=AuditOptions(steps=3, trials=2))
    assert (verdict.outcome, verdict.trials, verdict.tolerance) == ("valid", 2, 0.0), str(verdict)


FORWARDS = {"number": 0}
"""Of this file, and so none of the model's state."""


def counts_for_the_file(module: nn.Module) -> None:
    def count(_module: Any, _inputs: Any, _output: Any) -> None:
        FORWARDS["number"] += 1

    module.register_forward_hook(count)


def test_a_placement_that_restores_is_not_told_to() -> None:
    case = Case("a hook that counts for its file", lambda: parts.with_hook(counts_for_the_file), "hook")
    verdict = audited(case, placement="blocks.0@restore")
    assert (verdict.outcome, verdict.kind) == ("invalid", "hook")
    assert verdict.findings[0].cure == "put the hook on a module around the region"
    assert audited(case).findings[0].cure == "@restore, or put the hook on a module around the region"


def test_restore_is_no_cure_for_what_the_loop_changes() -> None:
    verdict = audited(next(case for case in CASES if case.name == "an attribute changed by the loop"))
    assert (verdict.kind, verdict.findings[0].where) == ("attribute", "blocks.0.factor")
    assert verdict.findings[0].cure == "let nothing that the region reads change before backward has ended"


@pytest.mark.parametrize("name", ["an environment variable set", "a flag of torch switched"])
def test_an_audit_leaves_settings_of_the_process_as_they_were(name: str) -> None:
    audited(next(case for case in CASES if case.name == name))
    assert parts.VARIABLE not in os.environ
    assert not torch.are_deterministic_algorithms_enabled()


def test_an_audit_leaves_the_random_generators_where_they_were() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    case = next(case for case in CASES if case.name == "dropout")
    audited(case, by_hand=False)
    torch.manual_seed(11)
    assert torch.equal(torch.rand(3), expected)
