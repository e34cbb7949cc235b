"""Two studies side by side: who is faster within which memory, and what is not to be told."""

from __future__ import annotations

import pytest

from bench.compare import ABSOLUTE, RELATIVE, SCALES, Against, Comparison, Measured, compare
from bench.frontier import build_frontier, dominated_area
from tests.builders import MIB, make_records
from tests.compare.studies import THREE, failed, longer_sequences, measured, published, study_of, with_torch

COSTLY = {"none": (1.0, 1000), "blocks.0": (1.2, 700), "blocks.0..1:each": (1.45, 500)}


def against(first: Measured, second: Measured, scale: str = RELATIVE) -> Against:
    return compare([first, second], "test").pairings[0].against(scale)


def verdicts(found: Against) -> list[str]:
    return [row.contest.verdict for row in found.budgets]


def pair(*, scale: str = RELATIVE, **second: object) -> Against:
    return against(measured(seed=1), measured(seed=2, **second), scale)  # type: ignore[arg-type]


# Budgets are 40, 60, 80 % of the peak of none, and any memory; peaks are 50, 70 and 100 % of it, so the fastest within
# them are nothing, blocks.0..1:each, blocks.0 and none.
@pytest.mark.parametrize(
    ("baseline", "candidate", "relative", "absolute"),
    [
        # the same job again
        (measured(seed=1), measured(seed=2), "neither same same same", "neither same same same"),
        # every step 10 % longer: its ratios to its own none stay
        (measured(seed=1), measured(seed=2, step_ms=110.0), "neither same same same", "neither slower slower slower"),
        (measured(seed=1), measured(seed=2, step_ms=90.0), "neither same same same", "neither faster faster faster"),
        # replaying alone costs more
        (measured(seed=1), measured(COSTLY, seed=2), "neither slower slower same", "neither slower slower same"),
        # nothing of one, or of both, was measured
        (measured(seed=1), failed(), "neither only-b only-b only-b", "neither only-b only-b only-b"),
        (failed(), measured(seed=1), "neither only-c only-c only-c", "only-c"),
        (failed(), failed(), "neither neither neither neither", "neither"),
        # one reaches less memory than the other
        (measured(seed=1), measured({"none": (1.0, 1000)}, seed=2), "neither only-b only-b same",
         "neither only-b only-b same"),
    ],
    ids=["same", "slower", "faster", "costlier", "candidate failed", "baseline failed", "both failed", "none alone"],
)  # fmt: skip
def test_verdicts_within_budgets_are_this_table(
    baseline: Measured, candidate: Measured, relative: str, absolute: str
) -> None:
    whole = {"only-b": "only baseline fits", "only-c": "only candidate fits", "neither": "neither fits"}
    for scale, expected in zip(SCALES, (relative, absolute), strict=True):
        assert verdicts(against(baseline, candidate, scale)) == [whole.get(word, word) for word in expected.split()]


def test_budgets_name_the_fastest_placement_within_them() -> None:
    rows = pair().budgets
    assert [row.share for row in rows] == [0.4, 0.6, 0.8, None]
    assert [row.contest.baseline for row in rows] == [None, "blocks.0..1:each", "blocks.0", "none"]
    assert [row.contest.baseline for row in rows] == [row.contest.candidate for row in rows]


def test_absolute_budgets_are_shares_of_the_baselines_none_in_bytes() -> None:
    twice = {text: (ratio, 2 * peak) for text, (ratio, peak) in THREE.items()}
    rows = against(measured(seed=1), measured(twice, seed=2), ABSOLUTE).budgets
    assert [row.budget for row in rows] == [400 * MIB, 600 * MIB, 800 * MIB, None]
    assert [row.contest.candidate for row in rows] == [None, None, None, "none"]


def test_a_placement_that_fits_exactly_fits() -> None:
    found = compare([measured(seed=1), measured(seed=2)], "test", shares=[0.7]).pairings[0]
    assert found.relative.budgets[0].contest.baseline == "blocks.0"
    assert found.absolute.budgets[0].contest.baseline == "blocks.0"


