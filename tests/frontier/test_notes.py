"""Each sentence that a frontier can carry, and that it is not there without cause."""

from __future__ import annotations

import dataclasses

from bench.frontier import build_frontier
from bench.records import Records, RoundDiscarded
from tests.builders import MIB, join_records, make_controls, make_records, make_study

TIMES = {"none": [100.0] * 3, "a": [110.0] * 3, "b": [130.0] * 3}
PEAKS = {"none": 100 * MIB, "a": 60 * MIB, "b": 40 * MIB}

GOES_ON = "the same sweep with a larger caps.time_cap_s goes on"


def notes(
    records: Records, placements: tuple[str, ...] = ("none", "a", "b"), reference: str | None = None
) -> list[str]:
    return list(build_frontier(make_study(placements, reference=reference), records).notes)


def test_a_sound_study_has_no_notes() -> None:
    assert notes(make_records(TIMES, PEAKS)) == []


def test_a_time_cap_says_the_widest_interval_that_was_reached() -> None:
    times = TIMES | {"a": [110.0, 110.1, 110.2], "b": [130.0, 131.0, 132.0]}
    assert notes(make_records(times, PEAKS, stopped="time cap")) == [
        f"time cap reached after 3 rounds: the widest interval is ± 1.9 % (b); {GOES_ON}"
    ]


def test_a_time_cap_says_where_rounds_were_too_few_for_an_interval() -> None:
    some = make_records(
        {"none": [100.0] * 3, "a": [110.0, 110.1, 110.2], "b": [130.0, 131.0]}, PEAKS, stopped="time cap"
    )
    reached = "the widest interval is ± 0.2 % (a), and too few for an interval of 1 of 2 placements"
    assert notes(some) == [f"time cap reached after 3 rounds: {reached}; {GOES_ON}"]
    single = make_records({"none": [100.0], "a": [110.0], "b": [130.0]}, PEAKS, stopped="time cap")
    assert notes(single) == [
        "time cap reached after 1 round: too few for an interval of 2 of 2 placements, "
        f"and no time here can be trusted; {GOES_ON}"
    ]


def test_a_time_cap_before_anything_was_compared_is_said() -> None:
    records = make_records({"none": [100.0]}, {"none": 80}, {"a": ("oom", "2 GiB")}, stopped="time cap")
    assert notes(records, ("none", "a")) == [
        f"time cap reached after 1 round: nothing was compared with the reference; {GOES_ON}"
    ]


def test_a_time_cap_in_some_executions_says_in_how_many() -> None:
    records = join_records(
        make_records(TIMES, PEAKS, execution=0, stopped="time cap"), make_records(TIMES, PEAKS, execution=1)
    )
    assert notes(records) == [
        f"time cap reached in 1 of 2 executions after 3 rounds: the widest interval is ± 0.0 % (a); {GOES_ON}"
    ]


def test_none_that_did_not_fit_is_said_with_its_reason() -> None:
    records = make_records(
        {"a": [110.0] * 3, "b": [130.0] * 3}, {"a": 60, "b": 40}, {"none": ("oom", "tried to allocate 2 GiB")}
    )
    relative = "all time ratios are relative to a, the fastest placement that the others were measured beside"
    assert notes(records) == [f"`none` did not fit (tried to allocate 2 GiB): {relative}"]


def test_none_that_failed_otherwise_or_is_absent_is_said() -> None:
    times, peaks = {"a": [110.0] * 3, "b": [130.0] * 3}, {"a": 60, "b": 40}
    assert notes(make_records(times, peaks, {"none": ("crashed", "signal 9")}))[0].startswith(
        "`none` has no result (crashed: signal 9): all time ratios are relative to a"
    )
    assert notes(make_records(times, peaks), placements=("a", "b"))[0].startswith("`none` is not in this study: ")


def test_a_reference_that_the_study_asks_for_is_said() -> None:
    assert notes(make_records(TIMES, PEAKS), reference="a") == [
        "all time ratios are relative to a, the reference that the study asks for, not to `none`"
    ]


def test_a_reference_asked_for_that_failed_is_said() -> None:
    records = make_records(
        {"none": [100.0] * 3, "a": [110.0] * 3}, {"none": 80, "a": 60}, {"b": ("hung", "no step for 600 s")}
    )
    assert notes(records, reference="b") == [
        "`b` has no result (hung: no step for 600 s): all time ratios are relative to none"
    ]


def test_a_damaged_line_is_named() -> None:
    assert notes(join_records(make_records(TIMES, PEAKS), damaged_lines=(7,))) == [
        "1 damaged record line skipped in samples.jsonl: 7"
    ]
    assert notes(join_records(make_records(TIMES, PEAKS), damaged_lines=(1, 2, 3, 4, 5))) == [
        "5 damaged record lines skipped in samples.jsonl: 1, 2, 3 and 2 more"
    ]


