"""Variants of compiled code: each runs its own, what torch chose is noted, and what it trains is judged. Real compiles,
in this process, with the backend that needs no compiler."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from bench.records.compiled import AOT_EAGER, Compiled, CompiledRequest
from bench.spec import ModelSpec, ProtocolSpec, SpecError, WorkloadSpec, from_mapping
from bench.worker.bench import Bench
from bench.worker.compiled import Request, answer, check_request
from bench.worker.compiled_audit import CompiledAudits
from bench.worker.compiled_measure import Runnable, attempt, time_in_rounds, weigh
from bench.worker.compiled_program import Partition, compile_model, compiled_on, many_variants
from tests.toy_study import toy_controls

WIDTH, BATCH = 64, 512
DROPS = """
import torch
from torch import nn


def block(width, dropout):
    wide = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(dropout))
    return wide.append(nn.Linear(4 * width, width)).append(nn.Dropout(dropout))


def build(dropout=0.0, cut=""):
    class Model(nn.Sequential):
        def forward(self, x):
            if cut == "loop":
                for part in self:
                    torch._dynamo.graph_break()
                    x = part(x)
                return x
            x = self[0](x)
            if cut:
                torch._dynamo.graph_break()
            return self[2](self[1](x))

    return Model(*(block(64, dropout) for _ in range(3)))


def batch(model, workload):
    return torch.ones(workload.micro_batch, 64)


def loss(model, batch):
    return model(batch).square().mean()
"""


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with warnings.catch_warnings(), many_variants():
        warnings.simplefilter("ignore")  # of torch's own compiler
        yield
    torch._dynamo.reset()


def model_of(layers: int = 3) -> nn.Sequential:
    torch.manual_seed(0)

    def block() -> nn.Sequential:
        return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    return nn.Sequential(*(block() for _ in range(layers)))


def trained(model: nn.Module, partition: Partition) -> list[torch.Tensor]:
    """Gradients of a step with the partition's code on the model."""
    model.zero_grad()
    with compiled_on(model, compile_model(model, partition, AOT_EAGER)):
        model(torch.ones(BATCH, WIDTH)).square().mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_a_smaller_budget_saves_less_and_recomputes_more_and_trains_the_same() -> None:
    model = model_of()
    partitions = [Partition(budget, "dp") for budget in (None, 1.0, 0.4, 0.0)]
    gradients = [trained(model, partition) for partition in partitions]
    saved = [partition.saved_bytes for partition in partitions]
    again = [partition.recomputed_ops for partition in partitions]
    assert saved == sorted(saved, reverse=True)
    assert again == sorted(again)
    assert len({partition.digest for partition in partitions}) == 4, "each compiled anew, none ran another's code"
    assert (again[0], saved[-1]) == (0, 0), "nothing recomputed without a budget, only inputs kept at budget 0"
    for one in gradients[1:]:
        assert all(torch.equal(a, b) for a, b in zip(one, gradients[0], strict=True))


def test_solvers_that_choose_alike_come_to_one_program() -> None:
    model = model_of()
    dp, greedy = Partition(0.9, "dp"), Partition(0.9, "greedy")
    trained(model, dp)
    trained(model, greedy)
    assert dp.digest == greedy.digest


def test_more_variants_than_torch_compiles_by_default_are_all_compiled() -> None:
    model = model_of(layers=1)
    partitions = [Partition(index / 10, "greedy") for index in range(10)]
    for partition in partitions:
        trained(model, partition)
    assert [partition.graphs for partition in partitions] == [1] * 10


