"""What a terminal shows fits it, and says what the data says."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console, RenderableType

from bench.explain import advise, compare, explain, read, region_residuals, replay_cost, unit_residuals
from bench.explain.text import render_comparison, render_explanation, render_replay_cost, render_residuals
from bench.explain.words import bytes_text, fold_modules, join_text, owner_of, share_text, tensor_text
from tests.explain.toys import Block, Blocks, chain_of, make_step, record


def printed(renderable: RenderableType, width: int = 100) -> str:
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(renderable)
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_an_explanation_shows_moment_advice_categories_units_modules_and_tensors(width: int) -> None:
    model = Blocks(*(Block(32, 128) for _ in range(4)))
    reading = read(record(make_step(model, torch.randn(256, 32))), chain_of(model))
    explanation = explain(reading)
    advice = advise(reading, explanation)
    text = printed(render_explanation(explanation, advice), width)
    assert all(len(line) <= width for line in text.splitlines())
    words = " ".join(text.split())
    assert f"peak {bytes_text(explanation.peak_bytes)}" in words
    assert "reached in backward, at threshold_backward in blocks.3 (of relu), toys.py:" in words
    assert " ".join(advice[0].text.split()) in words
    for shown in ("saved activations", "blocks.0..2 (×3)", "4 × (256, 128) float32", "0..2 (×3)"):
        assert shown in words
    if width > 100:  # a narrow column breaks it
        assert "relu's backward in blocks.0..3" in words


def test_comparison_residuals_and_cost_are_shown() -> None:
    model = Blocks(*(Block(32, 128) for _ in range(4)))
    step = make_step(model, torch.randn(256, 32))
    plain, placed = record(step), record(step, "blocks.0..3:each")
    shown = printed(render_comparison(compare(plain, placed, chain_of(model))))
    for title in ("gone from the peak:", "at the peak instead:"):
        assert title in shown
    kept = printed(render_residuals(region_residuals(read(placed))))
    assert "blocks.1: 36.9 KiB" in kept
    # The first region's input is the batch.
    assert f"in all {bytes_text(3 * 256 * 32 * 4 + 4 * 5056)}, what is shared counted once" in kept
    assert "parameters or inputs" in printed(render_residuals(unit_residuals(read(plain, chain_of(model)))))
    cost = printed(render_replay_cost(replay_cost(read(placed), plain_ms=10.0, placed_ms=12.0)))
    assert "+2.0 ms" in cost
    assert "(an estimate)" in cost


def test_bytes_have_three_digits_and_a_unit() -> None:
    values = (0, 999, 1024, 10 * 2**20, 300 * 2**30)
    assert [bytes_text(n) for n in values] == ["0 B", "999 B", "1.00 KiB", "10.0 MiB", "300 GiB"]


def test_small_shares_keep_a_digit() -> None:
    assert [share_text(part, 10_000) for part in (0, 4, 40, 990, 1200, 10_000)] == [
        "0 %", "< 0.1 %", "0.4 %", "9.9 %", "12 %", "100 %",
    ]  # fmt: skip


def test_modules_that_differ_in_numbers_fold_into_one_name() -> None:
    assert fold_modules(["h.0.mlp", "h.1.mlp", "h.2.mlp"]) == "h.0..2.mlp"
    assert fold_modules(["h.0.mlp", "h.5.mlp"]) == "h.{0,5}.mlp"
    assert fold_modules(["lm_head"]) == "lm_head"
    assert fold_modules(["a.0.b.0", "a.0.b.1", "a.1.b.0", "a.1.b.1"]) == "a.0..1.b.0..1"
    assert fold_modules(["a.0.b.1", "a.1.b.0"]) == "a.0.b.1 and a.1.b.0"


def test_state_belongs_to_its_parameters_module() -> None:
    assert owner_of("optimizer exp_avg 0 of transformer.h.0.mlp.c_fc.weight") == "transformer.h.0.mlp.c_fc"
    assert owner_of("lm_head.weight") == "lm_head"


def test_lists_end_with_how_many_are_left_out() -> None:
    assert join_text(["a"]) == "a"
    assert join_text(["a", "b", "c"]) == "a, b and c"
    assert join_text(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_tensor_that_no_op_saw_says_so() -> None:
    assert tensor_text((8, 4), "float32") == "(8, 4) float32"
    assert tensor_text((8,), "int64") == "(8,) int64"
    assert tensor_text(None, None) == "seen by no op"
