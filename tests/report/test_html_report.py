"""The report of a study: whole, closed to the net and to what names may hold, and honest where something is missing."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from bench.frontier.types import Frontier, Trial
from bench.records import AuditRecord, Forecasts, Records, read_study
from bench.records.timeline import Timelines
from bench.report.html_report import REPORT_FILE, html_report, write_html_report
from bench.report.html_timelines import REMAKE
from bench.spec import OWN_TARGET, StudySpec
from tests.records.test_forecasts import forecast_of
from tests.records.test_timelines import timeline_of
from tests.report.examples import failed, frontier_of, gpt2_eight, gpt2_sixteen, none_does_not_fit, ok, sixty, study_of
from tests.report.html_page import Page

REFERENCE = Path(__file__).parents[2] / "results/reference/cpu"
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&{{data}}\u2028'\"<!--"
EVERY = "transformer.h.0..11:each"


def page_of(
    frontier: Frontier,
    *,
    study: StudySpec | None = None,
    entries: tuple[AuditRecord, ...] = (),
    forecasts: Forecasts | None = None,
    timelines: Timelines | None = None,
) -> Page:
    records = Records(entries=entries, forecasts=forecasts or Forecasts())
    return Page(html_report(study or study_of(frontier), frontier, records, timelines or Timelines()))


def placement_of(page: Page, text: str) -> dict[str, Any]:
    (found,) = [placement for placement in page.data["placements"] if placement["text"] == text]
    return dict(found)


def evidence_of(page: Page, text: str) -> dict[str, str]:
    return {term: said for group in placement_of(page, text)["evidence"]["groups"] for term, said in group["rows"]}


def audited(placement: str, **fields: Any) -> AuditRecord:
    values: dict[str, Any] = {
        "outcome": "valid", "findings": (), "trials": 2, "differing": 0, "tolerance": 0.0, "steps": 2, "key": "0" * 16,
    }  # fmt: skip
    return AuditRecord(execution=0, process="p", unix_time_s=0.0, placement=placement, **(values | fields))


def test_the_page_loads_nothing() -> None:
    text = html_report(study_of(gpt2_eight()), gpt2_eight(), Records(entries=()), Timelines())
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)|//cdn|@import|\bfetch\(|XMLHttpRequest|url\((?!['\"]?#)", text
    )
    assert not any({"src", "href", "style"} & set(attributes) for _, attributes in Page(text).tags)


def test_the_policy_lets_the_pages_own_program_and_style_in_and_nothing_else() -> None:
    page = page_of(gpt2_eight())
    (style,), (script,) = page.styles, page.scripts
    digests = [f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in (style, script)]
    assert page.policy.split("; ") == [
        "default-src 'none'",
        f"style-src {digests[0]}",
        f"script-src {digests[1]}",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_whatever_a_study_holds_stays_text() -> None:
    nasty = dataclasses.replace(
        ok("transformer.h.0", 2000, 1.1), placement=NASTY, generators=(NASTY,), verdict=NASTY, verdict_reason=NASTY,
        audit=NASTY, audit_kinds=(NASTY,), audit_note=NASTY, peak_phase=NASTY, forecast_method=NASTY, id=NASTY,
    )  # fmt: skip
    frontier = frontier_of(
        ok("none", 3000, 1.0, "none", width=0), nasty, failed("h.2", NASTY, NASTY),
        model=NASTY, device=NASTY, study=NASTY, notes=(NASTY,),
    )  # fmt: skip
    plain = frontier_of(ok("none", 3000, 1.0, "none", width=0))
    finding = {"kind": NASTY, "text": NASTY, "cure": NASTY, "unit": NASTY, "where": NASTY}
    page = page_of(
        frontier,
        study=study_of(plain),
        entries=(audited(NASTY, outcome="invalid", findings=(finding,), notes=(NASTY,)),),
        forecasts=Forecasts(missing={"h.2": NASTY}),
        timelines=Timelines(placements={NASTY: timeline_of(NASTY)}),
    )
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 2
    assert "img" not in tags
    found = placement_of(page, NASTY)
    assert found["id"] == NASTY
    assert found["timeline"]["peak"] == 1500
    assert dict(found["evidence"]["groups"][0]["rows"])["note"] == NASTY
    assert NASTY in [cell for row in page.rows["table"] for cell in row]


def test_the_same_study_gives_the_same_page() -> None:
    pages = [html_report(study_of(gpt2_eight()), gpt2_eight(), Records(entries=()), Timelines()) for _ in range(2)]
    assert pages[0] == pages[1]


def test_the_table_has_every_placement_the_frontier_first_and_what_is_not_scored_last() -> None:
    frontier = gpt2_sixteen()
    rows = page_of(frontier).rows["table"][1:]
    labels = [row[1].removesuffix(" (reference)") for row in rows]
    short = {trial.placement: trial.placement.replace("transformer.", "") for trial in frontier.trials}
    on = len(frontier.frontier)
    assert labels[:on] == [short[placement] for placement in frontier.frontier]
    assert sorted(labels) == sorted(short.values())
    assert [row[4] for row in rows[-2:]] == ["no-effect", "oom"]
    assert all("–" in row[2] for row in rows[-2:])


def test_marks_limits_and_lines_are_those_of_the_frontier_plot() -> None:
    page = page_of(gpt2_eight())
    relative, absolute = page.data["axes"]
    assert (relative["isRelative"], absolute["isRelative"]) == (True, False)
    index = next(i for i, p in enumerate(page.data["placements"]) if p["text"] == EVERY)
    at = relative["places"][index]
    assert at["x"] == pytest.approx(2390 / 3236)
    assert (at["y"], at["low"], at["high"]) == pytest.approx((1.22, 1.20, 1.24))
    assert absolute["places"][index]["x"] == pytest.approx(2390)
    assert absolute["yLabel"] == "Step time (s)"
    assert [bound["label"] for bound in absolute["lines"]] == ["persistent 1424 MiB", "capacity 15.00 GiB"]
    assert relative["xLimits"][0] < at["x"] < relative["xLimits"][1]


def test_what_was_measured_and_is_not_valid_has_a_mark_and_is_not_on_the_frontier() -> None:
    page = page_of(sixty())
    (invalid,) = [p for p in page.data["placements"] if p["search"].count("invalid") and not p["isValid"]]
    index = page.data["placements"].index(invalid)
    assert page.data["axes"][0]["places"][index] is not None
    assert not invalid["onFrontier"]
    assert invalid["tag"] == "a"
    assert invalid["brief"][-1] == "invalid: not on the frontier"


def test_what_was_expected_of_a_planned_placement_lies_beside_it_in_both_axes() -> None:
    planned = dataclasses.replace(
        ok("transformer.h.0..5:each", 2400, 1.2, "planned (floor)"),
        expected_peak_bytes=2427 * 2**20,
        expected_peak_error_share=0.0277,
        expected_replay_ms=493.0,
        expected_replay_error_share=-0.5,
        replay_ms=986.0,
    )
    page = page_of(frontier_of(ok("none", 3236, 1.0, "none", width=0), planned))
    index = next(i for i, p in enumerate(page.data["placements"]) if p["text"] == planned.placement)
    relative, absolute = (axes["places"][index]["expected"] for axes in page.data["axes"])
    assert relative == pytest.approx((0.75, 1.1))
    assert absolute == pytest.approx((2427, 4.93 * 1.1))
    assert placement_of(page, planned.placement)["evidence"]["expected"] == [
        ["peak, planned", "2427 MiB", "2400 MiB", "+2.8 %"],
        ["replay time, planned", "493 ms", "986 ms", "-50.0 %"],
    ]


def test_a_placement_that_nobody_planned_has_no_expectation() -> None:
    page = page_of(gpt2_eight())
    assert all(place["expected"] is None for axes in page.data["axes"] for place in axes["places"] if place)


def test_the_audit_is_told_with_its_findings_and_what_to_do() -> None:
    finding = {"kind": "rng", "text": "dropout drew again", "cure": "use @restore", "unit": "h.0", "where": "m.py:7"}
    first = {
        "op": "bernoulli_", "module": "h.0", "source": "m.py:7", "region": "h.0", "position": 3, "what": "output",
        "first": "[1, 0]", "replayed": "[0, 1]",
    }  # fmt: skip
    entries = (
        audited(EVERY),
        audited("transformer.h.0..5:each", outcome="invalid", differing=1, findings=(finding,), first_difference=first),
    )
    page = page_of(gpt2_eight(), entries=entries)
    assert evidence_of(page, EVERY)["replay"] == "valid: equal to the bit in 2 trials of 2 steps and a forward"
    told = evidence_of(page, "transformer.h.0..5:each")
    assert told["replay"] == "invalid: 1 of 2 trials of 2 steps and a forward differs"
    assert told["found"] == "rng: dropout drew again (h.0 m.py:7)"
    assert told["what to do"] == "use @restore"
    assert told["first op that differs"] == "bernoulli_, number 3 of h.0; h.0 m.py:7"
    assert evidence_of(page, "none")["replay"] == "nothing is replayed"


def test_a_placement_that_was_not_audited_says_so_and_perhaps_why() -> None:
    frontier = gpt2_eight()
    off, gate = (dataclasses.replace(study_of(frontier), audit=audit) for audit in ("off", "gate"))
    why = "not audited: the study has audit=off, or is from before there were audits"
    assert evidence_of(page_of(frontier, study=off), EVERY)["replay"] == why
    assert evidence_of(page_of(frontier, study=gate), EVERY)["replay"] == "not audited"


def test_what_was_not_measured_is_not_told_as_a_number() -> None:
    page = page_of(gpt2_sixteen())
    told = evidence_of(page, "transformer.h.0..11:each:keep.matmul%2")
    assert set(told) == {"outcome", "reason", "yielded by", "replay"}
    assert told["outcome"] == "oom"


def test_a_timeline_says_that_it_is_a_forecast_and_how_it_compares_to_what_was_measured() -> None:
    peak = gpt2_eight().trials[0].peak_allocated_bytes
    assert peak is not None
    exact = dataclasses.replace(timeline_of("none"), peak_bytes=peak, by_category={"parameters": (peak,)}, peak_point=0)
    off = dataclasses.replace(exact, placement=EVERY)
    forecasts = Forecasts(placements={"none": forecast_of("none", peak), EVERY: forecast_of(EVERY, peak)})
    page = page_of(gpt2_eight(), forecasts=forecasts, timelines=Timelines(placements={"none": exact, EVERY: off}))
    assert placement_of(page, "none")["origin"].startswith(
        "A forecast: the step was run on tensors without memory. Its peak is to the byte the measured one."
    )
    assert "bytes above the measured one." in placement_of(page, EVERY)["origin"]


def test_what_a_caching_allocator_adds_is_told_and_not_drawn() -> None:
    forecasts = Forecasts(placements={"none": forecast_of("none", 1500 + 3 * 2**10)})
    page = page_of(gpt2_eight(), forecasts=forecasts, timelines=Timelines(placements={"none": timeline_of("none")}))
    assert "adds 3072 B to the forecast peak" in placement_of(page, "none")["origin"]


def test_where_there_is_no_timeline_the_page_says_why_and_how_to_get_one() -> None:
    frontier, known = (
        gpt2_eight(),
        Forecasts(placements={"none": forecast_of("none")}, missing={EVERY: "it reads values."}),
    )
    page = page_of(frontier, forecasts=known)
    old, refused, unforecast = (placement_of(page, text) for text in ("none", EVERY, "transformer.h.0..5:each"))
    assert [one["timeline"] for one in (old, refused, unforecast)] == [None, None, None]
    assert old["origin"] == f"No memory timeline: the forecast is from before timelines were kept. {REMAKE}"
    assert refused["origin"] == "No memory timeline: it comes with the forecast, and there is none. it reads values."
    assert unforecast["origin"] == f"No memory timeline: the placement was not forecast. {REMAKE}"
    damaged = page_of(frontier, timelines=Timelines(problem="timelines.json cannot be read (torn)"))
    assert placement_of(damaged, "none")["origin"] == "No memory timeline: timelines.json cannot be read (torn)"
    study = study_of(frontier)
    model = dataclasses.replace(study.controls.model, target=OWN_TARGET)
    own = dataclasses.replace(study, controls=dataclasses.replace(study.controls, model=model))
    assert (
        "only the script that this step is from can build it"
        in placement_of(page_of(frontier, study=own), "none")["origin"]
    )


def test_a_study_with_nothing_measured_is_a_page_with_a_table() -> None:
    page = page_of(frontier_of(failed("none", "oom", "2 GiB"), failed("transformer.h.0", "oom", "2 GiB")))
    assert page.data["axes"] == []
    assert page.texts["headline"] == "No placement was measured."
    assert len(page.rows["table"]) == 3


def test_where_none_does_not_fit_the_page_says_what_shares_are_of() -> None:
    page = page_of(none_does_not_fit())
    assert page.data["axes"][0]["xLabel"] == "Peak allocated memory / forecast of none"
    assert "of none’s forecast" in page.rows["table"][0]


def two_hundred() -> tuple[Frontier, Timelines]:
    """200 placements, each with a timeline of as many points as there may be."""
    placements = [f"transformer.h.{first}..{first + many}:each" for first in range(20) for many in range(1, 11)]
    trials: list[Trial] = [ok("none", 40_000, 1.0, "none", width=0)]
    trials += [ok(text, 20_000 + 97 * n, 1.5 - n / 500, "explicit") for n, text in enumerate(placements[1:])]
    numbers = tuple(range(240))
    bytes_ = {
        name: tuple(10**9 + 7**7 * (n % 90) for n in numbers)
        for name in ("gradients", "saved activations", "temporaries")
    }
    whole = {"positions": numbers, "made": numbers, "remade": numbers, "by_category": bytes_, "width": 240}
    peak = max(map(sum, zip(*bytes_.values(), strict=True)))
    whole |= {"peak_bytes": peak, "peak_point": 89}
    timelines = {t.placement: dataclasses.replace(timeline_of(t.placement), **whole) for t in trials}
    return frontier_of(*trials), Timelines(placements=timelines)


def test_a_report_of_two_hundred_placements_stays_below_five_megabytes() -> None:
    frontier, timelines = two_hundred()
    text = html_report(study_of(frontier), frontier, Records(entries=()), timelines)
    assert len(Page(text).data["placements"]) == 200
    assert len(text.encode()) < 5e6


@pytest.mark.parametrize("name", ["gpt2-19a93c5f", "peers/gpt2-19a93c5f"])
def test_a_real_study_is_written_with_the_ratio_of_every_round(tmp_path: Path, name: str) -> None:
    from bench.frontier import load_frontier

    directory = REFERENCE / name
    frontier = load_frontier(directory)
    path = write_html_report(tmp_path / "export", directory, read_study(directory), frontier)
    assert path == tmp_path / "export" / REPORT_FILE
    placements = Page(path.read_text(encoding="utf-8")).data["placements"]
    assert {p["text"]: len(p["rounds"]) for p in placements if p["isValid"]} == {
        trial.placement: trial.rounds for trial in frontier.trials if trial.outcome == "ok"
    }
