"""Standing in for modules' forwards for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

Forward = Callable[..., Any]


@contextmanager
def forwards_wrapped(
    modules: Iterable[tuple[str, nn.Module]], wrap: Callable[[str, nn.Module, Forward], Forward]
) -> Iterator[None]:
    """While it lasts, each module's forward is `wrap(name, module, forward)`, inside its hooks. Nothing is left behind,
    and a forward that a module had of its own instance is put back."""
    before: list[tuple[nn.Module, Forward | None]] = []
    try:
        for name, module in modules:
            before.append((module, vars(module).get("forward")))
            module.forward = wrap(name, module, module.forward)
        yield
    finally:
        for module, own in before:
            if own is None:
                vars(module).pop("forward", None)
            else:
                module.forward = own
