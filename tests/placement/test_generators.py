"""What each generator yields, from chains alone."""

import pytest

from bench.placement import PlacementError, check_modules, check_ops, generate_placements, parse_placement
from bench.spec import ChainInfo

KINDS = {"mlp": ("mlp",), "norm": ("ln_1", "ln_2")}
NINE = (ChainInfo(name="h", units=tuple(f"h.{i}" for i in range(9)), kinds=KINDS),)
TWO_CHAINS = (
    ChainInfo(name="enc", units=("enc.0", "enc.1", "enc.2")),
    ChainInfo(name="dec", units=("dec.0", "dec.1")),
)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"none": True}, "none"),
        ({"each": True}, "h.0..8:each"),
        ({"every": [2]}, "h.0..8:every.2"),
        ({"every": [4]}, "h.0..8:every.4"),
        ({"first": [3]}, "h.0..2:each"),
        ({"but_last": [1]}, "h.0..7:each"),
        ({"spans": [1]}, "h.0..8"),
        ({"spans": [2]}, "h.0..4+h.5..8"),
        ({"spans": ["sqrt"]}, "h.0..2+h.3..5+h.6..8"),
        ({"spans": [99]}, "h.0..8:each"),
        ({"nested": [3]}, "h.0..2+h.0..8:each+h.3..5+h.6..8"),
        ({"kinds": ["mlp"]}, "h.0..8.mlp:each"),
        ({"kinds": ["mlp%2"]}, "h.0..8.mlp:every.2"),
        ({"kinds": ["norm"]}, "h.0..8.ln_1:each+h.0..8.ln_2:each"),
        ({"policies": ["matmul%2"]}, "h.0..8:each:keep.matmul%2"),
        ({"options": ["no-rng"]}, "h.0..8:each@no-rng"),
        ({"options": ["restore"]}, "h.0..8:each@restore"),
        ({"explicit": ["h.1+h.0"], "none": True, "each": True}, "h.0..1:each"),
    ],
)
def test_generator_yields(options: dict[str, object], text: str) -> None:
    assert [entry.text for entry in generate_placements(options, NINE)] == [text]


def test_every_chain_gets_the_pattern() -> None:
    texts = [entry.text for entry in generate_placements({"every": [2], "spans": [1]}, TWO_CHAINS)]
    assert texts == ["dec.0+enc.0+enc.2", "dec.0..1+enc.0..2"]


def test_a_placement_yielded_twice_is_measured_once() -> None:
    entries = generate_placements({"each": True, "every": [1], "first": [9]}, NINE)
    assert [(e.text, e.generators) for e in entries] == [
        ("h.0..8:each", ("every block", "every k-th block (1)", "leading blocks (9)"))
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to measure"),
        ({"evry": [2]}, "placements.evry: no such generator"),
        ({"each": "flase"}, "placements.each: expected true or false, got 'flase'"),
        ({"kinds": ["mlp%x"]}, "write mlp%K for every K-th unit"),
        ({"every": [0]}, "placements.every: expected a whole number of at least 1, got 0"),
        ({"every": 2}, "placements.every: expected a list"),
        ({"spans": ["cube"]}, "placements.spans: expected a whole number"),
        ({"kinds": ["mpl"]}, "'mpl' is no kind of submodule of this model; there are mlp, norm"),
        ({"options": ["norng"]}, "placements.options: @norng is no checkpoint option"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(PlacementError) as error:
        generate_placements(options, NINE)
    assert message in str(error.value)


def test_an_op_that_torch_does_not_have_names_close_ones() -> None:
    ops = ["matmul", "attention", "native_layer_norm"]
    check_ops([parse_placement("h.0:keep.matmul.native_layer_norm"), parse_placement("none")], ops)
    with pytest.raises(PlacementError, match="torch has no op 'matmull' to keep; did you mean matmul"):
        check_ops([parse_placement("h.0:keep.matmull")], ops)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h.0..9:each", "the model has no h.9; there are h.0..8"),
        ("h.0.mpl", "did you mean h.0.mlp"),
        ("transformer", "no module 'transformer'; it has h.0"),
    ],
)
def test_a_unit_that_is_not_there_names_close_ones(text: str, message: str) -> None:
    modules = [f"h.{i}{part}" for i in range(9) for part in ("", ".mlp", ".attn")]
    with pytest.raises(PlacementError) as error:
        check_modules([parse_placement(text)], modules)
    assert message in str(error.value)
