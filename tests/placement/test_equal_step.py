"""Every generator on GPT-2 and T5: the placed step is the plain step, regions pass as predicted, in the known order."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from bench.placement import Placement, parse_placement
from bench.placement.applying import apply
from bench.placement.region_forward import in_replay
from bench.placement.wiring import record_wiring
from bench.worker.effect import predict
from tests.tiny_models import MODELS, placement_texts

CASES = [(name, text) for name in MODELS for text in placement_texts(name)]
IDS = [f"{name} {text[:60]}" for name, text in CASES]
Step = tuple[torch.Tensor, dict[str, torch.Tensor | None], torch.Tensor]


def run_step(model: nn.Module, loss: Callable[[], torch.Tensor]) -> Step:
    model.zero_grad()
    torch.manual_seed(7)
    value = loss()
    value.backward()  # type: ignore[no-untyped-call]
    grads = {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
    return value.detach(), grads, torch.get_rng_state()


def assert_same_step(step: Step, plain: Step, exact: bool) -> None:
    assert torch.equal(step[0], plain[0])
    assert step[1].keys() == plain[1].keys()
    for name, grad in plain[1].items():
        got = step[1][name]
        assert (got is None) == (grad is None), name
        if grad is not None and got is not None:
            if exact:
                assert torch.equal(got, grad), name
            else:
                torch.testing.assert_close(got, grad, msg=name)
    assert torch.equal(step[2], plain[2])


@pytest.mark.parametrize(("name", "text"), CASES, ids=IDS)
def test_step_equals_the_plain_one_and_passes_are_as_predicted(name: str, text: str) -> None:
    tiny = MODELS[name]
    # Without RNG state, dropout would be replayed with other draws: that is what the option means. And with dropout the
    # CPU's attention takes the math path, where there is no attention op to keep.
    plain_draws = "no-rng" in text or text.endswith("keep.attention")
    model = tiny.build(dropout=0.0 if plain_draws else 0.1)
    loss = tiny.loss(model)
    plain = run_step(model, loss)
    placement = parse_placement(text)
    wiring = record_wiring(model, sorted({u for r in placement.regions for u in r.units}), loss)
    with apply(model, placement, wiring=wiring) as applied:
        step = run_step(model, loss)
    # Reentrant regions run a backward of their own, so the gradient of a tensor that several blocks share (T5's
    # position bias, its encoder output) is summed in another order.
    assert_same_step(step, plain, exact=not (name == "t5" and "reentrant" in text))
    for region, counts in applied.counts:
        expected = predict(placement, region, wiring, accumulation=1)
        assert counts.replays == expected.replays == 1
        assert expected.entries_min <= counts.first_passes + counts.replays <= expected.entries_max
        assert region.keeps or not counts.kept_calls
    # T5's encoder has no attention op to keep: its position bias needs a gradient, so the math path is taken.
    assert any(counts.kept_calls for _, counts in applied.counts) == any(region.keeps for region in placement.regions)
    assert_same_step(run_step(model, loss), plain, exact=True)


@pytest.mark.parametrize(
    "text", ["transformer.h.0..5", "transformer.h.0..2+transformer.h.0..5:each+transformer.h.3..5"]
)
def test_a_deep_copy_runs_its_own_blocks(text: str) -> None:
    tiny = MODELS["gpt2"]
    model = tiny.build()
    loss = tiny.loss(model)
    plain = run_step(model, loss)
    with apply(model, text, forward=loss) as applied:
        twin = copy.deepcopy(model)
        model.zero_grad()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        applied.reset_counts()
        assert_same_step(run_step(twin, tiny.loss(twin)), plain, exact=True)
        assert all(counts.first_passes == 0 for _, counts in applied.counts)


def replay_order(text: str) -> tuple[list[int], Placement]:
    """Indices of GPT-2's blocks in the order in which backward enters them again."""
    tiny = MODELS["gpt2"]
    model = tiny.build()
    loss = tiny.loss(model)
    order: list[int] = []

    def watched(index: int, forward: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **kwargs: object) -> object:
            if in_replay():
                order.append(index)
            return forward(*args, **kwargs)

        return run

    for index, block in enumerate(model.transformer.h):  # type: ignore[union-attr, arg-type]
        block.forward = watched(index, block.forward)
    with apply(model, text, forward=loss) as applied:
        loss().backward()  # type: ignore[no-untyped-call]
    return order, applied.placement


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("none", []),
        # One by one, last first.
        ("transformer.h.0..5:each", [5, 4, 3, 2, 1, 0]),
        ("transformer.h.0..4:every.2", [4, 2, 0]),
        # A span is replayed forwards as a whole (Chen et al. 2016, algorithm 1).
        ("transformer.h.0..5", [0, 1, 2, 3, 4, 5]),
        ("transformer.h.0..2+transformer.h.3..5", [3, 4, 5, 0, 1, 2]),
        # Nested: the outer replay stops before its last block, whose own replay comes next; then the others, last first
        # (the binomial order of Griewank & Walther 2000 for one level of recursion).
        ("transformer.h.0..5+transformer.h.0..5:each", [0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0]),
        (
            "transformer.h.0..2+transformer.h.0..5:each+transformer.h.3..5",
            [3, 4, 5, 4, 3, 0, 1, 2, 1, 0],
        ),
    ],
)
def test_blocks_are_replayed_in_the_known_order(text: str, order: list[int]) -> None:
    assert replay_order(text)[0] == order
