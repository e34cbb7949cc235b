"""Two placements of one model: which tensors of the first's peak are gone at the second's, which were let go for
nothing, and what is there instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.explain.identity import Identity, identities
from bench.explain.modules import ModuleRow, module_rows
from bench.explain.peak import Moment, moment_at
from bench.explain.reading import Reading, read
from bench.explain.tensors import TensorEntry, TensorGroup, entries, group
from bench.explain.words import bytes_text
from bench.spec import ChainInfo
from bench.trace.categories import BOUNDARY, OF_REPLAY, SAVED, at_peak
from bench.trace.log import StepLog


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Tensors of one side, with nothing like them on the other."""

    bytes: int
    groups: tuple[TensorGroup, ...]
    modules: tuple[ModuleRow, ...]
    tensors: tuple[TensorEntry, ...]
    """The largest first."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    model: str
    first: str
    """Placement."""
    second: str
    first_peak_bytes: int
    second_peak_bytes: int
    first_moment: Moment
    second_moment: Moment
    gone: Difference
    """At the first's peak and not at the second's."""
    new: Difference
    """At the second's peak and not at the first's: second's peak = first's − gone + new, to the byte."""
    let_go_elsewhere: Difference
    """What the first's forward keeps for backward and the second's does not, and what was not at the first's peak: to
    let it go bought nothing there."""
    text: str


def compare(first: StepLog, second: StepLog, chains: Sequence[ChainInfo] = ()) -> Comparison:
    """
    Raises:
        ValueError: the logs are of different models or devices.
    """
    if (first.model, first.device) != (second.model, second.device):
        raise ValueError(
            f"{first.model} on {first.device} and {second.model} on {second.device} cannot be compared: give two "
            "placements of one model on one device"
        )
    one, two = read(first, chains), read(second, chains)
    names_one, names_two = identities(one), identities(two)
    peak_one, peak_two = at_peak(first, one.classes), at_peak(second, two.classes)
    alive_one, alive_two = first.alive_at(peak_one.at_event), second.alive_at(peak_two.at_event)
    gone = _without(alive_one, names_one, (names_two[s] for s in alive_two))
    new = _without(alive_two, names_two, (names_one[s] for s in alive_one))
    retained_one, retained_two = _retained(one), _retained(two)
    released = _without(retained_one, names_one, (names_two[s] for s in retained_two))
    elsewhere = sorted(set(released) - set(alive_one))
    gone_diff, new_diff = (
        _difference(one, gone, peak_one.at_event),
        _difference(two, new, peak_two.at_event),
    )
    assert peak_two.peak_bytes == peak_one.peak_bytes - gone_diff.bytes + new_diff.bytes, "each is on one side or both"
    elsewhere_diff = _difference(one, elsewhere, peak_one.at_event)
    return Comparison(
        model=first.model,
        first=first.placement,
        second=second.placement,
        first_peak_bytes=peak_one.peak_bytes,
        second_peak_bytes=peak_two.peak_bytes,
        first_moment=moment_at(one, peak_one.at_event),
        second_moment=moment_at(two, peak_two.at_event),
        gone=gone_diff,
        new=new_diff,
        let_go_elsewhere=elsewhere_diff,
        text=_text(peak_one.peak_bytes, peak_two.peak_bytes, gone_diff, new_diff, elsewhere_diff),
    )


def _text(first_bytes: int, second_bytes: int, gone: Difference, new: Difference, elsewhere: Difference) -> str:
    change = second_bytes - first_bytes
    direction = "lower" if change < 0 else "higher"
    begin = "The peaks are equal" if change == 0 else f"The second peak is {bytes_text(abs(change))} {direction}"
    text = f"{begin}: {bytes_text(gone.bytes)} of the first are gone, {bytes_text(new.bytes)} are there instead."
    if elsewhere.bytes:
        text += f" {bytes_text(elsewhere.bytes)} more were let go and had not been at the peak: that bought nothing."
    return text


def _retained(reading: Reading) -> list[int]:
    """What forwards keep for backward, in whatever phase it is released."""
    return [
        index
        for index, one in enumerate(reading.classes)
        if one.category in (SAVED, BOUNDARY) and one.kind != OF_REPLAY and not reading.is_rebuilt(index)
    ]


def _without(storages: Iterable[int], names: Sequence[Identity], others: Iterable[Identity]) -> list[int]:
    """Storages with nothing of their name among the others; each of those stands for one."""
    there = Counter(others)
    left: list[int] = []
    for storage in storages:
        if there[names[storage]]:
            there[names[storage]] -= 1
        else:
            left.append(storage)
    return left


def _difference(reading: Reading, storages: Sequence[int], events: int) -> Difference:
    tensors = entries(reading, storages, events)
    return Difference(
        bytes=sum(one.bytes for one in tensors),
        groups=group(tensors),
        modules=module_rows(reading, storages),
        tensors=tensors,
    )