def test_peaks_that_differ_between_executions_are_named() -> None:
    records = join_records(
        make_records(TIMES, PEAKS, execution=0), make_records(TIMES, PEAKS | {"a": 60 * MIB + 512}, execution=1)
    )
    assert notes(records) == [
        "the peak of a differs between executions, and the highest counts; most for a: 62,914,560 to 62,915,072 bytes"
    ]


def test_it_is_said_when_no_placement_lowers_the_peak() -> None:
    assert notes(make_records(TIMES, {"none": 40, "a": 60, "b": 50})) == [
        "no placement lowers the peak: `none` is the whole frontier"
    ]


def test_a_placement_that_is_only_luckier_than_none_does_not_hide_that_no_peak_fell() -> None:
    times = TIMES | {"a": [99.0] * 3}
    found = notes(make_records(times, {"none": 40, "a": 40, "b": 50}))
    assert "no placement lowers the peak of `none`" in found


def test_a_plateau_of_the_peak_is_named() -> None:
    assert notes(make_records(TIMES, {"none": 100 * MIB, "a": 40 * MIB + 40_000, "b": 40 * MIB})) == [
        "2 placements have the same peak within 0.1 % (40.0 MiB), only time tells them apart: b, a"
    ]
    assert notes(make_records(TIMES, {"none": 100 * MIB, "a": 40 * MIB + 43_000, "b": 40 * MIB})) == []


def test_many_plateaus_are_counted_instead_of_listed() -> None:
    placements = ("none", *(f"p{index}" for index in range(10)))
    times = {placement: [100.0 + index] * 3 for index, placement in enumerate(placements)}
    peaks = {placement: MIB * (100 - (index + 1) // 2) for index, placement in enumerate(placements)}
    found = notes(make_records(times, peaks), placements)
    assert len(found) == 4
    assert found[-1] == "2 more groups of placements share a peak within 0.1 %"


def test_an_unfinished_study_says_what_is_missing() -> None:
    records = make_records({"none": [100.0] * 3}, {"none": 80}, stopped=None)
    assert notes(records) == ["not finished: 2 of 3 placements are not measured yet (a, b)"]


def test_an_unsteady_machine_is_said() -> None:
    drift = [1.0, 1.05, 1.2]
    times = {placement: [time * d for time, d in zip(of, drift, strict=True)] for placement, of in TIMES.items()}
    varied = "the reference's step time varied by 20 % between rounds"
    assert notes(make_records(times, PEAKS)) == [
        f"the machine was not steady: {varied}; paired ratios hold, absolute times less"
    ]


def test_a_cap_that_was_lifted_is_not_told() -> None:
    went_on = make_records(TIMES, PEAKS, first_round=3, process="process-1")
    assert notes(join_records(make_records(TIMES, PEAKS, stopped="time cap"), went_on)) == []


def test_variable_lengths_say_whose_peak_it_is() -> None:
    workload = dataclasses.replace(make_controls().workload, lengths="variable", accumulation=2)
    frontier = build_frontier(make_study(("none",), make_controls(workload=workload)), make_records(TIMES, PEAKS))
    assert frontier.notes[0].startswith("micro-batches of a step differ in length: the peak is that of the longest")


def test_intervals_that_stopped_shrinking_are_told() -> None:
    records = make_records(TIMES, PEAKS, stopped="not getting tighter")
    end = dataclasses.replace(records.entries[-1], half_widths={"a": 0.031, "b": 0.012})  # type: ignore[call-arg]
    told = "intervals had stopped shrinking after 3 rounds: the widest is ± 3.1 %, and more rounds would not help"
    assert notes(Records(entries=(*records.entries[:-1], end))) == [told]


def test_discarded_rounds_are_told_with_their_reason() -> None:
    discarded = RoundDiscarded(execution=0, process="process-0", unix_time_s=1.0, round=0, reason="the GPU was too hot")
    records = join_records(
        make_records(TIMES, PEAKS),
        Records(entries=(discarded,)),
        make_records({text: [100.0] for text in TIMES}, first_round=3, process="process-1"),
    )
    assert "1 round discarded and measured again: the GPU was too hot" in notes(records)


def test_why_a_verdict_is_unclear_is_said_where_the_interval_leaves_no_doubt() -> None:
    slowing = {"none": [100.0] * 30, "a": [110.0 + 2 * number for number in range(30)]}
    said = notes(make_records(slowing, PEAKS), ("none", "a"))
    assert any(note.startswith("a is unclear though its 95 % interval leaves ×1 out: its time over") for note in said)
    assert not any("is unclear" in note for note in notes(make_records(TIMES, PEAKS)))


def test_of_many_unclear_placements_the_first_are_told_and_the_others_counted() -> None:
    texts = ("none", *"abcdefg")
    slowing = {text: [110.0 + 2 * number for number in range(30)] for text in texts} | {"none": [100.0] * 30}
    said = [note for note in notes(make_records(slowing, dict.fromkeys(texts, MIB)), texts) if "unclear" in note]
    assert [note[:12] for note in said] == ["a is unclear", "b is unclear", "c is unclear", "4 more are u"]
