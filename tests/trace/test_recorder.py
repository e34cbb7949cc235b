"""What a recorded step tells: blocks to the byte, and of every op where it belongs."""

from __future__ import annotations

import gc
import gzip
from pathlib import Path

import pytest
import torch
from torch import nn

from bench.measure import MemoryReading, measure_memory
from bench.placement import UnsupportedPlacementError, generate_placements
from bench.placement.applying import apply
from bench.spec import ModelSpec, RecipeSpec, WorkloadSpec
from bench.spec.roles import GRADIENT, PARAMETER
from bench.step import StepState, TrainingStep, build_training_step, load_family
from bench.step.state import persistent_tensors
from bench.trace.log import FIRST, NOWHERE, REPLAY, Op, StepLog, read_log, write_log
from bench.trace.record import record_real_step
from bench.worker.bench import Bench
from tests.builders import make_controls
from tests.tiny_models import EVERY_GENERATOR, GPT2, T5, TinyModel
from tests.trace.toys import CPU, recorded, toy_step, wiring_of

ROWS, WIDTH, HIDDEN = 16, 8, 32
FLOAT = 4
NARROW, WIDE, WEIGHT = ROWS * WIDTH * FLOAT, ROWS * HIDDEN * FLOAT, WIDTH * HIDDEN * FLOAT
RNG_STATE = 5056
"""torch.get_rng_state() on the CPU."""


