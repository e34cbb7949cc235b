"""The step on the bench: placements are put on it and taken off, and after a failure it is put back in order."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence

import torch

from bench.measure import raise_memory_limit
from bench.placement import parse_placement
from bench.placement.applying import Applied, apply, self_checkpointing, undo
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.wiring import record_wiring
from bench.spec import Controls
from bench.step import Step, StepState, build_training_step
from bench.step.state import persistent_tensors, state_bytes


class Bench:
    """One training step, how its units are wired, and the state that measurements start from."""

    def __init__(
        self, controls: Controls, device: torch.device, placements: Sequence[str], step: Step | None = None
    ) -> None:
        """`placements` name the units whose wiring is recorded; a `step` that is given is not built from `controls`."""
        self.step: Step = build_training_step(controls, device) if step is None else step
        self.device = device
        why = self_checkpointing(self.step.model)
        if why:
            raise UnsupportedPlacementError(f"the plain model already checkpoints itself: {why}")
        self.units = {unit for text in placements for region in parse_placement(text).regions for unit in region.units}
        known = {name for name, _ in self.step.model.named_modules()}
        self.wiring = record_wiring(self.step.model, sorted(self.units & known), self.step.forward)
        self._state: StepState | None = None
        self._is_limited = controls.device.memory_limit_bytes is not None
        gc.collect()
        gc.freeze()  # what exists now stays: later collections look at the garbage of single steps only

    def keep_state(self) -> None:
        if self._is_limited:
            raise_memory_limit(state_bytes(self.step), self.device)
        self._state = StepState(self.step)

    def restore_state(self) -> None:
        if self._state is not None:
            self._state.restore(self.step)

    def placed(self, text: str) -> Applied:
        """The placement on the model, for the time of a `with` block."""
        return apply(self.step.model, text, wiring=self.wiring)

    def persistent_tensors(self) -> Iterator[torch.Tensor]:
        """Every tensor that is known to be alive between two steps."""
        return persistent_tensors(self.step)

    def recover(self) -> None:
        """Puts model, memory and state back in order after a failure. Call it when the exception is gone, since its
        frames hold the tensors of the step that failed.

        Raises:
            RuntimeError: it cannot be put in order, so this process must not measure on.
        """
        undo(self.step.model)
        self.step.optimizer.zero_grad(set_to_none=True)
        self.step.model.zero_grad(set_to_none=True)  # what another optimizer would clear
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.restore_state()
