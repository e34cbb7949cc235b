"""A deep copy of a model that is one by itself, also where Python's `copy.deepcopy` would not make it so.

`deepcopy` takes functions as they are. A hook or an activation that was defined beside the model, and names it or one
of its modules or tensors, would go on with the original; so such functions are made anew for the copy. It drops the
hooks of parameters, which are put on the copies. It fails at locks, open files and loaders, which are shared with the
copy, and at tensors with a graph, which are detached.
"""

from __future__ import annotations

import copy
import types
import weakref
from typing import Any

import torch
from torch import nn

from bench.audit.names import Names
from bench.audit.walk import Walk
from bench.audit.world import hooks_of, walked

Memo = dict[int, Any]


def copied(
    model: nn.Module, optimizers: tuple[torch.optim.Optimizer, ...], names: Names
) -> tuple[nn.Module, tuple[torch.optim.Optimizer, ...]]:
    """The model and its optimizers, deeply. Variables of a function that lead to neither a module nor a tensor of the
    model stay common: the step may read there what a hook collects."""
    walk = walked(model, names)
    memo: Memo = {id(thing): thing for thing in (*walk.uncopyable, *filter(_cannot_be_copied, walk.objects))}
    memo |= {id(tensor): tensor.detach().clone() for tensor in walk.graph_tensors}
    made = _stand_ins(walk, model, memo)
    result: tuple[nn.Module, tuple[torch.optim.Optimizer, ...]] = copy.deepcopy((model, optimizers), memo)
    for function, cells in made:
        for old, new in zip(function.__closure__ or (), cells, strict=True):
            if new is not old:
                new.cell_contents = copy.deepcopy(old.cell_contents, memo)
    _copy_parameter_hooks(model, memo)
    return result


def _cannot_be_copied(value: Any) -> bool:
    """Whether Python refuses to take the thing itself apart, whatever it holds: a lock, a loader's iterator."""
    if isinstance(value, weakref.ReferenceType) or "__deepcopy__" in dir(type(value)):
        return False
    try:
        value.__reduce_ex__(4)
    except Exception:
        return True
    return False


def _stand_ins(walk: Walk, model: nn.Module, memo: Memo) -> list[tuple[types.FunctionType, list[types.CellType]]]:
    """Puts a function of the copy's own in the memo for each one whose closure leads to the model, with new cells that
    are still empty."""
    own = {id(thing) for thing in (*model.modules(), *model.parameters(), *model.buffers())}
    leading: set[int] = set()
    while found := {id(f) for f in walk.functions if id(f) not in leading and _leads(f, own | leading)}:
        leading |= found
    made = []
    for function in walk.functions:
        if id(function) not in leading:
            continue
        cells = [types.CellType() if _is_led(cell, own | leading) else cell for cell in function.__closure__ or ()]
        twin = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
        )
        twin.__kwdefaults__, twin.__module__ = function.__kwdefaults__, function.__module__
        twin.__qualname__ = function.__qualname__
        twin.__dict__.update(vars(function))
        memo[id(function)] = twin
        made.append((function, cells))
    return made


def _leads(function: types.FunctionType, wanted: set[int]) -> bool:
    return any(_is_led(cell, wanted) for cell in function.__closure__ or ())


def _is_led(cell: types.CellType, wanted: set[int]) -> bool:
    try:
        value = cell.cell_contents
    except ValueError:  # not bound yet
        return False
    if isinstance(value, types.MethodType):
        value = value.__self__
    if isinstance(value, (list, tuple)):
        return any(id(item) in wanted for item in value)
    return id(value) in wanted


def _copy_parameter_hooks(model: nn.Module, memo: Memo) -> None:
    for parameter in model.parameters():
        twin = memo.get(id(parameter))
        if twin is None or twin is parameter:
            continue
        gradient_hooks, accumulated_hooks = hooks_of(parameter)
        for hook in gradient_hooks:
            twin.register_hook(copy.deepcopy(hook, memo))
        for hook in accumulated_hooks:
            twin.register_post_accumulate_grad_hook(copy.deepcopy(hook, memo))
