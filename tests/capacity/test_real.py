"""Real searches on the CPU under an artificial limit, held against a scan of real probes; what is claimed, trained on.

The scan trains at every size from the smallest to two beyond the answer, under the same meter and by the step alone.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.capacity.axis import controls_at
from bench.capacity.types import GLOBAL_BATCH, MICRO_BATCH, CapacitySpec, Probe
from bench.measure.memory_cpu import measure_on_cpu
from bench.placement import generate_placements
from bench.spec import GATE, ProtocolSpec
from bench.study import probe_worker
from bench.worker.bench import Bench
from tests.capacity.capacities import MIB, Ran, make_spec, run_spec

FURTHER_STEPS = 20
BEYOND = 2
Compose = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As the workers of these searches have; and what a bench froze is thawed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    gc.unfreeze()


@pytest.fixture
def spec_for(composed: Compose) -> Callable[..., CapacitySpec]:
    """The spec of a tiny model of the zoo, as the verb resolves it."""
    from bench.cli.request import controls_of

    def of(model: str, limit: int, axis: str = MICRO_BATCH, **changed: Any) -> CapacitySpec:
        options = composed([f"model={model}", "device=cpu", "device.threads=1"])
        controls = controls_of(options)
        workload = dataclasses.replace(controls.workload, **changed.pop("workload", {}))
        protocol = ProtocolSpec(rounds_min=3, rounds_max=3, warmup_steps_min=0, warmup_steps_max=0)
        controls = dataclasses.replace(controls, workload=workload, protocol=protocol)
        probe = probe_worker(controls)
        return make_spec(
            dataclasses.replace(controls, facts=probe.facts),
            axis,
            limit_bytes=limit,
            placements=generate_placements(options["placements"], probe.chains),
            placement_options=options["placements"],
            chains=probe.chains,
            **changed,
        )

    return of


def peak_of_steps(spec: CapacitySpec, placement: str, size: int, count: int) -> int:
    """Highest peak of the later step of each two, of one training from its start at this size, in this process."""
    bench = Bench(controls_at(spec, size), torch.device("cpu"), (placement,))
    with bench.placed(placement):
        readings = [
            measure_on_cpu(lambda mark: bench.step.run(mark), bench.persistent_tensors) for _ in range(count // 2)
        ]
    assert bench.step.optimizer_steps == count
    return max(reading.peak_bytes for reading in readings)


def check_against_scan(ran: Ran) -> None:
    spec = ran.answer.spec
    for row in ran.answer.rows:
        assert row.largest is not None, row.reason
        sizes = range(spec.axis.multiple, row.largest + BEYOND * spec.axis.multiple + 1, spec.axis.multiple)
        peaks = {size: peak_of_steps(spec, row.placement, size, 2) for size in sizes}
        assert row.largest == max(size for size, peak in peaks.items() if peak <= spec.limit_bytes), row.placement
        assert row.peak_allocated_bytes == peaks[row.largest]
    assert sum(row.num_probes for row in ran.answer.rows) <= 4 * len(ran.answer.rows)


def test_gpt2_reaches_the_same_sizes_by_search_as_by_scan(
    spec_for: Callable[..., CapacitySpec], tmp_path: Path
) -> None:
    spec = spec_for("gpt2-tiny", 9 * MIB)
    spec = dataclasses.replace(spec, placements=spec.placements[:2])
    ran = run_spec(spec, tmp_path)
    check_against_scan(ran)
    plain, each = ran.answer.rows
    assert plain.largest is not None
    assert each.largest is not None
    assert plain.largest < each.largest


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("model", "limit"), [("gpt2-tiny", 12 * MIB), ("unet-tiny", 40 * MIB), ("mixtral-tiny", 16 * MIB)]
)
def test_every_placement_equals_the_scan_with_few_probes_and_is_not_refuted_by_further_steps(
    spec_for: Callable[..., CapacitySpec], tmp_path: Path, model: str, limit: int
) -> None:
    ran = run_spec(spec_for(model, limit), tmp_path)
    check_against_scan(ran)
    for row in ran.answer.rows:
        assert row.largest is not None
        assert peak_of_steps(ran.answer.spec, row.placement, row.largest, FURTHER_STEPS) <= limit, row.placement


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "limit"), [("sequence-length", 12 * MIB), ("layers", 14 * MIB), ("width", 20 * MIB)])
def test_other_axes_are_searched_to_a_size_that_fits_beside_one_that_does_not(
    spec_for: Callable[..., CapacitySpec], tmp_path: Path, axis: str, limit: int
) -> None:
    spec = spec_for("gpt2-tiny", limit, axis, multiple=16 if axis == "sequence-length" else None, rounds=3)
    ran = run_spec(spec, tmp_path)
    for row in ran.answer.rows:
        assert row.ended in ("settled", "bound"), row.reason
        assert row.throughput is not None
    assert sum(row.num_probes for row in ran.answer.rows) <= 4 * len(ran.answer.rows)
    if axis == "layers":
        each = next(row for row in ran.answer.rows if row.generators == ("every block",))
        applied = {p.size: p.applied for p in ran.records.of(Probe) if p.placement == each.placement}
        assert applied[each.largest or 0] == f"transformer.h.0..{(each.largest or 0) - 1}:each"


@pytest.mark.slow
def test_with_the_global_batch_kept_every_probe_sees_the_same_samples(
    spec_for: Callable[..., CapacitySpec], tmp_path: Path
) -> None:
    spec = spec_for("gpt2-tiny", 10 * MIB, keep=GLOBAL_BATCH, workload={"micro_batch": 2, "accumulation": 12})
    ran = run_spec(spec, tmp_path)
    assert {probe.num_samples for probe in ran.records.of(Probe)} == {24}
    assert all(24 % probe.size == 0 and probe.accumulation == 24 // probe.size for probe in ran.records.of(Probe))
    assert len({row.largest for row in ran.answer.rows}) > 1


@pytest.mark.slow
def test_an_audit_comes_first_and_a_verdict_is_not_asked_for_again(
    spec_for: Callable[..., CapacitySpec], tmp_path: Path
) -> None:
    spec = spec_for("gpt2-tiny", 10 * MIB, audit=GATE)
    ran = run_spec(spec, tmp_path)
    kinds = [type(entry).__name__ for entry in ran.records.entries]
    assert kinds.count("Audited") == len(spec.placements) - 1
    placed = [entry.text for entry in spec.placements if entry.text != "none"]
    first = next(i for i, e in enumerate(ran.records.entries) if isinstance(e, Probe) and e.placement in placed)
    assert "Audited" not in kinds[first:]
    again = run_spec(dataclasses.replace(spec, key=spec.key), tmp_path)
    assert len(again.records.entries) == len(ran.records.entries)
