"""How much of each chain a placement covers."""

from __future__ import annotations

from bench.placement.coverage import UNITS, is_uneven, placement_coverage, summarize
from bench.spec import ChainInfo


def chain(name: str, num_units: int, **kinds: tuple[str, ...]) -> ChainInfo:
    return ChainInfo(name=name, units=tuple(f"{name}.block.{index}" for index in range(num_units)), kinds=kinds)


T5 = (
    chain("encoder", 6, attention=("layer.0.SelfAttention",), mlp=("layer.1.DenseReluDense",)),
    chain(
        "decoder", 6, attention=("layer.0.SelfAttention", "layer.1.EncDecAttention"), mlp=("layer.2.DenseReluDense",)
    ),
)


def counts(placement: str) -> dict[tuple[str, str], tuple[int, int]]:
    return {(c.chain, c.kind): (c.num_covered, c.num_modules) for c in placement_coverage(T5, placement)}


def test_a_region_covers_its_units_and_all_that_they_hold() -> None:
    assert counts("encoder.block.0..3:each") == {
        ("encoder", UNITS): (4, 6),
        ("encoder", "attention"): (4, 6),
        ("encoder", "mlp"): (4, 6),
        ("decoder", UNITS): (0, 6),
        ("decoder", "attention"): (0, 12),
        ("decoder", "mlp"): (0, 6),
    }


def test_a_submodule_covers_its_kind_and_not_its_unit() -> None:
    found = counts("decoder.block.0..5.layer.0.SelfAttention:each")
    assert found["decoder", "attention"] == (6, 12), "cross-attention is not replayed"
    assert found["decoder", UNITS] == (0, 6)


def test_a_part_of_a_submodule_covers_nothing() -> None:
    assert counts("encoder.block.0..5.layer.1.DenseReluDense.wi:each")["encoder", "mlp"] == (0, 6)


def test_a_region_around_a_whole_chain_covers_it() -> None:
    assert counts("encoder")["encoder", UNITS] == (6, 6)


def test_spans_nested_regions_and_names_with_a_common_beginning_are_counted_once() -> None:
    assert counts("encoder.block.0..5+encoder.block.0..5:each")["encoder", UNITS] == (6, 6)
    (ten,) = [c for c in placement_coverage([chain("h", 12)], "h.block.1") if c.kind == UNITS]
    assert (ten.num_covered, ten.num_modules) == (1, 12), "h.block.1 is not h.block.11"


def test_one_of_two_chains_is_uneven_and_summed_up() -> None:
    one = placement_coverage(T5, "encoder.block.0..5:each")
    assert is_uneven(one)
    assert summarize(one) == "encoder 6/6, decoder 0/6"
    mlps = placement_coverage(T5, "encoder.block.0..5.layer.1.DenseReluDense:each")
    assert is_uneven(mlps)
    assert summarize(mlps) == "encoder mlp 6/6, decoder 0/6"


def test_equal_shares_are_even_whatever_the_lengths() -> None:
    chains = (chain("encoder", 4), chain("decoder", 8))
    assert not is_uneven(placement_coverage(chains, "encoder.block.0..1:each+decoder.block.0..3:each"))
    assert not is_uneven(placement_coverage(chains, "none"))
    assert not is_uneven(placement_coverage([chains[0]], "encoder.block.0"))
    assert not is_uneven(())
