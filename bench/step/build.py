"""The training step that all placements of a study share: built once, run many times."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from bench.spec import Controls, RecipeSpec, WorkloadSpec
from bench.step.default_loss import check_loss
from bench.step.family import Batch, Family, check_shape, load_family, seed_everything
from bench.step.interface import (
    BACKWARD as BACKWARD,
    END as END,
    FORWARD as FORWARD,
    OPTIMIZER as OPTIMIZER,
    ZERO_GRAD as ZERO_GRAD,
    OnPhase,
    Stateful,
)
from bench.step.optimizer import build_optimizer
from bench.step.precision import PRECISIONS, Precision, autocast, unsupported_precision


class UnsupportedControlsError(RuntimeError):
    """Controls that this device or these libraries cannot run; every placement of the study is `unsupported`."""


class TrainingStep:
    """zero_grad, micro-batches (forward, loss, backward), clipping, optimizer: one optimizer step a `run`."""

    def __init__(
        self,
        *,
        family: Family,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        batches: list[Batch],
        precision: Precision,
        recipe: RecipeSpec,
        device: torch.device,
    ) -> None:
        self.family = family
        self.model = model
        self.optimizer = optimizer
        self.batches = batches
        """One a micro-batch of the step; the same in every step."""
        self.precision = precision
        self.recipe = recipe
        self.device = device
        self._steps: int | torch.Tensor = 0
        self.batch_digest = digest_of(batches)
        self.scaler = torch.amp.GradScaler(device.type) if precision.scale_loss else None
        self.others: tuple[Stateful, ...] = (self.scaler,) if self.scaler else ()

    def run(self, on_phase: OnPhase | None = None) -> torch.Tensor:
        """One optimizer step; returns the mean loss of its micro-batches, on the device.

        Args:
            on_phase: called with the name of each phase as it begins, and with `end`; None in timed steps.
        """
        mark = on_phase or _ignore
        if self.recipe.zero_grad == "start":
            mark(ZERO_GRAD)
            self.optimizer.zero_grad(set_to_none=self.recipe.set_to_none)
        total = torch.zeros((), device=self.device)
        for batch in self.batches:
            mark(FORWARD)
            loss = self.forward(batch) / len(self.batches)
            mark(BACKWARD)
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            total += loss.detach()
            del loss
        mark(OPTIMIZER)
        self._optimize()
        if self.recipe.zero_grad == "end":
            mark(ZERO_GRAD)
            self.optimizer.zero_grad(set_to_none=self.recipe.set_to_none)
        mark(END)
        return total

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps taken so far."""
        return int(self._steps)

    def forward(self, batch: Batch | None = None) -> torch.Tensor:
        """The loss of one micro-batch (the first by default), under the step's autocast."""
        with autocast(self.precision, self.device):
            loss = self.family.loss(self.model, self.batches[0] if batch is None else batch)
        check_loss(loss)
        return loss

    def _optimize(self) -> None:
        if self.recipe.clip_norm is not None:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self.recipe.clip_norm)
        if self.scaler is None:
            self.optimizer.step()
            self._steps = self._steps + 1
            return
        before = self.scaler._scale.clone()  # type: ignore[union-attr]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        # The scale falls where a step was skipped; read later, so that no step waits for the device.
        self._steps = self._steps + (self.scaler._scale >= before)  # type: ignore[operator]


def build_training_step(
    controls: Controls,
    device: torch.device,
    make_batches: Callable[[Family, nn.Module, WorkloadSpec], list[Batch]] | None = None,
) -> TrainingStep:
    """Builds model, batches and optimizer on `device`, seeded by `workload.seed`.

    Args:
        make_batches: another way to make the micro-batches than `draw_batches`, before they are put on the device.

    Raises:
        UnsupportedControlsError: the device cannot run the precision.
        SpecError: settings of model, workload or optimizer do not fit, or the model's module is not what a step needs.
    """
    why = unsupported_precision(controls.precision, device)
    if why:
        raise UnsupportedControlsError(why)
    precision, workload = PRECISIONS[controls.precision], controls.workload
    family = load_family(controls.model)
    check_shape(family, workload.shape)
    torch.manual_seed(workload.seed)
    with device:
        model = family.build(**controls.model.settings)
    _convert(model, device, precision.weights)
    drawn = (make_batches or draw_batches)(family, model, workload)
    batches = [_place(batch, device, precision) for batch in drawn]
    optimizer = build_optimizer(controls.optimizer, model.parameters(), device)
    return TrainingStep(
        family=family,
        model=model,
        optimizer=optimizer,
        batches=batches,
        precision=precision,
        recipe=controls.recipe,
        device=device,
    )


def draw_batches(family: Family, model: nn.Module, workload: WorkloadSpec) -> list[Batch]:
    """The micro-batches of a step, in host memory."""
    generator = torch.Generator().manual_seed(workload.seed)
    if family.draws_globally:
        seed_everything(workload.seed)
    return [family.batch(model, workload, generator) for _ in range(workload.accumulation)]


def batches_for(step: TrainingStep, workload: WorkloadSpec) -> list[Batch]:
    """The micro-batches of another workload for a step that is built, on its device."""
    drawn = draw_batches(step.family, step.model, workload)
    return [_place(batch, step.device, step.precision) for batch in drawn]


def _convert(model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """`model.to(device, dtype)` that leaves alone what is right already, keeps ties, and works on fake tensors."""
    moved: dict[int, torch.Tensor] = {}

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        wanted = dtype if tensor.is_floating_point() else tensor.dtype
        if tensor.device == device and tensor.dtype == wanted:
            return tensor
        if id(tensor) not in moved:
            new = tensor.detach().to(device, wanted)
            moved[id(tensor)] = nn.Parameter(new, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else new
        return moved[id(tensor)]

    for module in model.modules():
        stores: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for tensors in stores:
            tensors.update({name: convert(tensor) for name, tensor in tensors.items() if tensor is not None})


def _place(batch: Batch, device: torch.device, precision: Precision) -> Batch:
    """The batch on the device, floating-point inputs in the dtype of the weights."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device, precision.weights if value.is_floating_point() else value.dtype)

    moved: Batch = tree_map(move, batch)
    return moved


def digest_of(batches: Any) -> str:
    """16 hex digits over shape, dtype and content of every tensor in a pytree, in order."""
    digest = hashlib.sha256()
    for tensor in (leaf for leaf in tree_leaves(batches) if isinstance(leaf, torch.Tensor)):
        digest.update(repr((tensor.shape, tensor.dtype)).encode())
        if not isinstance(tensor, torch._subclasses.FakeTensor):
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _ignore(_phase: str) -> None:
    pass
