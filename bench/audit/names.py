"""Names of modules and parameters in the plain model, whatever wraps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

WRAPPERS = ("_checkpoint_wrapped_module", "_orig_mod", "_fsdp_wrapped_module")
"""Names under which torch's and fairscale's wrappers hold what they wrap."""


def plain_name(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


class Names:
    """Names as they were in a model before anything wrapped it: by identity where the thing is still the same one, by
    its name without the wrappers' parts where it is not."""

    def __init__(self, model: nn.Module) -> None:
        self._of_modules = {id(module): plain_name(name) for name, module in model.named_modules()}
        self._of_parameters = {id(parameter): plain_name(name) for name, parameter in model.named_parameters()}
        self._alive: list[Any] = [*model.modules(), *model.parameters()]

    def module(self, name: str, module: nn.Module) -> str:
        return self._of_modules.get(id(module), plain_name(name))

    def of_module(self, module: nn.Module) -> str | None:
        """None for a module that is not in the plain model."""
        return self._of_modules.get(id(module))

    def parameters(self, model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
        for name, parameter in model.named_parameters():
            yield self._of_parameters.get(id(parameter), plain_name(name)), parameter
