"""Every kind of fault gets its verdict and its name, and what is valid raises no alarm."""

from __future__ import annotations

import pytest
import torch

from bench.audit import KINDS
from bench.audit.verdict import INVALID, UNSUPPORTED, VALID
from tests.audit.cases import FURTHER, KNOWN, Case
from tests.audit.checks import audited

CASES = KNOWN + FURTHER
REFUSED = "reentrant behind an input without gradient"
"""A placement of ours will not do it."""


def by_name(case: Case) -> str:
    return case.name


def test_every_kind_has_a_case() -> None:
    assert {case.kind for case in CASES if case.kind} == set(KINDS)


@pytest.mark.parametrize("amp", [False, True], ids=["fp32", "bf16-autocast"])
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_a_checkpoint_put_on_by_hand_is_valid_or_invalid_of_its_kind(case: Case, amp: bool) -> None:
    if amp and not case.amp:
        pytest.skip("sets its own precision")
    verdict = audited(case, by_hand=True, amp=amp)
    assert (verdict.outcome, verdict.kind) == ((INVALID, case.kind) if case.kind else (VALID, "")), str(verdict)


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_a_placement_is_valid_or_invalid_of_its_kind(case: Case) -> None:
    verdict = audited(case, by_hand=False)
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


def test_an_audit_leaves_the_random_generators_where_they_were() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    case = next(case for case in CASES if case.name == "dropout")
    audited(case, by_hand=False)
    torch.manual_seed(11)
    assert torch.equal(torch.rand(3), expected)
