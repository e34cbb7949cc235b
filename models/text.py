"""Samples of text models: token ids, drawn at random or read from a real text, of one length or of several."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import torch

from bench.spec import SpecError, WorkloadSpec

DATA = ("synthetic", "text")
LENGTHS = ("fixed", "variable")
TEXT = Path(__file__).parent / "data" / "text.txt"
BYTE_VALUES = 256
SHORTEST_SHARE = 0.25
"""Of the shape's length: how short a micro-batch of variable length may be."""


def draw_lengths(workload: WorkloadSpec, generator: torch.Generator, **defaults: int) -> tuple[int, ...]:
    """Lengths of the next micro-batch, in the order of `defaults` (name in the workload's shape → length if not given).

    With `workload.lengths=variable` the first micro-batch of a step has the shape's lengths and every later one draws
    its own, uniform from a quarter of the shape's to all of it. So the longest batch is always among them: the peak
    of the step is that of its worst micro-batch. The first is the one for which nothing was drawn from `generator` yet.
    On fake tensors nothing is ever drawn, so all micro-batches there are as long as the first.

    Raises:
        SpecError: `workload.lengths` is neither, or a step of one micro-batch is to have several lengths.
    """
    _one_of("lengths", workload.lengths, LENGTHS)
    longest = tuple(workload.shape.get(name, default) for name, default in defaults.items())
    if workload.lengths == "fixed":
        return longest
    if workload.accumulation < 2:
        raise SpecError(
            "workload.lengths: variable needs workload.accumulation of at least 2, got "
            f"{workload.accumulation}: the first micro-batch has the full length, so a step of one has no other"
        )
    if _nothing_drawn(generator):
        return longest
    return tuple(_draw(math.ceil(length * SHORTEST_SHARE), length, generator) for length in longest)


def draw_tokens(
    workload: WorkloadSpec, generator: torch.Generator, *, length: int, vocabulary: int, lowest: int = 0
) -> torch.Tensor:
    """Token ids of shape (workload.micro_batch, length), int64.

    `synthetic`: uniform from `lowest` up to the vocabulary. `text`: windows of models/data/text.txt that begin
    anywhere, one id a byte.

    Raises:
        SpecError: `workload.data` is neither, or vocabulary or text are too small for it.
    """
    _one_of("data", workload.data, DATA)
    if workload.data == "synthetic":
        return torch.randint(lowest, vocabulary, (workload.micro_batch, length), generator=generator)
    if vocabulary < BYTE_VALUES:
        raise SpecError(
            f"workload.data: text has one id a byte, so model.settings.vocabulary must be at least {BYTE_VALUES}, "
            f"got {vocabulary}"
        )
    text = torch.tensor(list(_text()))
    if length > len(text):
        raise SpecError(f"workload.shape: the text has {len(text)} bytes, a sample of {length} does not fit")
    starts = torch.randint(0, len(text) - length + 1, (workload.micro_batch, 1), generator=generator)
    return text[starts + torch.arange(length)]


def check_positions(length: int, positions: int) -> None:
    """Raises SpecError for a sequence that the model has no positions for."""
    if length > positions:
        raise SpecError(f"workload.shape.sequence_length: {length} is beyond model.settings.positions, {positions}")


@functools.cache
def _text() -> bytes:
    return TEXT.read_bytes()


def _nothing_drawn(generator: torch.Generator) -> bool:
    fresh = torch.Generator().manual_seed(generator.initial_seed())
    return torch.equal(generator.get_state(), fresh.get_state())


def _draw(low: int, high: int, generator: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SpecError(f"workload.{option}: {value!r} is not one of {', '.join(allowed)}")
