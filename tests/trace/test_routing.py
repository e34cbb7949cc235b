"""What a model decides by its data, recorded once for real and given again in fake steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.placement.applying import apply
from bench.trace.routing import Routing, Tape, record_routing
from bench.trace.values import KnownValues
from tests.trace.toys import toy_step

ROWS, WIDTH, EXPERTS = 12, 8, 3
Counts = list[int]


class Mixture(nn.Module):
    """Each row goes through the expert that its router chooses; remembers how many rows each expert had."""

    def __init__(self, seen: list[Counts]) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))
        self.seen = seen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.router(x).argmax(-1)
        result = torch.zeros_like(x)
        counts = []
        for number, expert in enumerate(self.experts):
            (rows,) = torch.where(chosen == number)
            counts.append(rows.shape[0])
            if rows.shape[0]:
                result = result.index_add(0, rows, expert(x[rows]))
        self.seen.append(counts)
        return torch.relu(result)


class Stack(nn.Module):
    def __init__(self, calls: int = 1) -> None:
        super().__init__()
        self.seen: list[Counts] = []
        self.blocks = nn.ModuleList(Mixture(self.seen) for _ in range(2))
        self.calls = calls

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.calls):
            for block in self.blocks:
                x = block(x) + x
        return x


def _batches(num: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(ROWS, WIDTH, generator=generator) for _ in range(num)]


def _recorded(calls: int = 1, micro_batches: int = 1) -> tuple[Tape, list[Counts]]:
    torch.manual_seed(0)
    model = Stack(calls)
    tape = record_routing(toy_step(model, _batches(micro_batches)))
    return tape, list(model.seen)


def _faked(tape: Tape | None, placement: str, calls: int = 1, micro_batches: int = 1, steps: int = 1) -> list[Counts]:
    """Rows of each expert in every pass, of the last of `steps` fake steps."""
    routing = Routing(tape)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, KnownValues(routing):
        model = Stack(calls)
        routing.know(model)
        step = toy_step(model, [mode.from_tensor(batch) for batch in _batches(micro_batches)])
        with apply(model, placement):
            for _ in range(steps):
                model.seen.clear()
                step.run()
    assert tape is None or not routing.assumed
    return model.seen


def test_the_recorded_routing_is_uneven_so_that_it_can_be_told_from_the_assumed_one() -> None:
    _, counts = _recorded()
    assert len(counts) == 2
    assert all(sum(rows) == ROWS for rows in counts)
    assert counts[0] != counts[1]
    assert [ROWS // EXPERTS] * EXPERTS not in counts


def test_a_fake_step_decides_as_the_real_forward_did() -> None:
    tape, counts = _recorded()
    assert _faked(tape, "none") == counts


def test_without_a_recording_rows_are_spread_evenly() -> None:
    assert _faked(None, "none") == [[ROWS // EXPERTS] * EXPERTS] * 2


@pytest.mark.parametrize(
    ("placement", "replayed"),
    [
        ("blocks.0..1:each", [1, 0]),
        ("blocks.0", [0]),
        ("blocks.1", [1]),
        ("blocks.0..1:each@no-early-stop", [1, 0]),
    ],
)
def test_a_replay_decides_as_its_first_pass_did(placement: str, replayed: list[int]) -> None:
    tape, counts = _recorded()
    # An early-stopped replay ends after its experts, so that all but the mixture's own bookkeeping is run again.
    seen = _faked(tape, placement)
    assert seen[:2] == counts
    again = seen[2:]
    assert again in ([counts[block] for block in replayed], [])


def test_each_micro_batch_has_its_own_decisions_in_every_step() -> None:
    tape, counts = _recorded(micro_batches=3)
    assert counts[0] != counts[2]
    assert _faked(tape, "none", micro_batches=3, steps=2) == counts
    once_more = _faked(tape, "blocks.0..1:each@no-early-stop", micro_batches=3, steps=2)
    assert once_more == [
        c for batch in range(3) for c in (*counts[2 * batch :][:2], *reversed(counts[2 * batch :][:2]))
    ]


def test_blocks_called_twice_are_replayed_from_the_last_call_to_the_first() -> None:
    tape, counts = _recorded(calls=2)
    assert _faked(tape, "blocks.0..1:each@no-early-stop", calls=2) == [*counts, *reversed(counts)]


def test_recording_leaves_the_random_number_generator_alone() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x * self.weight, 0.5)

    step = toy_step(Noisy(), _batches(1))
    before = torch.get_rng_state()
    record_routing(step)
    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_that_a_model_reads_are_recorded_too() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDTH))
            self.rows: list[Any] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept = int((x.sum(-1) > 0).sum())
            self.rows.append(kept)
            return x[:kept] * self.weight

    real = Counting()
    tape = record_routing(toy_step(real, _batches(2)))
    routing = Routing(tape)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, KnownValues(routing):
        model = Counting()
        routing.know(model)
        toy_step(model, [mode.from_tensor(batch) for batch in _batches(2)]).run()
    assert model.rows == real.rows
    assert len(set(real.rows)) == 2
