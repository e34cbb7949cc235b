"""`recommend`: the placement to use, from stored results; nothing runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from bench.cli.answer import COMPLETE, PARTIAL, Answer, out_path
from bench.cli.capacities import find_capacity
from bench.cli.entry import Options, config_folder, run_verb
from bench.cli.paths import shown
from bench.cli.recommended_capacity import nothing_saved, recommend_of_capacity
from bench.cli.request import refuse_unknown
from bench.cli.settings_said import settings_text
from bench.cli.studies import find_study
from bench.compare import Measured
from bench.compare.axes import plain_peak
from bench.decide import FORMATS, CardRoom, Wish, card_room, origin_of, recommend, tool_settings
from bench.decide.words import recommendation_text
from bench.frontier import load_frontier
from bench.placement import Origin, parse_placement
from bench.plan.budgets import budget_bytes
from bench.records import read_records, read_study
from bench.report.names import long_names, named
from bench.spec import SpecError, to_mapping
from bench.target.spec import target_from

KNOWN = ("results", "study", "budget", "card", "context", "slowdown", "size", "save", "format")
WISHES = ("budget", "card", "slowdown")
CONTEXT_BYTES = 600 * 2**20
"""Of a card that is given by its size alone: what an H100's context takes; older cards take less."""
PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def run(overrides: Sequence[str]) -> int:
    return run_verb("recommend", recommend_placement, overrides)


def recommend_placement(options: Options) -> Answer:
    refuse_unknown(options, KNOWN)
    asked = [name for name in WISHES if options[name] is not None]
    if len(asked) > 1:
        raise SpecError(f"{' and '.join(asked)}: ask for one of them")
    if options["format"] is not None and str(options["format"]) not in FORMATS:
        raise SpecError(f"format: {options['format']!r} is none of {', '.join(FORMATS)}")
    try:
        save = out_path(options["save"])
    except SpecError as error:
        raise SpecError(str(error).replace("out:", "save:", 1)) from None
    capacity = find_capacity(options["study"], options["results"])
    if capacity is not None:
        return recommend_of_capacity(options, capacity, save)
    if options["size"] is not None:
        raise SpecError("size: a study has one size; name a capacity directory, or leave size away")
    directory = find_study(options["study"], options["results"])
    study, records = read_study(directory), read_records(directory)
    measured = Measured(frontier=load_frontier(directory), study=study, records=records)
    card = _card(options, measured)
    answer = recommend(measured, _wish(options, measured, card))
    # The folder's own name, by which the study can be asked for again.
    answer = dataclasses.replace(answer, study=directory.name)
    names = long_names(measured.frontier.trials)
    print(named(recommendation_text(answer, card), names))
    if answer.chosen is not None and answer.chosen.placement in names:
        print(f"{names[answer.chosen.placement]} is {answer.chosen.placement}")
    if options["study"] is None:
        print(f"\nstudy: {shown(directory)}, the newest")
    chosen = answer.chosen
    settings = None
    if options["format"] is not None and chosen is not None:
        settings = tool_settings(chosen.placement, study.chains, str(options["format"]))
        print(f"\n{settings_text(settings)}")
    if save is not None:
        _save(
            save,
            None if chosen is None else chosen.placement,
            origin_of(directory.name, study, chosen, answer.reference),
        )
    return Answer(
        exit_code=PARTIAL if chosen is None else COMPLETE,
        data={
            "recommendation": to_mapping(answer),
            "card": None if card is None else to_mapping(card) | {"budget_bytes": card.budget_bytes},
            "settings": None if settings is None else to_mapping(settings),
            "saved": None if save is None or chosen is None else str(save),
        },
    )


def _wish(options: Options, measured: Measured, card: CardRoom | None) -> Wish:
    if card is not None:
        return Wish(budget_bytes=card.budget_bytes)
    if options["slowdown"] is not None:
        return Wish(slowdown=_share(options["slowdown"]))
    if options["budget"] is None:
        return Wish()
    text = str(options["budget"])
    plain, persistent = plain_peak(measured)[0], _persistent(measured)
    if text.strip().endswith("%") and (plain is None or persistent is None):
        raise SpecError("budget: nothing was measured that it could be a share of; give a size, such as 8GiB")
    return Wish(budget_bytes=budget_bytes(text, persistent_bytes=persistent or 0, peak_bytes=plain or 0))


def _persistent(measured: Measured) -> int | None:
    if measured.frontier.plain_forecast is not None:
        return measured.frontier.plain_forecast.persistent_bytes
    return min((t.persistent_bytes for t in measured.frontier.trials if t.persistent_bytes is not None), default=None)


def _card(options: Options, measured: Measured) -> CardRoom | None:
    card, context = options["card"], options["context"]
    if card is None:
        if context is not None:
            raise SpecError("context: it is taken off a card; say card=24GB as well")
        return None
    memory_bytes, context_bytes = _memory_of(str(card))
    if context is not None:
        context_bytes = _size("context", context)
    if context_bytes >= memory_bytes:
        raise SpecError(f"card: {card} is no more than the context of {context_bytes} bytes takes")
    assert measured.records is not None
    return card_room(measured.frontier, measured.records.forecasts, memory_bytes, context_bytes)


def _memory_of(card: str) -> tuple[int, int]:
    """(memory, context), of a card of conf/target or of a size."""
    names = sorted(path.stem for path in (config_folder() / "target").glob("*.yaml") if path.stem != "none")
    if card in names:
        figures: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / "target" / f"{card}.yaml"))
        target = target_from(figures["target"])
        return target.memory_bytes, target.context_bytes
    try:
        return _size("card", card), CONTEXT_BYTES
    except SpecError:
        raise SpecError(f"card: {card!r} is no size (24GB, 80GiB) and none of {', '.join(names)}") from None


def _size(option: str, value: Any) -> int:
    text = str(value)
    if "%" in text:
        raise SpecError(f"{option}: {text!r} is no size; write 24GB or 600MiB")
    try:
        return budget_bytes(text, persistent_bytes=0, peak_bytes=0)
    except SpecError:
        raise SpecError(f"{option}: {text!r} is no size; write 24GB or 600MiB") from None


def _share(value: Any) -> float:
    match = PERCENT.fullmatch(str(value).strip())
    if match is None:
        raise SpecError(f"slowdown: {value!r} is no share; write 5%")
    return float(match[1]) / 100


def _save(path: Path, chosen: str | None, origin: Origin) -> None:
    if chosen is None:
        print(f"\n{nothing_saved(path)}")
        return
    dataclasses.replace(parse_placement(chosen), origin=origin).save(path)
    print(f"\nsaved: {shown(path)}")
    if origin.fingerprint is None:
        print("note: the study does not hold its model's fingerprint, so apply() checks names and controls alone")
