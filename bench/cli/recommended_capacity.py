"""`recommend` for a capacity directory: the most throughput within its limit, or the fastest that reaches a size."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.capacity.axis import controls_at
from bench.capacity.store import read_capacity_records, read_spec
from bench.capacity.summary import summarise
from bench.capacity.types import MODEL, CapacitySpec
from bench.cli.answer import COMPLETE, PARTIAL, Answer
from bench.cli.entry import Options
from bench.cli.paths import shown
from bench.cli.settings_said import settings_text
from bench.decide import Settings, dropout_of, tool_settings
from bench.decide.capacity import Reaching, recommend_capacity
from bench.decide.capacity_words import choice_text
from bench.placement import Origin, parse_placement
from bench.placement.origin import Fingerprint
from bench.spec import SpecError, to_mapping

OF_STUDIES = ("budget", "card", "context", "slowdown")
"""Wishes that a capacity cannot answer: its limit was set when it was searched."""


def recommend_of_capacity(options: Options, directory: Path, save: Path | None) -> Answer:
    """Prints the choice and what was saved of it."""
    for name in OF_STUDIES:
        if options[name] is not None:
            raise SpecError(
                f"{name}: {directory.name} is a capacity, whose limit was set when it was searched; ask for size=N, or "
                "for nothing: the most throughput"
            )
    answer = summarise(read_spec(directory), read_capacity_records(directory))
    try:
        choice = recommend_capacity(answer, directory.name, _size(options["size"]))
    except ValueError as error:
        raise SpecError(f"size: {error}") from None
    print(choice_text(choice, answer))
    settings: Settings | None = None
    if options["format"] is not None and choice.chosen is not None:
        settings = tool_settings(choice.chosen.placement, answer.spec.chains, str(options["format"]))
        print(f"\n{settings_text(settings)}")
    if save is not None:
        _save(save, answer.spec, directory.name, choice.chosen)
    return Answer(
        exit_code=PARTIAL if choice.chosen is None else COMPLETE,
        data={
            "recommendation": to_mapping(choice),
            "settings": None if settings is None else to_mapping(settings),
            "saved": None if save is None or choice.chosen is None else str(save),
        },
    )


def origin_of_capacity(name: str, spec: CapacitySpec, chosen: Reaching) -> Origin:
    """Where the placement was found, with the controls at the size to train at."""
    controls = controls_at(spec, chosen.size)
    facts = controls.facts
    assert facts is not None, "a stored capacity was probed"
    is_same_model = spec.axis.kind != MODEL or chosen.size == spec.start
    return Origin(
        study=name,
        key=spec.key,
        model=controls.model.name,
        # That of the model at its start size: of another one it would be wrong.
        fingerprint=Fingerprint.of_recorded(spec.recorded) if is_same_model else None,
        units={chain.name: chain.units for chain in spec.chains} if is_same_model else {},
        precision=controls.precision,
        device=controls.device.kind,
        device_name=facts.device_name,
        versions=dict(facts.versions),
        micro_batch=controls.workload.micro_batch,
        shape=dict(controls.workload.shape),
        peak_allocated_bytes=chosen.peak_allocated_bytes if chosen.size == chosen.largest else None,
        dropout=dropout_of(controls.model),
    )


def nothing_saved(path: Path) -> str:
    old = "; what it holds is from before, and no answer to this" if path.exists() else ""
    return f"nothing saved in {shown(path)}: there is no placement to use{old}"


def _save(path: Path, spec: CapacitySpec, name: str, chosen: Reaching | None) -> None:
    if chosen is None:
        print(f"\n{nothing_saved(path)}")
        return
    origin = origin_of_capacity(name, spec, chosen)
    dataclasses.replace(parse_placement(chosen.placement), origin=origin).save(path)
    print(f"\nsaved: {shown(path)}")
    if spec.axis.kind == MODEL and chosen.size != spec.start:
        print(
            f"note: {spec.axis.name} changes the model; the saved text names units of the model at {spec.start}, and a "
            f"generator may name others at {chosen.size}: sweep that model, or check the text before it is used"
        )


def _size(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"size: {value!r} is no size along the axis of the capacity; write a whole number, such as 64")
    return value
