"""The model compiled under one memory budget and solver: what torch chose, and the code put on the model and taken off.

The budget is a setting of the partitioner, which is handed the joint graph of forward and backward and cuts it in two.
So each variant is a backend of its own around that partitioner: code of one variant is never taken for another's, since
dynamo keys what it has compiled by the backend.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from bench.records.compiled import INDUCTOR

DIGEST_LENGTH = 12
MOST_VARIANTS = 512
"""Compiled copies of one frame; torch's own bound of 8 would leave the ninth variant uncompiled, and say nothing."""


class Partition:
    """One variant: cuts the joint graphs that it is handed, and notes what came of it."""

    def __init__(self, budget: float | None, solver: str) -> None:
        """A budget of None saves all that the backward reads, as eager code does, and recomputes nothing."""
        self.budget = budget
        self.solver = solver
        self.graphs = 0
        self.saved_bytes = 0
        self.recomputed_ops = 0
        self.digest = ""
        """Of the graphs so far: equal where the ops and all that is saved between them are."""

    def __call__(
        self, joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int, **options: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        options.pop("compiler", None)
        if self.budget is None:
            forward, backward = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
        else:
            budget: dict[str, Any] = {
                "activation_memory_budget": self.budget,
                "activation_memory_budget_solver": self.solver,
            }
            with functorch_config.patch(budget):
                forward, backward = min_cut_rematerialization_partition(
                    joint, inputs, compiler="inductor", num_fwd_outputs=num_fwd_outputs, **options
                )
        self.graphs += 1
        self.saved_bytes += sum(map(_size, _saved(forward, num_fwd_outputs)))
        self.recomputed_ops += len(_op_names(forward) & _op_names(backward))
        code = f"{self.digest}{forward.graph}{backward.graph}"
        self.digest = hashlib.sha256(code.encode()).hexdigest()[:DIGEST_LENGTH]
        return forward, backward


class _InductorPartition(CustomPartitionerFn):
    """For inductor, whose caches must not take one variant's code for another's: no uuid, no caching."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def __call__(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        return self._partition(gm, joint_inputs, **kwargs)

    def uuid(self) -> None:
        return None


def compile_model(model: nn.Module, partition: Partition, backend: str) -> Callable[..., Any]:
    """What `compiled_on` puts on the model; it is compiled when it first runs. Nothing is changed here."""
    compiler = _inductor(partition) if backend == INDUCTOR else _aot_eager(partition)

    def call(*args: Any, **kwargs: Any) -> Any:
        # A frame of ours: torch skips frames of its own files, such as the forward of a plain nn.Sequential.
        return model._call_impl(*args, **kwargs)

    compiled: Callable[..., Any] = torch.compile(call, backend=compiler, dynamic=False)
    return compiled


@contextmanager
def compiled_on(model: nn.Module, compiled: Callable[..., Any]) -> Iterator[None]:
    """Calls of the model run the compiled code, for the time of a `with` block; its modules and their names stay."""
    before = model._compiled_call_impl
    model._compiled_call_impl = compiled
    try:
        yield
    finally:
        model._compiled_call_impl = before


@contextmanager
def many_variants() -> Iterator[None]:
    """Lets dynamo hold all variants at once, and raise where it would run one uncompiled.

    Log lines of the model's library are left out of what is compiled, which they would cut in two.
    """
    once = {getattr(logging.Logger, name, None) for name in ("debug", "info", "warning", "info_once", "warning_once")}
    with torch._dynamo.config.patch(
        recompile_limit=MOST_VARIANTS,
        accumulated_recompile_limit=MOST_VARIANTS,
        fail_on_recompile_limit_hit=True,
        ignore_logging_functions={*torch._dynamo.config.ignore_logging_functions, *once} - {None},
    ):
        yield


def _aot_eager(partition: Partition) -> Callable[..., Any]:
    """torch's backend `aot_eager_decomp_partition` with this partitioner: inductor's decompositions, eager kernels."""

    def compiler(graph: fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        compile_graph = aot_autograd(
            fw_compiler=boxed_nop,
            bw_compiler=boxed_nop,
            decompositions=lambda: import_module("torch._inductor.compile_fx").select_decomp_table(),
            partition_fn=partition,
        )
        compiled: Callable[..., Any] = compile_graph(graph, inputs)
        return compiled

    return compiler


def _inductor(partition: Partition) -> Callable[..., Any]:
    def compiler(graph: fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        from torch._inductor.compile_fx import compile_fx

        patches = {"custom_partitioner_fn": _InductorPartition(partition), "fx_graph_cache": False}
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_fx(graph, inputs, config_patches=patches)

    return compiler


def _saved(forward: fx.GraphModule, num_outputs: int) -> list[fx.Node]:
    """What the forward hands to the backward, but what it was given itself: weights and batches stay anyway."""
    (output,) = (node for node in forward.graph.nodes if node.op == "output")
    return [node for node in output.args[0][num_outputs:] if node.op != "placeholder"]


def _size(node: fx.Node) -> int:
    value = node.meta.get("val")
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def _op_names(module: fx.GraphModule) -> set[str]:
    return {node.name for node in module.graph.nodes if node.op == "call_function"}
