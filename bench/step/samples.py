"""Is the micro-batch what the workload says? Its kind, and how many samples are in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path

from bench.spec import SpecError


def plain_batch(batch: Any) -> Any:
    """The batch with a mapping of another kind (transformers' BatchEncoding) as a dict, whose tensors torch can find.

    Raises:
        SpecError: there is no tensor in it.
    """
    batch = dict(batch) if isinstance(batch, Mapping) else batch
    if not _tensors(batch):
        raise SpecError(
            f"model.target: batch() returned a {type(batch).__name__} in which torch finds no tensor; return a dict, a "
            "tuple or a list of tensors"
        )
    return batch


def check_samples(batch: Any, micro_batch: int, num_samples: Callable[[Any], int] | None) -> None:
    """Holds the number of samples in the batch against `workload.micro_batch`.

    The module's own `num_samples(batch)` says it. Without one it is the leading size of the batch's first tensor that
    has any dimension: of `input_ids`, `pixel_values` or the first element of a tuple. Later tensors may have other
    leading sizes (positions, cumulated lengths), so they prove nothing.

    Raises:
        SpecError: they differ.
    """
    if num_samples is not None:
        found, how = num_samples(batch), "num_samples() says"
    else:
        name, tensor = next(((n, t) for n, t in _tensors(batch) if t.dim()), ("", None))
        if tensor is None:
            raise SpecError("model.target: batch() has only scalars; write num_samples(batch) beside it")
        found, how = int(tensor.shape[0]), f"{name or 'its tensor'} has shape {tuple(tensor.shape)}, so that it is"
    if found != micro_batch:
        raise SpecError(
            f"workload.micro_batch: {micro_batch} samples are asked for, but in what batch() returned {how} {found}; "
            "mend batch(), or say how samples are counted by a function num_samples(batch)"
        )


def _tensors(batch: Any) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of every tensor, in the batch's order."""
    leaves = tree_flatten_with_path(batch)[0]
    return [("".join(map(str, path)), leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
