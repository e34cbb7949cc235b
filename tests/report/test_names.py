"""Long placements are shown by what planned them."""

from __future__ import annotations

import dataclasses

from bench.report.names import long_names, named
from tests.report.examples import frontier_of, ok
from tests.report.test_table import text_of

LONG = "+".join(f"transformer.h.{n}.mlp.act/transformer.h.{n}.mlp.c_proj" for n in range(4))
OTHER = LONG.replace("mlp.act", "ln_2")


def test_a_long_planned_placement_is_named_and_a_short_one_is_not() -> None:
    trials = [ok("transformer.h.0..11:each", 2000, 1.2, "planned (floor)"), ok(LONG, 2500, 1.1, "planned (2,600 MiB)")]
    assert long_names(trials) == {LONG: "planned (2,600 MiB)"}


def test_a_peers_placement_has_the_peers_name() -> None:
    assert long_names([ok(LONG, 2500, 1.1, "peer rotor (2,600 MiB)")]) == {LONG: "rotor (2,600 MiB)"}


def test_what_somebody_wrote_is_shown_as_written() -> None:
    assert long_names([ok(LONG, 2500, 1.1, "explicit")]) == {}


def test_names_that_two_would_share_have_the_beginning_of_their_ids() -> None:
    trials = [ok(text, 2500, 1.1, "planned (2,600 MiB)") for text in (LONG, OTHER)]
    assert long_names(trials) == {trial.placement: f"planned (2,600 MiB) {trial.id[:4]}" for trial in trials}


def test_a_twin_is_named_after_what_it_stands_for() -> None:
    first = ok(LONG, 2500, 1.1, "peer rotor (2,600 MiB)")
    twin = dataclasses.replace(ok(f"{LONG}@restore", 2500, 1.1, f"twin of {LONG}"), twin_of=LONG)
    assert long_names([first, twin])[twin.placement] == "rotor (2,600 MiB) @restore"


def test_sentences_have_names_where_long_placements_stood() -> None:
    assert named(f"the widest is {LONG}", {LONG: "planned (floor)"}) == "the widest is planned (floor)"


def test_the_table_shows_names_in_rows_and_notes_and_says_where_texts_are() -> None:
    trials = [ok("none", 4000, 1.0, "none", width=0), ok(LONG, 2500, 1.1, "planned (2,600 MiB)")]
    text = text_of(frontier_of(*trials, notes=(f"the widest interval is that of {LONG}",)))
    assert "planned (2,600 MiB)" in text
    assert "the widest interval is that of planned (2,600 MiB)" in text
    assert "their texts are in frontier.csv and plan.json" in text
    assert "c_proj" not in text
