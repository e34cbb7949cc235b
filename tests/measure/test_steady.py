import pytest

from bench.measure import has_settled


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
    assert has_settled(times) is settled
