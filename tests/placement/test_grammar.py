"""The text form of placements: lossless, canonical, and clear about what is wrong."""

import re

import pytest
from hypothesis import given, strategies as st

from bench.placement import NONE, Kept, Options, Placement, PlacementError, Region, parse_placement

UNITS = st.from_regex(r"(h|enc\.block)\.([0-9]|1[0-3])(\.(attn|layer\.[0-2]))?", fullmatch=True)
KEPT = st.builds(
    lambda op, every, calls: Kept(op=op, every=1 if calls else every, calls=tuple(sorted(calls))),
    st.sampled_from(["matmul", "attention", "native_layer_norm"]),
    st.integers(1, 3),
    st.sets(st.integers(0, 20), max_size=3),
)
OPTIONS = st.builds(
    lambda reentrant, rng, early, check, restore: Options(
        reentrant=reentrant,
        preserve_rng=rng,
        early_stop=early or reentrant,
        determinism_check=check or reentrant,
        restore=restore,
    ),
    *[st.booleans()] * 5,
)


def _region(units: list[str], keeps: list[Kept], options: Options) -> Region:
    units = [unit for unit in units if not any(unit.startswith(other + ".") for other in units)]
    return Region(units=tuple(units), keeps=() if options.reentrant else tuple(keeps), options=options)


REGIONS = st.builds(
    _region,
    st.lists(UNITS, min_size=1, max_size=4, unique=True),
    st.lists(KEPT, max_size=2, unique_by=lambda kept: kept.op),
    OPTIONS,
)


def _without_crossings(regions: list[Region]) -> Placement:
    kept: list[Region] = []
    for region in regions:
        try:
            Placement((*kept, region))
        except PlacementError:
            continue
        kept.append(region)
    return Placement(tuple(kept))


PLACEMENTS = st.lists(REGIONS, max_size=6).map(_without_crossings)


@given(PLACEMENTS)
def test_text_gives_back_the_placement(placement: Placement) -> None:
    assert parse_placement(placement.text) == placement
    assert parse_placement(placement.text).text == placement.text


@given(PLACEMENTS)
def test_the_restored_twin_says_so_on_every_region(placement: Placement) -> None:
    twin = placement.restored()
    assert all(region.options.restore for region in twin.regions)
    assert [(r.units, r.keeps) for r in twin.regions] == [(r.units, r.keeps) for r in placement.regions]
    assert parse_placement(twin.text) == twin == twin.restored()


@given(PLACEMENTS)
def test_text_needs_no_quotes(placement: Placement) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_\-./+%@:]+", placement.text)


@given(PLACEMENTS, st.randoms())
def test_order_does_not_matter(placement: Placement, random: object) -> None:
    shuffled = list(placement.regions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = Placement(tuple(shuffled))
    assert (other.text, other.id) == (placement.text, placement.id)


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("none", "none"),
        ("h.0:each", "h.0"),
        ("h.3..3", "h.3"),
        ("h.2+h.0+h.1", "h.0..2:each"),
        ("h.0/h.1/h.2", "h.0..2"),
        ("h.0..4:every.2", "h.0..4:every.2"),
        ("h.0..5:every.2", "h.0..4:every.2"),
        ("h.0+h.2", "h.0+h.2"),
        ("h.10+h.9", "h.9..10:each"),
        ("a.1..2/b.0..3", "a.1..2/b.0..3"),
        ("e.0.l.1+e.1.l.1", "e.0..1.l.1:each"),
        ("h.0@no-rng@no-early-stop", "h.0@no-early-stop@no-rng"),
        ("h.0:keep.matmul/3/1.attention", "h.0:keep.attention.matmul/1/3"),
        ("h.0@restore@reentrant", "h.0@reentrant@restore"),
        ("h.0..1:each:keep.matmul%2", "h.0..1:each:keep.matmul%2"),
        ("h.0:keep.matmul%1", "h.0:keep.matmul"),
        ("h.0..1:each+h.0..1", "h.0..1+h.0..1:each"),
        ("0..2", "0..2"),
    ],
)
def test_two_spellings_are_one_placement(spelled: str, canonical: str) -> None:
    assert parse_placement(spelled).text == canonical
    assert parse_placement(spelled).id == parse_placement(canonical).id


def test_options_are_part_of_identity() -> None:
    options = ("", "@no-rng", "@reentrant", "@no-early-stop", "@no-determinism-check", "@restore", "@no-rng@restore")
    texts = [*(f"h.0{option}" for option in options), "h.0:keep.matmul"]
    assert len({parse_placement(text).id for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("h.0, h.1", "',' is not allowed"),
        ("h..0", "no module path"),
        ("h.5..2", "runs backwards; write 2..5"),
        ("h.0..3.mlp", "write h.0..3.mlp:each"),
        ("h.0..1.mlp.0..2:each", "one range FIRST..LAST at most"),
        ("h.0..99999:each", "more than 10000 units"),
        ("h.0:eech", "'eech' is no form"),
        ("h.0..3:every.0", "'every.0' is no form"),
        ("h.0/h.1:each", "join items with '+'"),
        ("h.0:keep.", "write keep.OP"),
        ("h.0:keep.matmul%0", "K of at least 1"),
        ("h.0:keep.matmul:each", "unexpected ':each'"),
        ("h.0@norng", "did you mean @no-rng?"),
        ("h.0@restored", "did you mean @restore?"),
        ("h.0@reentrant:keep.matmul", "no checkpoint option"),
        ("h.0:keep.matmul@reentrant", "cannot keep op outputs"),
        ("h.0@reentrant@no-early-stop", "no early stop"),
        ("h.0+h.0", "named twice"),
        ("h.0..3+h.2..5", "cross"),
        ("h.0+h.0@no-rng", "named twice"),
        ("h.0/h.0", "names a unit twice"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(PlacementError, match=re.escape(message)):
        parse_placement(text)


def test_depth_counts_the_regions_around() -> None:
    placement = parse_placement("h.0..5+h.0..2+h.1+h.1.mlp")
    depths = {region.units[-1]: placement.depth(region) for region in placement.regions}
    assert depths == {"h.5": 1, "h.2": 2, "h.1": 3, "h.1.mlp": 4}


@pytest.mark.parametrize("unit", ["none", "a+b", "h.0..2", "h 0", "h.0:each", "h/0", ""])
def test_a_unit_is_a_module_path_also_when_built_in_python(unit: str) -> None:
    with pytest.raises(PlacementError, match="no module path"):
        Region(units=(unit,))


def test_equal_choices_of_calls_are_one_policy() -> None:
    assert Kept(op="matmul", calls=(3, 1, 3)) == Kept(op="matmul", calls=(1, 3))
    with pytest.raises(PlacementError, match="not both"):
        Kept(op="matmul", every=2, calls=(1,))


@pytest.mark.parametrize("text", ["a.0/a.1+a.1/a.0", "a/a.b"])
def test_a_region_is_not_said_twice_in_other_words(text: str) -> None:
    with pytest.raises(PlacementError, match="twice"):
        parse_placement(text)


def test_none_is_the_empty_placement() -> None:
    assert parse_placement("none") == NONE == Placement()
