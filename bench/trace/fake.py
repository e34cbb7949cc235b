"""The step of a study on fake tensors: built and run as the real one is, with shapes and lifetimes and no memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._pytree import tree_map

from bench.placement.wiring import Wiring, record_wiring
from bench.spec import Controls, WorkloadSpec
from bench.step import TrainingStep, build_training_step
from bench.step.build import draw_batches
from bench.step.family import Batch, Family
from bench.trace.routing import Routing, Tape
from bench.trace.values import KnownValues, unseen_by_libraries, with_value


class FakeStep:
    """A training step without memory. Run it, and look at its tensors, inside `entered()`."""

    def __init__(self, controls: Controls, device: torch.device, tape: Tape | None = None) -> None:
        """Builds the step and runs it once, so that the optimizer's state is there.

        Args:
            tape: what the real model decides by its data (`record_routing`); even routing is assumed where it is None.

        Raises:
            what building a step raises, and RuntimeError where fake tensors cannot follow the model.
        """
        self._mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.routing = Routing(tape)
        with self.entered():
            self.step: TrainingStep = build_training_step(controls, device, self._batches)
            self.routing.know(self.step.model)
            self.step.run()

    @contextmanager
    def entered(self) -> Iterator[None]:
        self.routing.begin()
        with unseen_by_libraries(), self._mode, KnownValues(self.routing):
            yield

    def wiring(self, units: list[str]) -> Wiring:
        with self.entered():
            return record_wiring(self.step.model, units, self.step.forward)

    def _batches(self, family: Family, model: nn.Module, workload: WorkloadSpec) -> list[Batch]:
        """Real ones, so that their lengths and values are those of the real step, and then without memory."""
        with unset_fake_temporarily():
            try:
                drawn = draw_batches(family, model, workload)
            except RuntimeError:  # it asks the model for more than its configuration
                drawn = []
        if not drawn:
            return draw_batches(family, model, workload)
        return [tree_map(self._lifted, batch) for batch in drawn]

    def _lifted(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        fake = self._mode.from_tensor(value)
        return fake if value.is_floating_point() else with_value(fake, value)
