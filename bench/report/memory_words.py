"""What the pictures of a step's memory say in words."""

from __future__ import annotations

from bench.report.memory_axis import SMALLEST_SHARE
from bench.report.memory_data import MemoryData, Peak
from bench.report.quantities import Unit
from bench.trace.log import NOWHERE

PHASE_NAMES = {"zero_grad": "zero grad"}
SHORT_PHASE_NAMES = {"forward": "fwd", "backward": "bwd", "optimizer": "opt", "zero_grad": "zero"}


def amount(num_bytes: float, unit: Unit) -> str:
    """`1,234.5 MiB`."""
    return f"{unit.of(num_bytes):,.{unit.decimals}f} {unit.name}"


def small_amount(num_bytes: float, unit: Unit) -> str:
    """As `amount`; what is there but too little for the unit's digits is `< 0.1 MiB`, never 0."""
    least = 10.0**-unit.decimals
    if 0 < unit.of(num_bytes) < least / 2:
        return f"< {least:.{unit.decimals}f} {unit.name}"
    return amount(num_bytes, unit)


def peak_of(data: MemoryData, unit: Unit) -> str:
    """`Peak 1,234.5 MiB`; what no allocator counted is a forecast wherever it stands."""
    return f"{'Forecast peak' if data.is_fake else 'Peak'} {amount(data.peak.bytes, unit)}"


def phase_names(phase: str, micro_batch: int, num_micro_batches: int) -> tuple[str, ...]:
    """From long to short, for a place that may be narrow."""
    number = f" {micro_batch + 1}" if num_micro_batches > 1 and phase in ("forward", "backward") else ""
    return f"{PHASE_NAMES.get(phase, phase)}{number}", SHORT_PHASE_NAMES.get(phase, phase[:3]) + number


def moment(peak: Peak, num_micro_batches: int = 1) -> str:
    """Where in the step the peak is: `backward, transformer.h.11.mlp, mul (op 431)`."""
    phase = phase_names(peak.phase, peak.micro_batch, num_micro_batches)[0]
    replay = f"replay of {peak.replayed}" if peak.replayed else ""
    op = f"{peak.op} (op {peak.op_number})" if peak.op_number != NOWHERE else ""
    return ", ".join(part for part in (phase, replay, peak.module, op) if part)


def caption(data: MemoryData, unit: Unit) -> str:
    """How to read the picture, and what is left out of it."""
    least = f"{100 * SMALLEST_SHARE:g} %"
    sentences = [
        f"{data.model} on {data.device}, placement {data.placement}",
        "Forecast: the step ran on tensors without memory" if data.is_fake else "As recorded",
        f"Along the axis each op takes one width and each allocation or release of at least {least} of the peak "
        "another: it shows order, not time",
        "A column shows its highest moment",
    ]
    if data.passes:
        sentences.append("Regions: their first pass grey, their replay hatched")
    if data.stack.floor_bytes:
        parts = ", ".join(f"{category} {small_amount(size, unit)}" for category, size in data.floor.items())
        floor = amount(data.stack.floor_bytes, unit)
        sentences.append(f"Not drawn, since it stays the whole step: {floor} ({parts}); the axis begins there")
    return " ".join(f"{sentence}." for sentence in sentences)
