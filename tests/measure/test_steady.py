import pytest
import torch

from bench.measure import allocator_state, has_settled


@pytest.mark.parametrize(
    ("times", "settled"),
    [
        ([], False),
        ([10, 10, 10], False),
        ([10, 10, 10, 10], True),
        ([40, 20, 10, 10], False),
        ([40, 20, 10, 10, 10, 10], True),
        ([10, 10, 10, 30], True),  # one slow step is not warming
        ([10, 10, 12, 12], True),  # slower is not warming either
        ([10, 10, 9.6, 9.6], True),
        ([10, 10, 9.4, 9.4], False),
    ],
)
def test_warm_up_ends_when_steps_stop_getting_faster(times: list[float], settled: bool) -> None:
    assert has_settled(times, [(1,)] * len(times)) is settled


@pytest.mark.parametrize(("states", "settled"), [([1, 2, 3, 3], True), ([1, 1, 1, 2], False), ([3, 3, 2, 2], True)])
def test_warm_up_goes_on_while_the_allocator_grows(states: list[int], settled: bool) -> None:
    assert has_settled([10, 10, 10, 10], [(state,) for state in states]) is settled


def test_allocator_state_grows_with_what_the_process_holds() -> None:
    before = allocator_state(torch.device("cpu"))
    held = torch.ones(64 * 2**20)
    assert allocator_state(torch.device("cpu"))[0] >= before[0] + 32
    del held
