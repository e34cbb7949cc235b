"""The strip plot's data step: a cell for each unit, boundaries for spans."""

from __future__ import annotations

from bench.placement import parse_placement
from bench.report.strip_data import ALONE, PART, PLAIN, SPAN, Cell, Span, lay_out, strip_data, unit_runs
from bench.spec import ChainInfo
from tests.report.examples import GPT2_CHAINS, T5_CHAINS, failed, frontier_of, gpt2_eight, study_of, t5

FOUR = (ChainInfo(name="blocks", units=("h.0", "h.1", "h.2", "h.3")),)
STAGES = (ChainInfo(name="layers", units=("layer1.0", "layer1.1", "layer2.0", "layer2.1")),)


def laid_out(
    text: str, chains: tuple[ChainInfo, ...] = FOUR
) -> tuple[tuple[Cell, ...], tuple[Span, ...], tuple[str, ...]]:
    return lay_out(parse_placement(text).regions, chains)


def kinds(text: str, chains: tuple[ChainInfo, ...] = FOUR) -> list[str]:
    return [cell.kind for cell in laid_out(text, chains)[0]]


def test_none_replays_nothing() -> None:
    cells, spans, elsewhere = laid_out("none")
    assert cells == (Cell(kind=PLAIN),) * 4
    assert (spans, elsewhere) == ((), ())


def test_units_alone_and_units_in_a_span_differ() -> None:
    assert kinds("h.0+h.2..3") == [ALONE, PLAIN, SPAN, SPAN]
    assert laid_out("h.0+h.2..3")[1] == (Span(first=2, last=3, level=0),)
    assert kinds("h.0..3:every.2") == [ALONE, PLAIN, ALONE, PLAIN]


def test_neighbouring_spans_keep_their_own_boundaries() -> None:
    assert laid_out("h.0..1+h.2..3")[1] == (Span(first=0, last=1, level=0), Span(first=2, last=3, level=0))


def test_a_submodule_is_a_part_of_its_unit() -> None:
    cells, spans, _ = laid_out("h.1.mlp+h.1.attn+h.2")
    assert cells[1] == Cell(kind=PART, parts=("attn", "mlp"))
    assert cells[2] == Cell(kind=ALONE, depth=1)
    assert spans == ()


def test_a_unit_is_no_prefix_of_a_longer_number() -> None:
    chains = (ChainInfo(name="blocks", units=tuple(f"h.{i}" for i in range(12))),)
    assert [i for i, kind in enumerate(kinds("h.1.mlp+h.11", chains)) if kind != PLAIN] == [1, 11]


def test_kept_outputs_are_marked() -> None:
    assert [cell.keeps for cell in laid_out("h.0:keep.attention+h.1+h.2.mlp:keep.matmul%2")[0]] == [
        True, False, True, False,
    ]  # fmt: skip


def test_nested_regions_have_levels_and_depths() -> None:
    cells, spans, _ = laid_out("h.0..3+h.0..1+h.0")
    assert [cell.depth for cell in cells] == [3, 2, 1, 1]
    assert {cell.kind for cell in cells} == {SPAN}
    assert spans == (
        Span(first=0, last=3, level=0),
        Span(first=0, last=1, level=1),
        Span(first=0, last=0, level=2),
    )


def test_one_region_may_go_across_name_prefixes() -> None:
    assert laid_out("layer1.1/layer2.0", STAGES)[1] == (Span(first=1, last=2, level=0),)
    assert kinds("layer1.1/layer2.0", STAGES) == [PLAIN, SPAN, SPAN, PLAIN]


def test_a_region_around_a_parent_replays_all_its_units() -> None:
    assert kinds("encoder", T5_CHAINS) == [SPAN] * 6 + [PLAIN] * 6


def test_a_span_does_not_join_two_chains() -> None:
    spans = laid_out("encoder.block.5/decoder.block.0", T5_CHAINS)[1]
    assert spans == (Span(first=5, last=5, level=0), Span(first=6, last=6, level=0))


def test_modules_outside_every_chain_are_listed() -> None:
    assert laid_out("h.0+lm_head")[2] == ("lm_head",)


def test_runs_of_units_are_told_apart_by_number() -> None:
    runs = unit_runs(STAGES + T5_CHAINS[:1])
    assert [(run.chain, run.prefix, run.first, run.indices) for run in runs] == [
        ("layers", "layer1", 0, ("0", "1")),
        ("layers", "layer2", 2, ("0", "1")),
        ("encoder", "encoder.block", 4, ("0", "1", "2", "3", "4", "5")),
    ]


def test_rows_are_the_frontier_with_its_numbers() -> None:
    frontier = gpt2_eight()
    data = strip_data(study_of(frontier), frontier)
    assert [row.tag for row in data.rows] == ["1", "2", "3", "4", "5", "6"]
    assert (data.rows[2].label, data.rows[2].peak, data.rows[2].ratio) == (
        "h.0..11.mlp:each", "2516 MiB", "×1.12 ± 0.02",
    )  # fmt: skip
    assert {len(row.cells) for row in data.rows} == {12}


def test_columns_follow_the_order_of_the_chains_not_of_the_text() -> None:
    frontier = t5()
    row = strip_data(study_of(frontier, T5_CHAINS), frontier).rows[-1]
    assert [(span.first, span.last) for span in row.spans] == [(0, 2), (3, 5), (6, 8), (9, 11)]


def test_nothing_on_a_frontier_has_a_headline() -> None:
    frontier = frontier_of(failed("none", "oom", "too big"))
    data = strip_data(study_of(frontier, GPT2_CHAINS), frontier)
    assert data.rows == ()
    assert data.headline
    frontier = gpt2_eight()
    assert strip_data(study_of(frontier, ()), frontier).headline
