"""A model's fingerprint, and what differs between a live model and the one that a placement was measured on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import torch
from torch import nn

from bench.placement.origin import Fingerprint, Origin

DIGITS = 16
BF16_PURE = "bf16-pure"


class OtherModelWarning(UserWarning):
    """A placement is put on another model, or under other controls, than it was measured on."""


def fingerprint_of(model: nn.Module) -> Fingerprint:
    """The same for fake and real tensors, on every device and in every precision, with and without a placement on it,
    and under `fully_shard`, which gives modules a class of its own."""
    lines = "\n".join(_lines(model))
    return Fingerprint(
        digest=hashlib.sha256(lines.encode()).hexdigest()[:DIGITS],
        num_modules=sum(1 for _ in model.modules()),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def differences(model: nn.Module, origin: Origin) -> tuple[str, ...]:
    """Sentences, each with both sides: what differs of model, torch, device and weights' dtype. Autocast and the batch
    are not known before a step runs; `bench.own.check` looks at them."""
    return tuple(_differences(model, origin))


def _differences(model: nn.Module, origin: Origin) -> Iterator[str]:
    known = origin.fingerprint
    if known is not None:
        found = fingerprint_of(model)
        if found.digest != known.digest:
            yield (
                f"the model has {found.num_parameters:,} parameters in {found.num_modules} modules, that of the study "
                f"{known.num_parameters:,} in {known.num_modules}"
                + ("; names, classes or shapes differ" if _equal_sizes(found, known) else "")
            )
            for units in origin.units.values():
                yield from _other_length(model, units)
    dropout = max((m.p for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd)), default=0.0)
    if origin.dropout is not None and dropout != origin.dropout:
        yield f"dropout is {dropout:g}, the study had {origin.dropout:g}; its masks take memory and time"
    version, there = str(torch.__version__), origin.versions.get("torch")
    if there is not None and version != there:
        yield f"torch is {version}, the study had {there}"
    parameters = list(model.parameters())
    kinds = sorted({parameter.device.type for parameter in parameters} - {"meta"})
    if kinds and kinds != [origin.device]:
        yield f"the model is on {' and '.join(kinds)}, the study's was on {origin.device}"
    elif kinds == ["cuda"] and torch.cuda.get_device_name(parameters[0].device) != origin.device_name:
        yield f"the GPU is {torch.cuda.get_device_name(parameters[0].device)}, the study's was {origin.device_name}"
    trained = {p.dtype for p in parameters if p.requires_grad and p.is_floating_point()}
    expected = torch.bfloat16 if origin.precision == BF16_PURE else torch.float32
    if trained and trained != {expected}:
        dtypes = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in trained))
        yield f"trained weights are {dtypes}, the study trained in {origin.precision}"


def _other_length(model: nn.Module, units: Sequence[str]) -> Iterator[str]:
    """Where the units of a chain are the numbered children of one module, and there are more or fewer of them here."""
    holders = {unit.rpartition(".")[0] for unit in units}
    modules = dict(model.named_modules())
    if len(holders) != 1 or not all(unit.rpartition(".")[2].isdigit() for unit in units):
        return
    (holder,) = holders
    here = [name for name, _ in modules[holder].named_children()] if holder in modules else []
    there = [unit.rpartition(".")[2] for unit in units]
    if here and here != there:
        beyond = [name for name in here if name not in there]
        not_placed = f", and no placement of the study says anything of {holder}.{beyond[0]}" if beyond else ""
        if len(beyond) > 1:
            not_placed += f"..{beyond[-1]}"
        yield f"{holder} has {len(here)} units, the study's had {len(there)}{not_placed}"


def _equal_sizes(first: Fingerprint, second: Fingerprint) -> bool:
    return (first.num_modules, first.num_parameters) == (second.num_modules, second.num_parameters)


def _lines(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        shapes = (f"{key}{tuple(p.shape)}" for key, p in module.named_parameters(recurse=False))
        yield f"{name}: {_class_name(module)} {' '.join(shapes)}"


def _class_name(module: nn.Module) -> str:
    """`fully_shard` makes a class `FSDPBlock(FSDPModule, Block)` for each that it is given."""
    kind = type(module)
    if any(base.__name__ == "FSDPModule" for base in kind.__mro__[1:]) and len(kind.__mro__) > 2:
        kind = kind.__mro__[2]
    return kind.__qualname__
