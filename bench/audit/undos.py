"""What puts Python state back: noted while it is walked through, run in the order in which it was noted.

Containers are put back in place and tensors are copied back into, so that whoever holds them sees it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy
import torch

from bench.audit.iterators import copied, is_iterator
from bench.placement.held_state import set_value, value_of
from bench.step.state import to_host


class Undos:
    def __init__(self, *, keeps: bool) -> None:
        """Without `keeps` nothing is noted."""
        self._keeps = keeps
        self._undos: list[Callable[[], object]] = []

    def run(self) -> None:
        for undo in self._undos:
            undo()

    def add(self, undo: Callable[[], object]) -> None:
        if self._keeps:
            self._undos.append(undo)

    def of_tensor(self, tensor: torch.Tensor, gradient: torch.Tensor | None) -> None:
        if self._keeps:
            value = to_host(tensor)
            kept = None if gradient is None else gradient.detach().clone()
            self._undos.append(lambda: _copy_back(tensor, value, kept))

    def of_array(self, array: numpy.ndarray[Any, Any]) -> None:
        if self._keeps:
            self._undos.append(functools.partial(set_value, array, value_of(array)))

    def of_dict(self, held: dict[Any, Any], without: frozenset[str] = frozenset()) -> None:
        """Its keys and what they are bound to."""
        if not self._keeps:
            return
        old = {key: value for key, value in held.items() if key not in without}
        iterators = {key: copied(value) for key, value in old.items() if is_iterator(value)}

        def undo() -> None:
            for key in [key for key in held if key not in without and key not in old]:
                del held[key]
            for key, value in old.items():
                if key not in held or held[key] is not value:
                    held[key] = value
            for key, iterator in iterators.items():
                held[key] = copied(iterator)

        self._undos.append(undo)

    def of_items(self, old: Any, now: Any, put_back: Callable[[Any], Any]) -> None:
        """A container, from `old` items to what it holds then."""
        if self._keeps:
            self._undos.append(lambda: None if _are_same(old, now) else put_back(old))

    def of_name(self, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        """A name that may be bound to another value, or hold an iterator."""
        if not self._keeps:
            return
        old = get()
        iterator = copied(old) if is_iterator(old) else None

        def undo() -> None:
            if iterator is not None:
                put(copied(iterator))
                return
            try:
                if get() is old:
                    return
            except (AttributeError, KeyError, ValueError):
                pass
            put(old)

        self._undos.append(undo)


def refill(clear: Callable[[], None], fill: Callable[[Any], None], old: Any) -> None:
    clear()
    fill(old)


@torch.no_grad()
def _copy_back(tensor: torch.Tensor, value: torch.Tensor, gradient: torch.Tensor | None) -> None:
    if tensor.is_leaf or tensor.retains_grad:
        tensor.grad = gradient if gradient is None else gradient.clone()
    if tensor.shape == value.shape and not torch.equal(tensor.detach(), value := value.to(tensor.device)):
        tensor.detach().copy_(value)


def _are_same(old: Any, now: Any) -> bool:
    if isinstance(old, set):
        return bool(old == now)
    return len(old) == len(now) and all(a is b for a, b in zip(old, now, strict=True))