class Block(nn.Module):
    """x + down(relu(up(x))), without biases."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Stack(nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def _inputs(*, num: int = 1) -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH) for _ in range(num)]


def _named(log: StepLog, name: str, phase: str | None = None) -> list[Op]:
    return [op for op in log.ops if op.name == name and phase in (None, op.phase)]


def _measured(step: TrainingStep, placement: str = "none", *units: str) -> MemoryReading:
    """Unwatched, as a study weighs it."""

    with apply(step.model, placement, wiring=wiring_of(step, *units)):
        return measure_memory(step.run, lambda: persistent_tensors(step), CPU)


# Bytes


def test_every_block_of_a_plain_step_is_as_computed_by_hand() -> None:
    log = recorded(toy_step(Stack(1), _inputs()))
    made = [
        (op.phase, op.name, [log.storages[index].size_bytes for index in op.writes])
        for op in log.ops
        if op.name in ("mm", "relu", "add", "threshold_backward")
    ]
    assert made == [
        ("forward", "mm", [WIDE]),
        ("forward", "relu", [WIDE]),
        ("forward", "mm", [NARROW]),
        ("forward", "add", [NARROW]),
        ("backward", "mm", [WEIGHT]),
        ("backward", "mm", [WIDE]),
        ("backward", "threshold_backward", [WIDE]),
        ("backward", "mm", [WEIGHT]),
    ]


def test_the_peak_of_a_plain_step_is_as_computed_by_hand() -> None:
    log = recorded(toy_step(Stack(1), _inputs()))
    peak, moment = log.peak()
    # In the backward of relu: its output, the gradient of that, and the gradient of its input, beside the gradient of
    # `down`, and three scalars: the step's total, the loss, and its gradient of one.
    assert peak == 2 * WEIGHT + NARROW + 3 * WIDE + WEIGHT + 3 * FLOAT
    assert log.ops[log.op_at(moment)].name == "threshold_backward"
    assert sum(log.storages[index].size_bytes for index in log.alive_at(moment)) == peak
    assert log.phase_at(moment).phase == "backward"


def test_a_replayed_block_gives_up_its_wide_tensor_until_its_replay() -> None:
    log = recorded(toy_step(Stack(2), _inputs()), "blocks.0")
    forward, backward = (mark.begin for mark in log.phases if mark.phase in ("forward", "backward"))
    line = log.timeline()
    plain = recorded(toy_step(Stack(2), _inputs()))
    plain_forward, plain_backward = (mark.begin for mark in plain.phases if mark.phase in ("forward", "backward"))
    plain_line = plain.timeline()
    retained = line[backward] - line[forward]
    # relu's output of the first block; what the region keeps instead is the input, which is there anyway, and the
    # state of the generator.
    assert plain_line[plain_backward] - plain_line[plain_forward] - retained == WIDE - RNG_STATE


@pytest.mark.parametrize(
    "placement", ["none", "blocks.0", "blocks.0..2:each", "blocks.0..1", "blocks.0..1+blocks.0.up"]
)
def test_the_recorded_peak_is_the_unwatched_one_to_the_byte(placement: str) -> None:
    units = ("blocks.0", "blocks.1", "blocks.2")
    reading = _measured(toy_step(Stack(3), _inputs()), placement, *units)
    log = recorded(toy_step(Stack(3), _inputs()), placement, *units)
    assert log.peak()[0] == reading.peak_bytes
    assert log.persistent_bytes == reading.persistent_bytes
    assert log.phase_at(log.peak()[1]).phase == reading.peak_phase


@pytest.mark.parametrize(("name", "model"), [("gpt2", GPT2), pytest.param("t5", T5, marks=pytest.mark.slow)])
def test_the_recorded_peak_of_a_zoo_model_is_the_unwatched_one_for_every_generator(name: str, model: TinyModel) -> None:
    controls = make_controls(
        model=ModelSpec(name=name, target=f"models.{name}", settings=model.settings),
        workload=WorkloadSpec(micro_batch=2, shape=model.shape),
        facts=None,
    )
    chains = load_family(controls.model).chains(build_training_step(controls, CPU).model)
    texts = [entry.text for entry in generate_placements(EVERY_GENERATOR, chains)]
    bench = Bench(controls, CPU, texts)
    bench.step.run()
    bench.keep_state()
    refused = 0
    for text in texts:
        bench.restore_state()
        try:
            with bench.placed(text):
                measured = measure_memory(bench.step.run, bench.persistent_tensors, CPU).peak_bytes
        except UnsupportedPlacementError:
            refused += 1
            continue
        bench.restore_state()
        log = record_real_step(bench.step, text, bench.wiring, model=name)
        assert log.peak()[0] == measured, text
    assert refused < len(texts) / 2


def test_gradients_that_outlive_a_step_are_persistent_and_those_of_a_step_are_named() -> None:
    kept = recorded(toy_step(Stack(1), _inputs(), recipe=RecipeSpec(set_to_none=False)))
    freed = recorded(toy_step(Stack(1), _inputs()))
    assert sum(s.role == GRADIENT and s.birth is None for s in kept.storages) == 2
    assert kept.persistent_bytes - freed.persistent_bytes == 2 * WEIGHT
    assert {s.name for s in freed.storages if s.role == GRADIENT} == {"blocks.0.up.weight", "blocks.0.down.weight"}
    assert all(s.birth is not None and s.death is not None for s in freed.storages if s.role == GRADIENT)


def test_a_gradient_that_is_summed_over_micro_batches_is_the_first_one_made() -> None:
    log = recorded(toy_step(Stack(1), _inputs(num=2)))
    assert sorted(s.name for s in log.storages if s.role == GRADIENT) == ["blocks.0.down.weight", "blocks.0.up.weight"]
    assert {log.ops[s.op].micro_batch for s in log.storages if s.role == GRADIENT} == {0}


def test_tied_weights_and_views_are_one_block() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x)).view(-1).view(WIDTH, ROWS).t()

    log = recorded(toy_step(Tied(), _inputs()))
    assert sum(s.role == PARAMETER for s in log.storages) == 1
    assert not [op for op in log.ops if op.name in ("t", "view", "transpose", "detach")]


def test_an_op_in_place_writes_to_the_block_of_its_argument() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).mul_(2.0)

    log = recorded(toy_step(InPlace(), _inputs()))
    (scaled,) = _named(log, "mul_", "forward")
    (made,) = _named(log, "mm", "forward")
    assert scaled.writes == made.writes
    assert scaled.writes[0] in scaled.reads


def test_memory_that_only_a_kernel_sees_is_a_block_without_shape() -> None:
    log = recorded(toy_step(Stack(1), _inputs()))
    # `sum` hands its gradient on expanded; the matrix products that take it make a copy each for themselves.
    seen = {index for op in log.ops for index in (*op.reads, *op.writes)}
    hidden = [s for index, s in enumerate(log.storages) if s.op != NOWHERE and index not in seen]
    copies = [s for s in hidden if s.size_bytes == NARROW and log.ops[s.op].name == "mm"]
    assert len(copies) == 2
    assert all(copy.shape is None for copy in copies)


# Where an op belongs


def test_ops_know_module_phase_and_source_line() -> None:
    log = recorded(toy_step(Stack(1), _inputs()))
    up, down = _named(log, "mm", "forward")
    (relu,) = _named(log, "relu")
    assert (up.module, down.module, relu.module) == ("blocks.0.up", "blocks.0.down", "blocks.0")
    assert all(log.sources[op.source].endswith(" forward") for op in (up, down, relu))
    assert "tests/trace/test_recorder.py:" in log.sources[relu.source]


def test_backward_ops_know_the_forward_op_that_they_differentiate() -> None:
    log = recorded(toy_step(Stack(2), _inputs()))
    for op in _named(log, "threshold_backward"):
        forward = log.ops[op.forward_op]
        assert (forward.name, forward.phase) == ("relu", "forward")
        assert (op.module, op.source) == (forward.module, forward.source)
    assert [op.module for op in _named(log, "threshold_backward")] == ["blocks.1", "blocks.0"]


def test_the_backward_of_a_view_belongs_to_the_module_that_made_the_view() -> None:
    class Cut(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, 1:]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.cut, self.next = nn.Linear(WIDTH, WIDTH), Cut(), nn.Linear(WIDTH - 1, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.next(self.cut(self.layer(x)))

    log = recorded(toy_step(Model(), _inputs()))
    (op,) = _named(log, "slice_backward")
    assert op.module == "cut"


def test_a_replay_is_a_pass_of_its_own_with_its_boundary() -> None:
    log = recorded(toy_step(Stack(3), _inputs()), "blocks.1", "blocks.1")
    first, replay = log.passes
    assert (first.kind, replay.kind) == (FIRST, REPLAY)
    assert (first.call, replay.call) == (0, 0)
    (boundary,) = first.boundary
    assert replay.boundary == (boundary,)
    added = [op for op in log.ops if op.name == "add" and op.module == "blocks.0"]
    assert added[0].writes == (boundary,)
    replayed = [op.name for op in log.ops if op.region_pass == 1]
    assert replayed == ["mm", "relu"]  # it stops where the last saved tensor is rebuilt
    assert replay.handed_out == ()
    assert first.handed_out


def test_nested_passes_know_what_they_lie_in_and_calls_are_counted() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(self.block(x))

    log = recorded(toy_step(Twice(), _inputs()), "block")
    assert [(p.kind, p.call) for p in log.passes] == [(FIRST, 0), (FIRST, 1), (REPLAY, 1), (REPLAY, 0)]
    nested = recorded(toy_step(Stack(1), _inputs()), "blocks.0+blocks.0.up")
    outer, inner = nested.passes[0], nested.passes[1]
    assert inner.around == 0
    assert outer.around == NOWHERE
    assert (outer.region, inner.region) == ("blocks.0", "blocks.0.up")


def test_members_of_a_span_are_told_apart_in_its_replay() -> None:
    log = recorded(toy_step(Stack(2), _inputs()), "blocks.0..1", "blocks.0", "blocks.1")
    replayed = [op.module for op in log.ops if op.region_pass != NOWHERE and log.passes[op.region_pass].kind == REPLAY]
    assert replayed == ["blocks.0.up", "blocks.0", "blocks.0.down", "blocks.0", "blocks.1.up", "blocks.1"]


def test_flops_of_a_forward_are_two_a_multiply_add() -> None:
    log = recorded(toy_step(Stack(1), _inputs()))
    assert sum(op.flops or 0 for op in log.ops if op.phase == "forward") == 2 * (2 * ROWS * WIDTH * HIDDEN)


def test_flops_that_nobody_has_a_formula_for_are_absent() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0]

    log = recorded(toy_step(Recurrent(), _inputs()))
    assert any(op.flops is None for op in log.ops)


# What it leaves behind


def test_a_recorded_step_trains_as_an_unwatched_one_and_leaves_no_trace() -> None:
    step = toy_step(Stack(2), _inputs())
    state = StepState(step)
    record_real_step(step, "blocks.0", None, model="toy")
    watched = [parameter.detach().clone() for parameter in step.model.parameters()]
    state.restore(step)
    with apply(step.model, "blocks.0"):
        step.run()
        step.run()
    assert all(torch.equal(a, b) for a, b in zip(watched, step.model.parameters(), strict=True))
    assert not any("forward" in vars(module) for module in step.model.modules())


def test_nothing_that_a_step_made_is_held_by_its_recording() -> None:
    step = toy_step(Stack(2), _inputs())
    log = recorded(step, "blocks.0")
    gc.collect()
    assert all(s.death is not None for s in log.storages if s.birth is not None)


def test_a_tensor_that_a_model_holds_on_to_has_no_death() -> None:
    class Hoarder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH, bias=False)
            self.held: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            self.held.append(y.detach())
            return y

    log = recorded(toy_step(Hoarder(), _inputs()))
    (kept,) = [s for s in log.storages if s.birth is not None and s.death is None]
    assert (kept.size_bytes, log.ops[kept.op].module) == (NARROW, "layer")


def test_a_step_that_fails_leaves_the_model_as_it_was() -> None:
    class Failing(Stack):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            raise ValueError("no")

    step = toy_step(Failing(1), _inputs())
    with pytest.raises(ValueError, match="no"):
        record_real_step(step, "blocks.0", None, model="toy")
    assert not any("forward" in vars(module) for module in step.model.modules())
    assert torch.get_rng_state.__module__ == "torch.random"


# The file


def test_a_log_survives_its_file(tmp_path: Path) -> None:
    log = recorded(toy_step(Stack(2), _inputs()), "blocks.0..1", "blocks.0", "blocks.1")
    write_log(tmp_path / "trace" / "log.json.gz", log)
    assert read_log(tmp_path / "trace" / "log.json.gz") == log


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b"{"), gzip.compress(b"[]"), gzip.compress(b"{}")],
    ids=["empty", "no gzip", "no JSON", "a list", "no version"],
)
def test_a_file_that_is_no_log_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.json.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"log\.json\.gz"):
        read_log(path)
