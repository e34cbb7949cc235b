"""What CPU kernels take for themselves, rehearsed: forecasts of whole steps then have the measured bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from bench.trace.fake_ledger import FakeLedger, KernelBlocks
from bench.trace.values import with_value
from bench.trace.workspaces import Rehearsals, rehearse

aten = torch.ops.aten
FLOAT = 4


@pytest.fixture
def fake() -> Iterator[FakeTensorMode]:
    with FakeTensorMode() as mode:
        yield mode


def called(func: Any, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any], Any]:
    return func, args, kwargs, func(*args, **kwargs)


def scratch(kernel: KernelBlocks | None) -> list[int]:
    """Bytes of the blocks that are not handed out."""
    assert kernel is not None
    return [size for block, size in enumerate(kernel.sizes) if block not in kernel.results]


def test_batch_norm_takes_four_vectors_of_one_float_a_channel(fake: FakeTensorMode) -> None:
    # mean and variance of the batch are summed, and then scale and shift are folded, each in two buffers.
    x, per_channel = torch.empty(4, 24, 8, 8), torch.empty(24)
    call = called(aten.native_batch_norm.default, x, per_channel, per_channel, None, None, True, 0.1, 1e-5)
    kernel = rehearse(*call)
    assert scratch(kernel) == [24 * FLOAT] * len(scratch(kernel))
    assert kernel is not None
    assert [kernel.sizes[block] for block in kernel.results] == [x.numel() * FLOAT, 24 * FLOAT, 24 * FLOAT]


def test_a_convolution_takes_what_its_kernel_takes_for_real() -> None:
    shapes = ((2, 16, 24, 24), (32, 16, 3, 3))
    convolution = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    with torch.profiler.profile(profile_memory=True) as watched:
        made = aten.convolution.default(*(torch.zeros(shape) for shape in shapes), *convolution)
    allocated = sorted(e.extra_fields.alloc_size for e in allocations(watched) if e.extra_fields.alloc_size > 0)
    for shape in shapes:
        allocated.remove(torch.Size(shape).numel() * FLOAT)
    with FakeTensorMode():
        kernel = rehearse(*called(aten.convolution.default, *(torch.empty(shape) for shape in shapes), *convolution))
    assert made.shape == (2, 32, 24, 24)
    if kernel is None:  # a build whose convolutions take nothing
        assert allocated == [made.nbytes]
    else:
        assert sorted(kernel.sizes) == allocated


def allocations(watched: Any) -> list[Any]:
    found, waiting = [], list(watched.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        found += [event] if event.name == "[memory]" else []
        waiting += event.children
    return found


def test_a_kernel_is_rehearsed_once_for_all_calls_of_its_shapes(fake: FakeTensorMode) -> None:
    rehearsals = Rehearsals()
    first = rehearsals(*called(aten._softmax.default, torch.empty(8, 64), -1, False))
    ran: list[Any] = []
    x = torch.empty(8, 64)
    result = aten._softmax.default(x, -1, False)

    def counted(*args: Any, **kwargs: Any) -> Any:
        ran.append(args)
        return aten._softmax.default(*args, **kwargs)

    assert rehearsals(aten._softmax.default, (x, -1, False), {}, result) == first
    assert not ran


def test_ops_that_take_nothing_are_not_rehearsed(fake: FakeTensorMode) -> None:
    rehearsals = Rehearsals(max_bytes=0)  # whatever is rehearsed is refused, and told
    x, weight = torch.empty(8, 64), torch.empty(64, 32)
    for call in (
        called(aten.mm.default, x, weight),
        called(aten.mm.default, x, torch.empty(32, 64).t()),
        called(aten.add.Tensor, x, x),
        called(aten.gelu.default, x),
        called(aten.clone.default, x),
    ):
        assert rehearsals(*call) is None
    assert rehearsals.skipped == {}
    assert rehearsals(*called(aten._softmax.default, x, -1, False)) is None
    assert list(rehearsals.skipped) == ["_softmax"]


def test_a_matrix_that_blas_cannot_take_as_it_is_is_copied(fake: FakeTensorMode) -> None:
    spread = torch.empty(64, 64)[::2, ::2]
    assert scratch(rehearse(*called(aten.mm.default, spread, torch.empty(32, 8)))) == [32 * 32 * FLOAT]
    assert Rehearsals()(*called(aten.mm.default, spread, torch.empty(32, 8))) is not None


def test_operands_of_two_dtypes_are_copied_to_the_common_one(fake: FakeTensorMode) -> None:
    half, full = torch.empty(32, 32, dtype=torch.bfloat16), torch.empty(32, 32)
    assert scratch(Rehearsals()(*called(aten.add.Tensor, half, full))) == [32 * 32 * FLOAT]


@pytest.mark.parametrize(
    ("limits", "why"),
    [({"max_bytes": 1000}, "GiB are at hand"), ({"max_flops": 1000}, "TFLOP, which would take too long")],
)
def test_a_kernel_too_large_to_rehearse_is_named(fake: FakeTensorMode, limits: dict[str, int], why: str) -> None:
    rehearsals = Rehearsals(**limits)
    call = called(aten.bmm.default, torch.empty(4, 32, 32), torch.empty(4, 32, 32))
    assert rehearsals(*call) is None
    assert why in rehearsals.skipped["bmm"]


def test_a_kernel_whose_result_hangs_on_data_is_named_unless_the_data_are_known(fake: FakeTensorMode) -> None:
    mask = torch.empty(8, dtype=torch.bool)
    rehearsals = Rehearsals()
    pretended = torch.empty(3, 1, dtype=torch.int64)
    assert rehearsals(aten.nonzero.default, (mask,), {}, pretended) is None
    assert rehearsals.skipped == {"nonzero": "on zeros: the shape of its result depends on data"}
    with torch.utils._mode_utils.no_dispatch():
        value = torch.tensor([True, False, True, False, True, False, False, False])
    assert isinstance(mask, FakeTensor)
    known = Rehearsals()
    known(aten.nonzero.default, (with_value(mask, value),), {}, pretended)
    assert known.skipped == {}


def test_a_rehearsal_leaves_the_random_number_generator_alone(fake: FakeTensorMode) -> None:
    before = torch.default_generator.get_state()
    call = called(aten.native_dropout.default, torch.empty(64, 64), 0.5, True)
    rehearse(*call)
    with torch.utils._mode_utils.no_dispatch():
        assert torch.equal(torch.default_generator.get_state(), before)


@pytest.fixture
def ledger_after() -> Callable[[KernelBlocks], FakeLedger]:
    """A ledger that has seen `b = op(a)` run, as the recorder shows it, with the kernel's blocks."""

    def after(kernel: KernelBlocks) -> FakeLedger:
        a, b = torch.empty(10), torch.empty(20)
        ledger = FakeLedger("cpu", [("input", "a", a)], lambda *_: kernel)
        ledger.key(b)
        ledger.ran(None, (a,), {}, b)
        return ledger

    return after


def test_scratch_released_before_the_result_is_made_is_not_there_with_it(
    fake: FakeTensorMode, ledger_after: Callable[[KernelBlocks], FakeLedger]
) -> None:
    early = ledger_after(KernelBlocks(sizes=(100, 80), events=(1, -1, 2), results={1: 0}))
    late = ledger_after(KernelBlocks(sizes=(100, 80), events=(2, 1, -1), results={1: 0}))
    assert [highest(early), highest(late)] == [40 + 100, 40 + 80 + 100]


def highest(ledger: FakeLedger) -> int:
    storages, events = ledger.blocks()
    total = most = sum(s.size_bytes for s in storages if s.birth is None)
    for event in events[: [e > 0 for e in events].count(True) + 1]:
        total += storages[abs(event) - 1].size_bytes * (1 if event > 0 else -1)
        most = max(most, total)
    return most
