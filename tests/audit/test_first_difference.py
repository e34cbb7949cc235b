"""Where replay breaks: the op, its module, its source line, and what it made."""

from __future__ import annotations

import dataclasses

import pytest
from torch import nn

from bench.audit import Verdict
from tests.audit.blocks import Block, Stack
from tests.audit.cases import FURTHER, KNOWN, Case
from tests.audit.checks import audited
from tests.audit.parts import PythonNoise


def verdict_of(name: str) -> Verdict:
    return audited(next(case for case in KNOWN + FURTHER if case.name == name), by_hand=True)


def test_another_dropout_mask_is_named_by_its_op_and_module() -> None:
    at = verdict_of("dropout without the RNG state").first_difference
    assert at is not None
    assert (at.region, at.module, at.op, at.what) == ("blocks.1", "blocks.1.body.2", "bernoulli_", "values")
    assert at.source.startswith("blocks.py:")
    assert at.first.startswith("float32[8, 32]")
    assert at.first != at.replayed


def test_a_line_outside_the_region_is_not_given_for_one_inside() -> None:
    at = verdict_of("BatchNorm").first_difference
    assert at is not None
    assert (at.region, at.module, at.source) == ("blocks.0", "blocks.0.1", "")


def test_a_cache_that_grew_shows_in_the_shape() -> None:
    at = verdict_of("a cache that grows").first_difference
    assert at is not None
    assert (at.region, at.op, at.what) == ("blocks.0", "cat", "shape")
    assert at.first.startswith("float32[8, 16]")
    assert at.replayed.startswith("float32[16, 16]")


def test_a_tensor_at_a_position_is_named_by_what_made_it() -> None:
    verdict = verdict_of("a cache that grows")
    error = next(finding for finding in verdict.findings if finding.kind == "error")
    assert "tensor at position" in error.text
    assert "in blocks.0 (parts.py:" in error.text


def test_another_precision_shows_in_the_dtype() -> None:
    at = verdict_of("a library's precision switched").first_difference
    assert at is not None
    assert at.what == "dtype"
    assert at.first.startswith("bfloat16")
    assert at.replayed.startswith("float32")


def test_a_changed_tensor_is_named() -> None:
    assert verdict_of("a weight written past its version").findings[0].where == "parameter blocks.0.body.0.weight"
    assert verdict_of("a captured tensor changed").findings[0].where == "attribute blocks.0.scale"


def test_noise_that_is_filled_late_is_cured_by_not_stopping_early() -> None:
    case = next(case for case in KNOWN if case.name == "noise that is saved before it is drawn")
    finding = audited(case, by_hand=True).findings[0]
    assert (finding.kind, finding.unit, finding.where, finding.cure) == (
        "rng",
        "blocks.0",
        "rrelu_with_noise",
        "@no-early-stop",
    )
    cured = dataclasses.replace(case, options={"early_stop": False})
    assert audited(cured, by_hand=True).outcome == "valid"


@pytest.mark.parametrize("policy", ["", ":keep.matmul", ":keep.matmul/0"])
def test_ops_that_a_policy_keeps_do_not_put_the_others_out_of_step(policy: str) -> None:
    """The matrix products here have outputs of several shapes, and some of them are not run again."""
    case = Case("", lambda: Stack(nn.Sequential(Block(), PythonNoise()), Block()))
    verdict = audited(case, placement=f"blocks.0{policy}")
    assert (verdict.kind, verdict.findings[0].where) == ("rng", "Python's random"), str(verdict)
    at = verdict.first_difference
    assert at is not None
    assert (at.op, at.what, at.module) == ("mul", "values", "blocks.0.1")


def test_a_plain_step_that_raises_is_told() -> None:
    verdict = verdict_of("a captured tensor changed")
    assert verdict.outcome == "invalid"
    assert any("the plain step raises RuntimeError" in note for note in verdict.notes)


def test_a_valid_placement_has_no_first_difference() -> None:
    verdict = verdict_of("dropout")
    assert (verdict.outcome, verdict.findings, verdict.first_difference, verdict.tolerance) == ("valid", (), None, 0.0)