def test_the_whole_of_memory_is_divided_at_the_peaks_of_both() -> None:
    other = {"none": (1.0, 1000), "blocks.0": (1.3, 600)}
    found = against(measured(seed=1), measured(other, seed=2))
    edges = [(stretch.low, stretch.high) for stretch in found.stretches]
    assert edges == [(0.5, 0.6), (0.6, 0.7), (0.7, 1.0), (1.0, None)]
    words = [(win.low, win.high, win.verdict) for win in found.wins]
    assert words == [
        (0.5, 0.6, "only baseline fits"),
        (0.6, 0.7, "same"),
        (0.7, 1.0, "slower"),
        (1.0, None, "same"),
    ]


def test_relative_ratios_and_intervals_are_the_studies_own() -> None:
    one = measured(seed=1)
    points = {point.placement: point for point in compare([one, measured(seed=2)], "t").studies[0].relative.points}
    for trial in one.frontier.trials:
        assert points[trial.placement].time == pytest.approx(trial.time_ratio)
        if trial.time_ratio_interval is not None:
            interval = points[trial.placement].interval
            assert interval is not None
            expected = (trial.time_ratio_interval.low, trial.time_ratio_interval.high)
            assert (interval.low, interval.high) == pytest.approx(expected)


def test_hypervolumes_are_the_studies_own_and_their_ratio_has_an_interval_that_holds_it() -> None:
    first, second = measured(seed=1), measured(COSTLY, seed=2)
    comparison = compare([first, second], "test")
    areas = [entrant.relative.hypervolume for entrant in comparison.studies]
    for measured_one, area in zip((first, second), areas, strict=True):
        assert measured_one.frontier.hypervolume is not None
        assert area == pytest.approx(measured_one.frontier.hypervolume.value)
    found = comparison.pairings[0].relative
    assert areas[0] is not None
    assert areas[1] is not None
    assert found.hypervolume_ratio == pytest.approx(areas[1] / areas[0])
    assert found.hypervolume_interval is not None
    assert found.hypervolume_ratio is not None
    assert found.hypervolume_interval.low < found.hypervolume_ratio < found.hypervolume_interval.high < 1


def test_the_interval_of_equal_hypervolumes_holds_1() -> None:
    interval = pair().hypervolume_interval
    assert interval is not None
    assert interval.low < 1 < interval.high


def test_absolute_hypervolumes_share_the_baselines_reference_point() -> None:
    found = against(measured(seed=1, noise=1e-6), measured(seed=2, noise=1e-6, step_ms=110.0), ABSOLUTE)
    points = [(ratio, peak / 1000) for ratio, peak in THREE.values()]
    expected = dominated_area([(1.1 * t, p) for t, p in points]) / dominated_area(points)
    assert found.hypervolume_ratio == pytest.approx(expected, rel=1e-4)
    assert found.hypervolume_interval is None  # rounds of a session resemble each other


def test_epsilons_say_what_each_lacks() -> None:
    found = against(measured(seed=1, noise=1e-6), measured(COSTLY, seed=2, noise=1e-6))
    assert found.candidate_epsilon == pytest.approx(1.45 / 1.3, rel=1e-4)
    assert found.baseline_epsilon == pytest.approx(1.0, rel=1e-4)


def test_a_study_with_few_rounds_is_unclear_and_not_the_same() -> None:
    found = pair(rounds=2)
    assert verdicts(found)[1:3] == ["unclear", "unclear"]
    assert found.hypervolume_interval is None
    assert found.hypervolume_ratio is not None


def test_wide_noise_is_unclear() -> None:
    assert verdicts(pair(noise=0.2, rounds=8))[1:3] == ["unclear", "unclear"]


def test_a_published_frontier_alone_is_compared_by_its_intervals() -> None:
    comparison = compare([measured(seed=1), published(COSTLY, seed=2)], "test")
    found = comparison.pairings[0]
    assert verdicts(found.relative)[1:3] == ["slower", "slower"]
    assert verdicts(found.absolute)[1:] == ["unclear"] * 3
    assert found.relative.hypervolume_ratio is not None
    assert found.relative.hypervolume_interval is None
    assert comparison.studies[1].knee.confidence is None
    assert any("only the published frontier" in note for note in comparison.notes)


def test_its_intervals_for_verdicts_are_no_narrower_than_with_the_rounds() -> None:
    with_rounds = against(measured(seed=1), measured(COSTLY, seed=2)).budgets[1].contest.sure_interval
    without = against(measured(seed=1), published(COSTLY, seed=2)).budgets[1].contest.sure_interval
    assert with_rounds is not None
    assert without is not None
    assert without.high - without.low > 0.9 * (with_rounds.high - with_rounds.low)


