"""Steps on a GPU that is not there, to the byte; seen in one process, which step_facts.py is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.target.facts import facts_of

MIB = 2**20
EACH = "blocks.0..1:each"
ROWS, WIDTH = 32, 64
FP32_WEIGHT, BF16_WEIGHT = WIDTH * WIDTH * 4, WIDTH * WIDTH * 2
FP32_ROWS, BF16_ROWS = ROWS * WIDTH * 4, ROWS * WIDTH * 2
SCALARS = [4, 4]
"""The loss, and the sum of the micro-batches' losses."""


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return facts_of("step_facts.py")


def test_two_layers_retain_what_relu_saves(facts: dict[str, Any]) -> None:
    """The result of each ReLU, which the second matmul saves as well; the input is the batch's."""
    assert facts["fp32"]["retained"]["none"] == sorted([*SCALARS, FP32_ROWS, FP32_ROWS])


def test_under_autocast_they_retain_casts_of_the_input_and_of_the_second_weight_too(facts: dict[str, Any]) -> None:
    """The first weight's cast is only in autocast's cache, which is emptied: the input takes no gradient."""
    expected = sorted([*SCALARS, BF16_ROWS, BF16_ROWS, BF16_ROWS, BF16_WEIGHT])
    assert facts["bf16-autocast"]["retained"]["none"] == expected


def test_replayed_they_retain_the_boundary_between_them_alone(facts: dict[str, Any]) -> None:
    assert facts["fp32"]["retained"][EACH] == sorted([*SCALARS, FP32_ROWS])
    assert facts["bf16-autocast"]["retained"][EACH] == sorted([*SCALARS, BF16_ROWS])


def test_what_stays_is_weights_moments_step_counts_batch_and_cublas_workspaces(facts: dict[str, Any]) -> None:
    expected = 2 * (3 * FP32_WEIGHT + 4) + FP32_ROWS + 2 * 32 * MIB
    for precision in ("fp32", "bf16-autocast"):
        assert facts[precision]["persistent"] == expected
        assert facts[precision]["library"] == [32 * MIB, 32 * MIB]


def test_the_optimizer_runs_its_fused_kernel(facts: dict[str, Any]) -> None:
    assert facts["fp32"]["optimizer"] == ["_foreach_add_", "_fused_adamw_"]


def test_a_log_with_the_allocators_blocks_has_the_allocators_peak(facts: dict[str, Any]) -> None:
    for precision in ("fp32", "bf16-autocast"):
        found = facts[precision]
        assert found["peak of allocated blocks"] == found["peak that the allocator reports"]
        assert found["persistent of allocated blocks"] == found["persistent that the allocator reports"]
        # step counts of 4 bytes take 512
        assert found["persistent of allocated blocks"] == found["persistent"] + 2 * (512 - 4)


def test_a_log_says_which_device_it_is_for(facts: dict[str, Any]) -> None:
    assert facts["fp32"]["device"] == "h200"


def test_loss_scaling_adds_its_scale_and_its_growth_to_what_stays(facts: dict[str, Any]) -> None:
    """And the casts of fp16 are as large as those of bf16."""
    found = facts["fp16-autocast"]
    assert found["persistent"] == facts["bf16-autocast"]["persistent"] + 4 + 4
    assert set(facts["bf16-autocast"]["retained"]["none"]) <= set(found["retained"]["none"])


@pytest.mark.parametrize("precision", ["fp32", "bf16-autocast"])
def test_the_fast_way_says_what_a_whole_step_says(facts: dict[str, Any], precision: str) -> None:
    """Allocated, persistent and reserved bytes, of regions, spans and policies."""
    placements = facts["gpt2"][precision]["placements"]
    assert len(placements) == 5
    for found in placements.values():
        assert found["fast"] == found["by a fake step"]
        assert found["of the log"] == found["by a fake step"][0]


def test_replay_lowers_the_peak_of_gpt2_in_both_precisions(facts: dict[str, Any]) -> None:
    for found in facts["gpt2"].values():
        peaks = {text: entry["by a fake step"][0] for text, entry in found["placements"].items()}
        assert peaks["transformer.h.0..2:each"] < peaks["transformer.h.0..2.mlp:each"] < peaks["none"]


def test_the_attention_is_that_of_the_target(facts: dict[str, Any]) -> None:
    for precision, kernel in (("fp32", "efficient"), ("bf16-autocast", "cudnn")):
        forward = f"_scaled_dot_product_{kernel}_attention"
        for found in facts["gpt2"][precision]["placements"].values():
            assert found["attention"] == [forward, f"{forward}_backward"]


def test_notes_say_that_nothing_was_compared_and_what_is_unknown(facts: dict[str, Any]) -> None:
    notes = facts["gpt2"]["bf16-autocast"]["notes"]
    assert notes[0] == "for NVIDIA H200, which is not here: nothing of this was compared with one"
    assert "cuDNN's workspace" in notes[1]
    assert len(facts["gpt2"]["fp32"]["notes"]) == 1
