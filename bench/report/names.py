"""Names for placements whose text is too long to be read in a table or a plot: what yielded them stands for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.frontier.types import Trial
from bench.placement import family_of
from bench.report.families import PEER, PLANNED
from bench.report.labels import common_prefix, short_label

LONG = 48
"""Characters of a text, its common prefix taken off, that are still shown as they are."""
ID_SHOWN = 4


def long_names(trials: Sequence[Trial]) -> dict[str, str]:
    """Placement text → name, of long ones that were planned, by us or by a peer: `planned (1,234 MiB)`, `rotor
    (1,234 MiB)`. Names that several would share have the beginning of the placement's id behind them; a twin with
    @restore is named after the placement that it stands for."""
    prefix = common_prefix(trial.placement for trial in trials)
    found: dict[str, str] = {}
    for trial in trials:
        label = next((label for label in trial.generators if family_of(label) in (PLANNED, PEER)), None)
        if label is not None and len(short_label(trial.placement, prefix)) > LONG:
            found[trial.placement] = label.removeprefix(f"{PEER} ")
    for trial in trials:
        if trial.twin_of in found:
            found[trial.placement] = f"{found[trial.twin_of]} @restore"
    shared = Counter(found.values())
    ids = {trial.placement: trial.id[:ID_SHOWN] for trial in trials}
    return {text: name if shared[name] == 1 else f"{name} {ids[text]}" for text, name in found.items()}


def named(sentence: str, names: Mapping[str, str]) -> str:
    """A sentence with names where long placements stood."""
    for text in sorted(names, key=len, reverse=True):
        sentence = sentence.replace(text, names[text])
    return sentence