def test_the_knee_and_how_often_it_is_named() -> None:
    knee = compare([measured(noise=1e-4), measured(seed=2)], "test").studies[0].knee
    assert knee.placement == "blocks.0"
    assert knee.confidence == 1.0
    assert knee.none_share == 0.0
    assert knee.others == ()


def test_a_knee_on_a_straight_frontier_is_unstable() -> None:
    straight = {"none": (1.0, 1000), "blocks.0": (1.15, 750), "blocks.0..1:each": (1.3, 500)}
    knee = compare([measured(straight, seed=3, noise=0.03), measured(seed=2)], "test").studies[0].knee
    assert knee.confidence is not None
    assert knee.none_share is not None
    shares = [knee.confidence, *(other.share for other in knee.others)]
    assert sum(shares) + (knee.none_share if knee.placement is not None else 0.0) == pytest.approx(1.0)
    assert knee.confidence < 0.99


def test_any_number_of_studies_is_compared_with_the_first() -> None:
    comparison = compare([measured(seed=seed) for seed in range(28)], "many")
    assert [pairing.label for pairing in comparison.pairings][:2] == ["B", "C"]
    assert comparison.pairings[-1].label == "AB"
    assert len(comparison.studies) == 28


def test_studies_are_never_merged() -> None:
    """A point of one that dominates all of the other's takes nothing off the other's frontier."""
    better = {text: (ratio, peak / 2) for text, (ratio, peak) in THREE.items()}
    comparison = compare([measured(seed=1), measured(better, seed=2, controls=with_torch("2.14.0"))], "test")
    assert [sum(point.on_frontier for point in e.absolute.points) for e in comparison.studies] == [3, 3]
    assert not comparison.pairings[0].same_key


def test_another_job_is_labelled_as_not_like_for_like() -> None:
    comparison = compare([measured(seed=1), measured(seed=2, controls=longer_sequences(512))], "test")
    assert comparison.pairings[0].unlike == ("sequence_length 16 → 512",)
    assert comparison.notes[0] == ("B: absolute peaks and times are not like for like: sequence_length 16 → 512")


def test_a_study_without_none_is_relative_to_its_reference_and_says_so() -> None:
    without = measured(THREE, seed=2, outcomes={"none": ("error", "broken")})
    comparison = compare([measured(seed=1), without], "test")
    assert comparison.studies[1].reference == "blocks.0"
    assert any("times are relative to blocks.0" in note for note in comparison.notes)


def test_equal_keys_are_said() -> None:
    assert any("the same controls as A" in note for note in compare([measured(), measured(seed=1)], "t").notes)


def test_equal_input_gives_equal_output() -> None:
    def once() -> Comparison:
        return compare([measured(seed=1), measured(COSTLY, seed=2)], "test")

    assert once() == once()


def test_one_study_is_no_comparison_and_a_budget_is_above_0() -> None:
    with pytest.raises(ValueError, match="two studies or more"):
        compare([measured()], "test")
    with pytest.raises(ValueError, match="above 0"):
        compare([measured(), measured(seed=1)], "test", shares=[0.0])


def test_a_drifting_machine_gives_no_verdict_on_milliseconds() -> None:
    """Step times of one study rise by a half in its middle; ratios are paired, and hold."""
    study = study_of(THREE)
    noise = [1 + 0.002 * ((7 * i) % 5 - 2) for i in range(24)]
    times = {
        text: [100 * ratio * noise[(i + k) % 24] * (1.5 if i >= 12 else 1.0) for i in range(24)]
        for k, (text, (ratio, _)) in enumerate(THREE.items())
    }
    records = make_records(times, {text: round(peak * MIB) for text, (_, peak) in THREE.items()})
    drifting = Measured(frontier=build_frontier(study, records), study=study, records=records)
    assert drifting.frontier.drift
    comparison = compare([measured(seed=1), drifting], "test")
    found = comparison.pairings[0]
    assert verdicts(found.relative)[1:3] == ["same", "same"]
    assert verdicts(found.absolute)[1:] == ["unclear"] * 3
    assert any("drifted by" in note for note in comparison.notes)