def test_the_model_is_itself_again_after_the_block() -> None:
    model = model_of(layers=1)
    names = [name for name, _ in model.named_modules()]
    with (
        pytest.raises(ValueError, match="stop"),
        compiled_on(model, lambda *_: (_ for _ in ()).throw(ValueError("stop"))),
    ):
        model(torch.ones(1, WIDTH))
    assert model._compiled_call_impl is None
    assert [name for name, _ in model.named_modules()] == names


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"solvers": ("knapsack",)}, r"compiled: 'knapsack' is not one of dp, greedy, ilp"),
        ({"solvers": ("dp",), "backend": "eager"}, r"compiled_backend: 'eager' is not one of aot_eager_decomp"),
        ({"solvers": ("dp",), "budgets": (1.5,)}, r"compiled_budgets: expected shares from 0 to 1, got 1.5"),
        ({"solvers": ()}, r"give at least one solver"),
    ],
)
def test_a_wrong_request_is_told_in_the_options_words(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        check_request(CompiledRequest(**asked))


@pytest.fixture
def source(tmp_path: Any) -> str:
    file = tmp_path / "drops.py"
    file.write_text(DROPS)
    return str(file)


def request_of(source: str, asked: CompiledRequest, **settings: Any) -> Request:
    controls = toy_controls(
        model=ModelSpec(name="drops", target=source, settings=settings),
        workload=WorkloadSpec(micro_batch=BATCH),
        protocol=ProtocolSpec(rounds_min=3, rounds_max=3, warmup_steps_min=0, warmup_steps_max=0),
    )
    return Request(controls=controls, compiled=asked)


def bench_of(source: str, **settings: Any) -> Bench:
    bench = Bench(request_of(source, CompiledRequest(), **settings).controls, torch.device("cpu"), ())
    bench.step.run()
    bench.keep_state()
    return bench


def runnable(bench: Bench, name: str, budget: float) -> Runnable:
    return Runnable(name=name, compiled=compile_model(bench.step.model, Partition(budget, "dp"), AOT_EAGER))


def test_every_round_has_one_sample_of_each_program_and_the_plain_step(source: str) -> None:
    bench = bench_of(source)
    programs = [Runnable(name="eager"), runnable(bench, "a", 1.0), runnable(bench, "b", 0.0)]
    for program in programs:
        with program.on(bench):
            bench.step.run()
    protocol = ProtocolSpec(rounds_min=3, rounds_max=4, warmup_steps_min=0, warmup_steps_max=0, target_half_width=1e-9)
    timed = time_in_rounds(bench, programs, protocol, None)
    assert (timed.stopped, timed.failed) == ("rounds", {})
    assert [sorted(s.program for s in timed.samples if s.round == number) for number in range(4)] == [
        ["a", "b", "eager"]
    ] * 4
    assert len({tuple(s.program for s in timed.samples if s.round == n) for n in range(4)}) > 1, "shuffled"


def test_a_program_that_fails_in_the_rounds_leaves_the_others(source: str) -> None:
    bench = bench_of(source)
    calls = iter(range(100))

    def breaks(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == 1:
            raise RuntimeError("out of memory: you tried to allocate 8 EiB")
        return bench.step.model._call_impl(*args, **kwargs)

    programs = [Runnable(name="eager"), runnable(bench, "a", 1.0), Runnable(name="b", compiled=breaks)]
    timed = time_in_rounds(
        bench, programs, ProtocolSpec(rounds_min=3, rounds_max=3, warmup_steps_min=0, warmup_steps_max=0), None
    )
    assert set(timed.failed) == {"b"}
    assert len([s for s in timed.samples if s.program == "a"]) == 3


def test_a_failure_in_compiling_is_an_outcome_and_the_plain_step_runs_on(source: str) -> None:
    bench = bench_of(source)
    bad = Runnable(name="bad", compiled=compile_model(bench.step.model, Partition(0.05, "no such solver"), AOT_EAGER))

    def step() -> None:
        with bad.on(bench):
            bench.step.run()

    outcome, reason = attempt(bench, step)
    assert outcome == "error"
    assert "no such solver" in reason
    assert weigh(bench, Runnable(name="eager"))["peak_allocated_bytes"] > 0


def test_an_audit_passes_what_replays_exactly_and_finds_masks_that_are_drawn_again(source: str) -> None:
    exact, drops = bench_of(source), bench_of(source, dropout=0.1)
    audits = CompiledAudits(exact, AOT_EAGER, is_limited=False)
    assert audits.verdict("a", runnable(exact, "a", 0.0).compiled or print) == ("valid", "")
    audits = CompiledAudits(drops, AOT_EAGER, is_limited=False)
    assert audits.verdict("b", runnable(drops, "b", 1.0).compiled or print)[0] == "valid"
    outcome, reason = audits.verdict("c", runnable(drops, "c", 0.0).compiled or print)
    assert (outcome, reason.split(":")[0]) == ("invalid", "rng")
    assert drops.step.model._compiled_call_impl is None


def test_a_forward_in_pieces_is_measured_and_noted(source: str) -> None:
    found = compiled(source, CompiledRequest(solvers=("dp",), budgets=(1.0,), audited=False), cut="once")
    assert [choice.graphs for choice in found.choices] == [2]
    (note,) = found.notes
    assert "was compiled in 2 pieces, each of which was given the budget; what lies between runs as it is: " in note


def test_a_forward_that_torch_compiles_nothing_of_is_unsupported(source: str) -> None:
    found = compiled(source, CompiledRequest(solvers=("dp",), budgets=(1.0,)), cut="loop")
    assert [(choice.outcome, choice.program) for choice in found.choices] == [("unsupported", None)]
    assert [program.name for program in found.programs] == ["eager"]
    assert "graph" in found.notes[0].lower()


def test_solvers_share_what_is_compiled_at_the_ends(source: str) -> None:
    asked = CompiledRequest(solvers=("dp", "greedy"), budgets=(0.5, 0.0), audited=False)
    found = compiled(source, asked)
    assert [(c.solver, c.budget) for c in found.choices] == [(s, b) for s in asked.solvers for b in (1.0, 0.5, 0.0)]
    named = {(choice.solver, choice.budget): choice.program or "" for choice in found.choices}
    for end in (1.0, 0.0):
        assert named["dp", end] == named["greedy", end]
    assert {program.name for program in found.programs} == {"eager", *named.values()}
    assert {sample.program for sample in found.samples} == {program.name for program in found.programs}
    peaks = {program.name: program.peak_allocated_bytes for program in found.programs}
    assert peaks[named["dp", 0.5]] < peaks[named["dp", 1.0]]  # type: ignore[operator]
    assert found.stopped in ("rounds", "tight")


def compiled(source: str, asked: CompiledRequest, **settings: Any) -> Compiled:
    return from_mapping(Compiled, answer(request_of(source, asked, **settings))["compiled"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_gpt2_with_dropout_is_valid_at_budget_1_alone_under_every_solver() -> None:
    torch._dynamo.reset()
    settings = {"layers": 1, "width": 64, "heads": 4, "vocabulary": 512, "positions": 128, "dropout": 0.1}
    controls = toy_controls(
        model=ModelSpec(name="gpt2-tiny", target="models.gpt2", settings=settings),
        workload=WorkloadSpec(micro_batch=2, shape={"sequence_length": 64}),
    )
    asked = CompiledRequest(solvers=("dp", "greedy", "ilp"), budgets=(1.0, 0.4, 0.0))
    found = from_mapping(Compiled, answer(Request(controls=controls, compiled=asked))["compiled"])
    standing = {program.name: program.standing[0] for program in found.programs}
    assert {(c.budget, standing[c.program or ""]) for c in found.choices} == {
        (1.0, "ok"),
        (0.4, "invalid"),
        (0.0, "invalid"),
    }
    assert all(choice.graphs == 1 for choice in found.choices)
