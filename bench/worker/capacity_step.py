"""The step of a capacity search: built with its stages told, its batches swapped, its weights and units looked at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from bench.spec import Controls, SpecError, WorkloadSpec
from bench.step import TrainingStep, build_training_step, digest_of
from bench.step.build import batches_for, draw_batches
from bench.step.family import Batch, Family
from bench.worker.capacity_lines import Lines

TOKENS = "tokens"
SAMPLED_PER_TENSOR = 256
"""Elements of each parameter that are looked at to see whether a step has changed it."""
NO_SUCH_BATCH = (SpecError, IndexError, ValueError, StopIteration)
"""What a family's `batch` raises where its data has no batch of that size."""


class DataEndsError(RuntimeError):
    """There is no batch of the size that is asked for."""


def build_step(controls: Controls, device: torch.device, lines: Lines) -> TrainingStep:
    """As `build_training_step`, telling when batches are made.

    Raises:
        DataEndsError: the family makes no batch of this size.
    """

    def make(family: Family, model: nn.Module, workload: WorkloadSpec) -> list[Batch]:
        lines.enter("batch")
        try:
            batches = draw_batches(family, model, workload)
        except NO_SUCH_BATCH as error:
            raise DataEndsError(" ".join(str(error).split()) or type(error).__name__) from error
        lines.enter("build")
        return batches

    return build_training_step(controls, device, make)


def swap_batches(step: TrainingStep, workload: WorkloadSpec) -> None:
    """Gives the step the batches of another workload, drawn and placed as `build_training_step` does it."""
    step.batches = []  # the old ones go before the new ones come
    step.batches = batches_for(step, workload)
    step.batch_digest = digest_of(step.batches)


def sampled_weights(step: TrainingStep) -> list[torch.Tensor]:
    """A few elements of every parameter, in host memory."""
    sampled = []
    for parameter in step.model.parameters():
        flat = parameter.detach().reshape(-1)
        sampled.append(flat[:: max(1, flat.numel() // SAMPLED_PER_TENSOR)].to("cpu", copy=True))
    return sampled


def num_changed(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> int:
    """Parameters that differ in a sampled element."""
    return sum(not torch.equal(first, second) for first, second in zip(before, after, strict=True))


def num_units(step: TrainingStep, workload: WorkloadSpec, unit: str) -> int:
    """Tokens, images or samples in one optimizer step. Tokens are the elements of each batch's first tensor: of the
    input, where there are targets too."""
    if unit != TOKENS:
        return workload.micro_batch * len(step.batches)
    return sum(_first_tensor(batch).numel() for batch in step.batches)


def evaluate(step: TrainingStep) -> None:
    """One forward as an evaluation between two steps makes it: eval mode, no gradients."""
    modes = [(module, module.training) for module in step.model.modules()]
    step.model.eval()
    try:
        with torch.no_grad():
            step.forward()
    finally:
        for module, was_training in modes:
            module.training = was_training


def _first_tensor(batch: Batch) -> torch.Tensor:
    return next(leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.dim())
