"""What each of several studies is called in one figure: by what tells it apart, in the words of its controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.compare.differences import MODEL_NAME, difference_words, option_words
from bench.compare.types import Entrant
from bench.frontier.types import Frontier

Flat = Mapping[str, object]
"""Dotted option → value, as `Frontier.controls`."""
LAST = ("facts.", "protocol.")
"""What begins so names a study only where no other option does: it follows from the machine, or says how it was
measured."""
SAYS_ITSELF = ("precision", "optimizer.name", "facts.device_name")
"""Options whose value needs no word before it: `bf16-autocast`, `adamw`."""


def study_names(entrants: Sequence[Entrant], frontiers: Sequence[Frontier]) -> dict[str, str]:
    """Label of a study → its name, all of them different.

    It is the model where models differ. Of studies of one model it is the first control whose values are all different
    (`sequence length 512`, `bf16-autocast`), behind the model where there are other models too. Where there is no such
    control it is the study's folder, with the label where that is not enough.

    Args:
        entrants: of a comparison, in its order.
        frontiers: theirs.
    """
    names: dict[str, str] = {}
    models = dict.fromkeys(entrant.model for entrant in entrants)
    for model in models:
        own = [(e, f.controls) for e, f in zip(entrants, frontiers, strict=True) if e.model == model]
        told = _told_apart([controls for _, controls in own])
        for index, (entrant, _) in enumerate(own):
            if told is None:
                names[entrant.label] = _folder(entrant, entrants)
            else:
                parts = [model if len(models) > 1 or len(own) == 1 else "", told[index]]
                names[entrant.label] = ", ".join(part for part in parts if part)
    return {entrant.label: names[entrant.label] for entrant in entrants}


def _told_apart(controls: Sequence[Flat]) -> list[str] | None:
    """A text for each, all different; empty for a single one, None where no control differs everywhere."""
    if len(controls) == 1:
        return [""]
    for option in _differing(controls):
        said = [_said(option, one) for one in controls]
        if len(set(said)) == len(said):
            return said
    return None


def _differing(controls: Sequence[Flat]) -> list[str]:
    """Options of which any study has another value than the first, in the order in which they name a study best."""
    first, *others = controls
    options = dict.fromkeys(option for one in controls for option in one if option != MODEL_NAME)
    found = [
        option
        for option in options
        if any(difference_words(_only(option, first), _only(option, other)) for other in others)
    ]
    return sorted(found, key=lambda option: _rank(option, first))


def _rank(option: str, controls: Flat) -> tuple[int, bool]:
    group = next((place for place, start in enumerate(LAST, start=1) if option.startswith(start)), 0)
    return group, not isinstance(controls.get(option), str)


def _only(option: str, controls: Flat) -> Flat:
    return {option: controls.get(option)}


def _said(option: str, controls: Flat) -> str:
    value = controls.get(option)
    words = option_words(option).removeprefix("protocol ").replace("_", " ")
    if value is None or value is False:
        return f"no {words}"
    if value is True:
        return words
    if option in SAYS_ITSELF:
        return str(value)
    return f"{words} {value:g}" if isinstance(value, float) else f"{words} {value}"


def _folder(entrant: Entrant, entrants: Sequence[Entrant]) -> str:
    is_only = [other.study for other in entrants].count(entrant.study) == 1
    return entrant.study if is_only else f"{entrant.study} ({entrant.label})"
