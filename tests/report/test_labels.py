"""Placement texts lose a shared prefix and fold at their joints; no character is ever lost."""

from __future__ import annotations

from hypothesis import given, strategies as st

from bench.report.families import FAMILIES, family_of
from bench.report.labels import Shortening, common_prefix, fold, short_label, shorten


def test_common_prefix_keeps_the_container_of_numbered_units() -> None:
    assert common_prefix(["none", "transformer.h.0..5:each", "transformer.h.0..11.mlp:each"]) == "transformer."


def test_common_prefix_is_of_every_path_of_every_item() -> None:
    assert common_prefix(["a.b.layer1.0..2/a.b.layer2.0..3", "a.b.head.0"]) == "a.b."
    assert common_prefix(["encoder.block.0..5:each+decoder.block.0..5:each"]) == ""
    assert common_prefix(["none"]) == common_prefix([]) == ""


def test_a_policy_with_calls_is_no_path() -> None:
    assert common_prefix(["transformer.h.0..5:each:keep.matmul/0/3"]) == "transformer."


def test_short_label_takes_the_prefix_off_each_path() -> None:
    assert short_label("a.h.0..1/a.h.3+a.h.5:keep.a.b@no-rng", "a.") == "h.0..1/h.3+h.5:keep.a.b@no-rng"
    assert short_label("none", "a.") == "none"


T5 = ("none", "decoder.block.0..5:each+encoder.block.0..5:each")


def test_the_same_in_several_lists_of_blocks_is_said_once() -> None:
    shortening = shorten(T5)
    assert shortening.label(T5[1]) == "dec|enc.0..5:each"
    assert shortening.label("none") == "none"
    assert shortening.label("decoder.block.0+decoder.block.4+encoder.block.4") == "dec.0+dec|enc.4"


def test_spans_over_several_lists_and_other_modules_keep_their_form() -> None:
    shortening = shorten(T5)
    assert shortening.label("encoder.block.4..5/decoder.block.0") == "enc.4..5/dec.0"
    assert shortening.label("encoder+lm_head") == "encoder+lm_head"
    assert shortening.label("encoder.block.3:keep.decoder.block") == "enc.3:keep.decoder.block"


def test_a_common_prefix_comes_off_before_lists_are_abbreviated() -> None:
    shortening = shorten(["model.decoder.layers.0..1:each", "model.encoder.layers.0..1:each"])
    assert shortening == Shortening(prefix="model.", lists={"decoder.layers": "dec", "encoder.layers": "enc"})
    assert [text.split(" ")[0] for text in shortening.explanations()] == ["placements", "in"]


def test_nothing_is_abbreviated_where_two_would_read_alike_or_nothing_is_gained() -> None:
    assert shorten(["layer1.0..2:each+layer2.0..3:each"]).lists == {}
    assert shorten(["enc.0", "dec.0"]).lists == {}
    assert shorten(["encoder.block.0", "decoder.block.0", "enc"]).lists == {}
    assert shorten(["transformer.h.0..5:each"]).lists == {}
    assert shorten([]) == Shortening()


def test_fold_breaks_between_items_then_at_joints_then_at_dots() -> None:
    assert fold("h.0:keep.a+h.1:keep.a+h.2:keep.a", 28) == ["h.0:keep.a+h.1:keep.a+", "h.2:keep.a"]
    assert fold("h.0..5:each+h.6..11", 14) == ["h.0..5:each+", "h.6..11"]
    assert fold("h.0..11:each:keep.attention", 16) == ["h.0..11:each", ":keep.attention"]
    assert fold("block.0..5.layer.1.DenseReluDense", 20) == ["block.0..5.layer.1.", "DenseReluDense"]


@given(st.text(alphabet="ab0.:+/@%-_", max_size=120), st.integers(min_value=3, max_value=40))
def test_fold_loses_nothing_and_keeps_its_width(label: str, width: int) -> None:
    lines = fold(label, width)
    assert "".join(lines) == label
    assert all(len(line) <= width for line in lines)


def test_generators_belong_to_families() -> None:
    words = {
        "none": "none",
        "every block": "every block",
        "every k-th block (2)": "every k-th block",
        "leading blocks (6)": "leading blocks",
        "all but the last blocks (1)": "all but the last blocks",
        "spans (√n)": "spans",
        "nested spans (2)": "nested spans",
        "submodules (mlp)": "submodules",
        "policies (matmul%2)": "policies",
        "checkpoint options (no-rng)": "checkpoint options",
        "explicit": "explicit",
        "something new": "other",
    }
    assert {word: family_of([word]) for word in words} == words
    assert set(words.values()) <= set(FAMILIES)


def test_the_first_known_generator_names_the_family() -> None:
    assert family_of(["something new", "spans (2)", "every block"]) == "spans"
    assert family_of([]) == "other"
