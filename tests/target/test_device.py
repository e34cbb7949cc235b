"""Ops on a GPU that is not there do what they do on CUDA; seen in one process, which device_facts.py is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.target import autocast_ops
from bench.target.autocast import op_named
from tests.target.facts import facts_of


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return facts_of("device_facts.py")


@pytest.mark.parametrize("op", ["linear", "matmul", "einsum", "conv2d"])
def test_matmuls_and_convolutions_run_in_lower_precision(facts: dict[str, Any], op: str) -> None:
    assert facts["dtypes"][op] == "bfloat16"


@pytest.mark.parametrize("op", ["layer_norm", "softmax", "cross_entropy", "pow", "sum", "norm"])
def test_norms_losses_powers_and_sums_of_bf16_run_in_fp32(facts: dict[str, Any], op: str) -> None:
    assert facts["dtypes"][op] == "float32"


def test_a_dtype_that_the_caller_gives_is_left_alone(facts: dict[str, Any]) -> None:
    assert facts["dtypes"]["sum to bf16"] == "bfloat16"


def test_ops_on_no_list_keep_their_dtypes(facts: dict[str, Any]) -> None:
    dtypes = facts["dtypes"]
    assert (dtypes["relu"], dtypes["add"], dtypes["index"]) == ("bfloat16", "float32", "int64")


def test_some_ops_run_in_the_widest_dtype_of_their_arguments(facts: dict[str, Any]) -> None:
    dtypes = facts["dtypes"]
    assert (dtypes["addcmul of both"], dtypes["addcmul of bf16"]) == ("float32", "bfloat16")


def test_binary_cross_entropy_is_refused_with_what_to_use(facts: dict[str, Any]) -> None:
    assert "binary_cross_entropy_with_logits" in facts["refused"]


def test_a_weight_is_cast_once_until_the_outermost_autocast_ends(facts: dict[str, Any]) -> None:
    assert facts["casts"]["forward"] == 1
    assert facts["casts"]["two forwards"] == 2


def test_a_weight_is_cast_at_each_use_without_the_cache_or_without_gradient(facts: dict[str, Any]) -> None:
    assert (facts["casts"]["without cache"], facts["casts"]["frozen weight"]) == (2, 2)


def test_every_replay_casts_the_weight_anew(facts: dict[str, Any]) -> None:
    """Two regions: one cast in forward, one in each replay, and the cast of the gradient."""
    assert (facts["casts"]["forward and backward"], facts["casts"]["forward and replay"]) == (2, 4)


def test_a_replay_runs_in_the_autocast_and_with_the_attention_of_the_first_pass(facts: dict[str, Any]) -> None:
    first, replayed = facts["replay"]["first"], facts["replay"]["replayed"]
    assert "_scaled_dot_product_cudnn_attention" in first
    start = replayed.index("native_layer_norm")
    stop = replayed.index("native_dropout")
    seen = [op for op in replayed[start : stop + 1] if op != "detach"]
    assert seen == first[first.index("native_layer_norm") :]
    assert facts["replay"]["dtypes"]["_scaled_dot_product_cudnn_attention"] == "bfloat16"


def test_dropout_saves_a_mask_of_one_byte_an_element(facts: dict[str, Any]) -> None:
    assert facts["dropout"] == "NativeDropoutBackward0 bool"


def test_a_norm_of_bf16_saves_its_statistics_in_fp32(facts: dict[str, Any]) -> None:
    assert facts["norm"] == ["bfloat16", "float32", "float32"]


def test_a_softmax_to_fp32_copies_bf16_values_and_no_fp16_values(facts: dict[str, Any]) -> None:
    assert facts["log_softmax"] == {"float16": ["_log_softmax"], "bfloat16": ["_to_copy", "_log_softmax"]}


def test_what_a_region_keeps_of_the_generator_is_16_bytes_in_host_memory(facts: dict[str, Any]) -> None:
    assert facts["random_state"] == {"device": "cpu", "bytes": 16}


def test_a_process_stands_in_for_one_target_alone(facts: dict[str, Any]) -> None:
    assert facts["second target"] == "this process already stands in for h200: forecast t4 in a process of its own"


@pytest.mark.parametrize(
    ("macro", "ours"),
    [
        ("LOWER_PRECISION_FP", autocast_ops.LOWER_PRECISION),
        ("FP32", autocast_ops.FLOAT32),
        ("FP32_SET_OPT_DTYPE", autocast_ops.FLOAT32_RESULT),
        ("PROMOTE", autocast_ops.WIDEST),
    ],
)
def test_the_autocast_lists_are_those_of_this_pytorch(macro: str, ours: tuple[str, ...]) -> None:
    header = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text()
    body = re.search(rf"#define AT_FORALL_{macro}\(_\)(.*?)\n\n", header, re.DOTALL)
    assert body is not None
    listed = [
        name + (f".{overload}" if overload else "") for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body[1])
    ]
    assert sorted(listed) == sorted(ours)


def test_every_op_on_the_lists_exists() -> None:
    lists = (autocast_ops.LOWER_PRECISION, autocast_ops.FLOAT32, autocast_ops.FLOAT32_RESULT, autocast_ops.WIDEST)
    names = [name for listed in lists for name in listed] + list(autocast_ops.BANNED)
    for name in (*names, *autocast_ops.FLOAT32_APPENDED, *autocast_ops.FLOAT32_APPENDED.values()):
        assert op_named(name)._schema.name == f"aten::{name.partition('.')[0]}"
