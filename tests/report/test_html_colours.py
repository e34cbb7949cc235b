"""Every mark of the report can be seen on a dark screen, and on a light one is what the plots show."""

from __future__ import annotations

import pytest

from bench.report.families import FAMILIES, PLANNED
from bench.report.frontier_plot import family_markers
from bench.report.html_colours import DARK_BACKGROUND, DARK_CONTRAST_MIN, contrast, family_looks, on_dark, style_of
from bench.report.page import FAILURE_COLOUR


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # the known grey that just fails
    assert contrast("#123456", "#123456") == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_its_colour_on_light_and_is_seen_on_dark(family: str) -> None:
    (look,) = [look for look in family_looks(family_markers()) if look.name == family]
    assert (look.colour, look.shape) == family_markers()[family]
    assert contrast(look.on_dark, DARK_BACKGROUND) >= DARK_CONTRAST_MIN


def test_what_is_light_enough_stays_as_it_is() -> None:
    assert on_dark("#e69f00") == "#e69f00"
    assert on_dark("#7a0177") != "#7a0177"


def test_the_style_names_each_family_once_for_light_and_once_for_dark() -> None:
    looks = family_looks(family_markers())
    light, dark = style_of(looks, FAILURE_COLOUR).split("@media screen and (prefers-color-scheme: dark)")
    number = [look.name for look in looks].index(PLANNED)
    assert f".family-{number} {{ --mark: {looks[number].colour}; }}" in light
    assert f".family-{number} {{ --mark: {looks[number].on_dark}; }}" in dark
    assert f".failure {{ --mark: {FAILURE_COLOUR}; }}" in light
