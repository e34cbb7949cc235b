"""Where more replay frees nothing more."""

from __future__ import annotations

from bench.explain import PlateauPoint, find_plateau


def points(*peaks_and_flops: tuple[int, int]) -> list[PlateauPoint]:
    return [
        PlateauPoint(placement=f"p{n}", peak_bytes=peak, replay_flops=flops)
        for n, (peak, flops) in enumerate(peaks_and_flops)
    ]


def test_the_plateau_begins_at_the_cheapest_placement_that_is_as_low_as_any() -> None:
    found = find_plateau(points((1000, 0), (600, 10), (400, 20), (400, 30), (403, 40)))
    assert found is not None
    assert (found.begins_at, found.dearer) == ("p2", ("p3", "p4"))
    assert found.text == "plateau from here on: p2 reaches 400 B, and 2 dearer placements free no more"


def test_there_is_none_where_the_dearest_is_the_lowest() -> None:
    assert find_plateau(points((1000, 0), (600, 10), (400, 20))) is None


def test_a_peak_within_a_hundredth_of_the_range_is_no_lower() -> None:
    assert find_plateau(points((1000, 0), (405, 10), (400, 20))) is not None
    assert find_plateau(points((1000, 0), (407, 10), (400, 20))) is None


def test_the_order_in_which_placements_are_given_does_not_matter() -> None:
    given = points((1000, 0), (600, 10), (400, 20), (400, 30))
    assert find_plateau(given) == find_plateau(given[::-1])


def test_where_all_tie_the_cheapest_is_the_whole_frontier() -> None:
    found = find_plateau(points((700, 0), (700, 10), (700, 20)))
    assert found is not None
    assert found.begins_at == "p0"
    assert "p0, is the whole frontier" in found.text


def test_one_placement_has_no_plateau() -> None:
    assert find_plateau(points((700, 0))) is None
