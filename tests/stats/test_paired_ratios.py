"""Which samples pair, and what ratio they give."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from bench.records import TimeSample
from bench.stats import Rounds, paired_ratios, sample_time_ms
from tests.builders import join_records, make_records, make_study


def half_widths(samples: list[TimeSample]) -> Mapping[str, float | None]:
    """As an execution reaches them with these samples."""
    names = tuple(dict.fromkeys(sample.placement for sample in samples))
    end = Rounds(make_study(names), (), 0, names).complete(samples, names, out_of_time=True)
    assert end is not None
    return end.half_widths


def test_a_sample_counts_by_the_median_of_its_steps() -> None:
    (sample,) = make_records({"none": [(100.0, 900.0, 102.0)]}).of(TimeSample)
    assert sample_time_ms(sample) == 102.0


def test_a_ratio_is_taken_within_one_round() -> None:
    samples = make_records({"none": [100.0, 200.0], "a": [110.0, 240.0]}).of(TimeSample)
    assert [math.exp(ratio.log_ratio) for ratio in paired_ratios(samples, "none")["a"]] == pytest.approx([1.1, 1.2])


def test_the_same_round_of_another_execution_does_not_pair() -> None:
    records = join_records(make_records({"none": [100.0]}), make_records({"a": [110.0]}, execution=1))
    assert "a" not in paired_ratios(records.of(TimeSample), "none")


def test_a_round_may_be_measured_by_a_process_for_each_placement() -> None:
    records = join_records(
        make_records({"none": [100.0]}, process="one"), make_records({"a": [110.0]}, process="another")
    )
    assert [math.exp(r.log_ratio) for r in paired_ratios(records.of(TimeSample), "none")["a"]] == pytest.approx([1.1])


def test_a_round_without_the_reference_gives_no_ratio() -> None:
    samples = make_records({"none": [100.0, None, 100.0], "a": [110.0, 110.0, None]}).of(TimeSample)
    assert [ratio.round for ratio in paired_ratios(samples, "none")["a"]] == [0]


def test_the_reference_has_the_ratio_one_to_itself() -> None:
    samples = make_records({"none": [100.0, 130.0]}).of(TimeSample)
    assert [ratio.log_ratio for ratio in paired_ratios(samples, "none")["none"]] == [0.0, 0.0]


def test_drift_that_all_placements_share_leaves_no_width() -> None:
    samples = make_records({"none": [100.0, 200.0, 400.0], "a": [150.0, 300.0, 600.0]}).of(TimeSample)
    assert half_widths(samples) == {"a": pytest.approx(0.0)}


def test_half_widths_name_placements_that_have_too_few_rounds() -> None:
    samples = make_records({"none": [100.0] * 3, "a": [110.0, 111.0, 112.0], "b": [120.0]}).of(TimeSample)
    widths = half_widths(samples)
    assert widths["b"] is None
    assert widths["a"] is not None
    assert "none" not in widths


def test_a_sample_without_a_positive_time_is_named() -> None:
    samples = make_records({"none": [100.0], "a": [0.0]}).of(TimeSample)
    with pytest.raises(ValueError, match=r"time sample of a in round 0 .* found \[0\.0\]"):
        paired_ratios(samples, "none")
