"""What a plot tells apart: planned placements from all others, and peers' as one family."""

from __future__ import annotations

import pytest

from bench.report.families import FAMILIES, OTHER, PEER, PLANNED, family_of, mark_scale
from bench.report.frontier_data import frontier_data
from bench.report.frontier_plot import family_markers
from tests.report.examples import frontier_of, ok


@pytest.mark.parametrize(
    ("labels", "family"),
    [
        (("planned (1,200.0 MiB)",), PLANNED),
        (("planned (floor)",), PLANNED),
        (("peer rotor (1,200.0 MiB)",), PEER),
        (("peer every-block",), PEER),
        (("every block", "peer every-block", "planned (floor)"), "every block"),
        (("twin of h.0",), OTHER),
        (("peers of mine",), OTHER),
    ],
)
def test_a_label_has_a_family(labels: tuple[str, ...], family: str) -> None:
    assert family_of(labels) == family


def test_no_two_families_have_the_same_look_and_planned_ones_are_larger() -> None:
    looks = family_markers()
    assert len(set(looks.values())) == len(FAMILIES)
    assert [family for family in FAMILIES if mark_scale(family) > 1] == [PLANNED]


def test_forty_peers_take_one_entry_of_the_legend() -> None:
    peers = [ok(f"h.{n}", 3000 - n, 1.1 + n / 1000, f"peer method-{n} (1,000.0 MiB)") for n in range(40)]
    data = frontier_data(frontier_of(ok("none", 3236, 1.0, "none", width=0), *peers))
    assert data.families == ("none", PEER)
