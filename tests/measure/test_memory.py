"""The CPU allocator's peak of a step: exact on a toy, MemTracker's on real models, the same in any order."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker

from bench.measure import measure_memory
from bench.measure.memory import LeakingError, MemoryReading, OnPhase
from bench.placement.applying import apply
from bench.spec import Controls, ModelSpec, OptimizerSpec, RecipeSpec, WorkloadSpec
from bench.worker.bench import Bench
from tests.builders import make_controls

CPU = torch.device("cpu")
GPT2_CONTROLS = make_controls(
    model=ModelSpec(
        name="gpt2",
        target="models.gpt2",
        settings={"layers": 4, "width": 128, "heads": 4, "vocabulary": 512, "positions": 128},
    ),
    workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": 128}),
    optimizer=OptimizerSpec(settings={"lr": 1e-4}),
)
T5_CONTROLS = make_controls(
    model=ModelSpec(
        name="t5",
        target="models.t5",
        settings={"layers": 3, "width": 128, "feed_forward": 256, "heads": 4, "vocabulary": 512},
    ),
    workload=WorkloadSpec(micro_batch=4, shape={"sequence_length": 128, "target_length": 64}),
    optimizer=OptimizerSpec(settings={"lr": 1e-4}),
)
EVERY_BLOCK = {
    "gpt2": "transformer.h.0..3:each",
    "t5": "encoder.block.0..2:each+decoder.block.0..2:each",
}


def make_bench(controls: Controls, *texts: str) -> Bench:
    bench = Bench(controls, CPU, texts)
    bench.step.run()
    bench.keep_state()
    return bench


def weigh(bench: Bench, text: str) -> MemoryReading:
    bench.restore_state()
    with bench.placed(text):
        return measure_memory(bench.step.run, bench.persistent_tensors, CPU)


def weigh_with_memtracker(bench: Bench, text: str) -> tuple[int, int]:
    """(our peak, MemTracker's total) of the very same step."""
    bench.restore_state()
    tracker = MemTracker()
    step = bench.step
    tracker.track_external(step.model, step.optimizer, *step.batches[0].values())

    def run(on_phase: OnPhase) -> None:
        tracker.reset_mod_stats()
        step.run(on_phase)

    with warnings.catch_warnings(), apply(step.model, text, wiring=bench.wiring), tracker:
        warnings.simplefilter("ignore")  # its hooks outlive T5's modules
        reading = measure_memory(run, bench.persistent_tensors, CPU)
    return reading.peak_bytes, int(tracker.get_tracker_snapshot("peak")[CPU]["Total"])


@pytest.mark.parametrize("controls", [GPT2_CONTROLS, T5_CONTROLS], ids=["gpt2", "t5"])
@pytest.mark.parametrize("placed", [False, True], ids=["none", "every block"])
def test_peak_is_that_of_memtracker(controls: Controls, placed: bool) -> None:
    text = EVERY_BLOCK[controls.model.name] if placed else "none"
    bench = make_bench(controls, text)
    peak, tracked = weigh_with_memtracker(bench, text)
    assert peak == pytest.approx(tracked, rel=1e-3)
    # MemTracker's module hooks hold a boundary tensor of T5's decoder a little longer: what is measured is not watched.
    hidden = controls.workload.micro_batch * 128 * 128 * 4
    assert 0 <= peak - weigh(bench, text).peak_bytes <= hidden


@pytest.mark.parametrize(
    "recipe",
    [
        RecipeSpec(zero_grad="start"),
        RecipeSpec(set_to_none=False),
        RecipeSpec(zero_grad="start", set_to_none=False, clip_norm=1.0),
    ],
)
def test_peak_is_right_wherever_gradients_are_zeroed(recipe: RecipeSpec) -> None:
    bench = make_bench(make_controls(**{**_parts(GPT2_CONTROLS), "recipe": recipe}), "none")
    reading = weigh(bench, "none")
    assert reading.peak_bytes == pytest.approx(weigh_with_memtracker(bench, "none")[1], rel=1e-3)
    assert reading.retained_bytes > 0


def test_gradients_that_outlive_a_step_are_persistent() -> None:
    at_end = weigh(make_bench(GPT2_CONTROLS, "none"), "none")
    start = make_controls(**{**_parts(GPT2_CONTROLS), "recipe": RecipeSpec(zero_grad="start")})
    bench = make_bench(start, "none")
    at_start = weigh(bench, "none")
    gradients = sum(p.numel() * p.element_size() for p in bench.step.model.parameters())
    assert at_start.persistent_bytes == at_end.persistent_bytes + gradients
    assert at_start.peak_bytes == at_end.peak_bytes
    assert at_start.retained_bytes == at_end.retained_bytes


def test_peak_does_not_depend_on_the_order_of_trials() -> None:
    texts = ["none", "transformer.h.0..3:each", "transformer.h.0..1+transformer.h.2..3", "transformer.h.0..3.mlp:each"]
    bench = make_bench(GPT2_CONTROLS, *texts)
    forwards = {text: weigh(bench, text) for text in texts}
    backwards = {text: weigh(bench, text) for text in reversed(texts)}
    again = make_bench(GPT2_CONTROLS, *texts)
    assert forwards == backwards == {text: weigh(again, text) for text in texts}


def step_of(forward: Callable[[], torch.Tensor]) -> Callable[[OnPhase], None]:
    def run(on_phase: OnPhase) -> None:
        on_phase("forward")
        value = forward()
        on_phase("backward")
        value.backward()  # type: ignore[no-untyped-call]
        on_phase("end")

    return run


def test_a_toy_is_weighed_to_the_byte() -> None:
    x = torch.ones(1000, requires_grad=True)

    def forward() -> torch.Tensor:
        return x.exp().sum()

    def run(on_phase: OnPhase) -> None:
        x.grad = None
        step_of(forward)(on_phase)
        x.grad = None

    reading = measure_memory(run, lambda: [x], CPU)
    assert reading.persistent_bytes == 4000
    assert reading.retained_bytes == 4000 + 4  # exp's result, and the sum
    # In backward: exp's result, the loss, its gradient of one, and x's gradient; sum's gradient is an expanded view.
    assert reading.peak_bytes == 4000 + 4000 + 4 + 4 + 4000
    assert reading.peak_phase == "backward"


def test_a_step_that_keeps_something_is_leaking() -> None:
    kept: list[torch.Tensor] = []
    layer = nn.Linear(8, 8)

    def run(on_phase: OnPhase) -> None:
        layer.zero_grad()
        step_of(lambda: layer(torch.ones(1, 8)).sum())(on_phase)
        layer.zero_grad()
        kept.append(torch.ones(100))

    with pytest.raises(LeakingError, match="400 bytes more"):
        measure_memory(run, list, CPU)


def test_what_a_module_holds_to_its_next_call_is_part_of_the_peak() -> None:
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8, bias=False)
            self.seen = torch.zeros(0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = self.layer(x).detach() * 2
            return self.layer(x)

    def peak(model: Holding, *, holds: bool) -> MemoryReading:
        def run(on_phase: OnPhase) -> None:
            model.zero_grad()
            step_of(lambda: model(x).sum())(on_phase)
            model.zero_grad()
            if not holds:
                model.seen = torch.zeros(0)

        return measure_memory(run, lambda: [model.layer.weight, x], CPU)

    x = torch.ones(100, 8)
    held, dropped = peak(Holding(), holds=True), peak(Holding(), holds=False)
    seen = 100 * 8 * 4
    assert held.persistent_bytes - dropped.persistent_bytes == seen
    # The old one goes once the new one is there, so it weighs on what comes before, and no more than its bytes.
    assert 0 < held.peak_bytes - dropped.peak_bytes <= seen
    assert dropped.persistent_bytes == 8 * 8 * 4 + seen


def _parts(controls: Controls) -> dict[str, object]:
    return {"model": controls.model, "workload": controls.workload, "optimizer": controls.optimizer}
