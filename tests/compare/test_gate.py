"""`fail_if`: when a comparison fails somebody's CI, and when it only says that it cannot tell."""

from __future__ import annotations

import pytest

from bench.compare import Finding, Measured, compare, findings, parse_rules
from bench.spec import SpecError
from tests.compare.studies import THREE, failed, longer_sequences, measured

COSTLY = {"none": (1.0, 1000), "blocks.0": (1.2, 700), "blocks.0..1:each": (1.45, 500)}
LARGER = {text: (ratio, 1.02 * peak) for text, (ratio, peak) in THREE.items()}


def found(rule: str, candidate: Measured, baseline: Measured | None = None) -> tuple[Finding, ...]:
    return findings(compare([baseline or measured(seed=1), candidate], "test"), parse_rules(rule))


def fires(rule: str, candidate: Measured) -> bool:
    return any(finding.fires for finding in found(rule, candidate))


# A step 10 % longer is slower and not costlier; replaying that costs more is both.
@pytest.mark.parametrize(
    ("rule", "candidate", "is_fired"),
    [
        ("slower:2%", measured(seed=2), False),
        ("slower:2%", measured(seed=2, step_ms=110.0), True),
        ("slower:20%", measured(seed=2, step_ms=110.0), False),
        ("slower:2%", measured(seed=2, step_ms=90.0), False),
        ("slower:2%", measured(COSTLY, seed=2), True),
        ("costlier:2%", measured(seed=2), False),
        ("costlier:2%", measured(seed=2, step_ms=110.0), False),
        ("costlier:2%", measured(COSTLY, seed=2), True),
        ("costlier:30%", measured(COSTLY, seed=2), False),
        ("larger:1%", measured(seed=2), False),
        ("larger:0%", measured(seed=2), False),
        ("larger:1%", measured(LARGER, seed=2), True),
        ("larger:3%", measured(LARGER, seed=2), False),
        ("hypervolume:1%", measured(seed=2), False),
        ("hypervolume:1%", measured(COSTLY, seed=2), True),
        ("hypervolume:50%", measured(COSTLY, seed=2), False),
        # A candidate of which nothing fits is worse than any.
        ("slower:2%", failed(), True),
        ("costlier:2%", failed(), True),
    ],
)
def test_rules_fire_as_in_this_table(rule: str, candidate: Measured, is_fired: bool) -> None:
    assert fires(rule, candidate) == is_fired


def test_what_fires_says_where_by_how_much_and_how_sure() -> None:
    (first, *_) = [finding for finding in found("slower:2%", measured(seed=2, step_ms=110.0)) if finding.fires]
    assert first.text.startswith("B within 60 % of none: step time ×1.")
    assert "at 97 %" in first.text


def test_an_interval_that_reaches_beyond_the_threshold_is_told_and_does_not_fire() -> None:
    told = found("slower:2%", measured(seed=2, noise=0.1, rounds=8))
    assert told
    assert not any(finding.fires for finding in told)


def test_a_rule_that_has_nothing_to_judge_is_told_and_does_not_fire() -> None:
    for rule in ("slower:2%", "costlier:2%", "larger:2%", "hypervolume:2%"):
        told = found(rule, failed(), baseline=failed())
        assert told
        assert not any(finding.fires for finding in told)


def test_milliseconds_and_bytes_of_another_job_are_refused() -> None:
    other = measured(seed=2, controls=longer_sequences(512))
    for rule in ("slower:2%", "larger:2%"):
        with pytest.raises(SpecError, match=r"not like for like \(sequence_length 16 → 512\)"):
            found(rule, other)
    assert not any(finding.fires for finding in found("costlier:2%", other))


def test_several_rules_are_a_list() -> None:
    assert [rule.text for rule in parse_rules(["slower:2%", "larger: 0.5 %"])] == ["slower:2%", "larger:0.5%"]
    assert parse_rules(None) == ()


@pytest.mark.parametrize("option", ["slower", "slower:2", "faster:2%", "slower:-2%", "slower:x%", 3])
def test_another_form_is_refused_with_the_forms_that_there_are(option: object) -> None:
    with pytest.raises(SpecError, match=r"slower:2%, costlier:2%, larger:2%, hypervolume:2%"):
        parse_rules(option)
