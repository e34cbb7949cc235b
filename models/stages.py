"""One number a stage, written as one setting: `depths: 3-4-6-3`."""

from __future__ import annotations

from bench.spec import SpecError


def numbers_of(text: str, setting: str) -> tuple[int, ...]:
    """Whole numbers of at least 1 joined by `-`; a lone number may be an int.

    Raises:
        SpecError: `text` is something else; names model.settings.`setting`.
    """
    parts = str(text).split("-")
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise SpecError(f"model.settings.{setting}: expected whole numbers of at least 1 joined by -, got {text!r}")
    return tuple(int(part) for part in parts)


def one_each(numbers: tuple[int, ...], setting: str, stages: tuple[int, ...], other: str) -> tuple[int, ...]:
    """Raises SpecError where `numbers` does not have one number for each of `stages`."""
    if len(numbers) != len(stages):
        raise SpecError(
            f"model.settings.{setting}: for {len(numbers)} stages, model.settings.{other} for {len(stages)}"
        )
    return numbers
