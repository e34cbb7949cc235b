"""Several studies in one figure: each by its name, told apart in grey print too, and what differs said in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from bench.compare import Comparison, Measured, compare
from bench.report.compare_data import compare_data
from bench.report.compare_plot import SHAPES, study_look
from bench.report.export import write_studies_export
from bench.report.publication_caption import studies_caption
from bench.report.publication_names import study_names
from bench.report.publication_studies import draw_studies_for_print
from bench.spec import ModelSpec
from tests.compare.studies import controls_with, failed, longer_sequences, measured, with_torch

COSTLY = {"none": (1.0, 1000), "blocks.0": (1.2, 600), "blocks.0..1:each": (1.45, 450)}
LARGE = {"none": (1.0, 90_000), "layers.0": (1.1, 40_000)}


def other_model(name: str) -> Measured:
    return measured(LARGE, seed=9, controls=controls_with(model=ModelSpec(name=name, target=f"models.{name}")))


CASES = {
    "longer": lambda: [measured(seed=1), measured(COSTLY, seed=2, controls=longer_sequences(512))],
    "three": lambda: [measured(seed=1), measured(COSTLY, seed=2, controls=longer_sequences(512)), other_model("big")],
    "other model": lambda: [measured(seed=1), other_model("big")],
    "same": lambda: [measured(seed=1), measured(COSTLY, seed=2)],
    "one failed": lambda: [measured(seed=1), failed()],
    "all failed": lambda: [failed(), failed()],
    "six alike": lambda: [measured(seed=seed, controls=longer_sequences(64 * (seed + 1))) for seed in range(6)],
}


def comparison_of(studies: Sequence[Measured]) -> Comparison:
    return compare(studies, "t")


def names_of(studies: Sequence[Measured]) -> dict[str, str]:
    return study_names(comparison_of(studies).studies, [one.frontier for one in studies])


def figure_of(case: str, columns: int) -> Figure:
    studies = CASES[case]()
    return draw_studies_for_print(compare_data(comparison_of(studies)), names_of(studies), columns)


def caption_of(case: str) -> str:
    studies = CASES[case]()
    comparison = comparison_of(studies)
    return studies_caption(comparison, compare_data(comparison), names_of(studies))


def names_in(figure: Figure) -> list[list[Annotation]]:
    return [[t for t in axes.texts if isinstance(t, Annotation)] for axes in figure.axes[1:]]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("case", ["longer", "three", "same", "six alike"])
def test_every_study_is_named_once_a_panel_inside_it_and_on_no_other_name(case: str, columns: int) -> None:
    figure = figure_of(case, columns)
    FigureCanvasAgg(figure).draw()
    for axes, names in zip(figure.axes[1:], names_in(figure), strict=True):
        boxes = [Text.get_window_extent(name) for name in names]
        assert len({name.get_text() for name in names}) == len(names)
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        frame = axes.get_window_extent()
        assert all(frame.x0 - 1 <= box.x0 and box.x1 <= frame.x1 + 1 for box in boxes)
    assert {name.get_text() for name in names_in(figure)[0]} == set(names_of(CASES[case]()).values())


def test_studies_are_called_by_what_tells_them_apart() -> None:
    assert list(names_of(CASES["longer"]()).values()) == ["sequence length 16", "sequence length 512"]
    assert list(names_of(CASES["other model"]()).values())[1] == "big"
    torches = [measured(seed=1, controls=with_torch(version)) for version in ("2.13.0", "2.14.0")]
    assert list(names_of(torches).values()) == ["torch 2.13.0", "torch 2.14.0"]
    mixed = [*CASES["longer"](), other_model("big")]
    assert list(names_of(mixed).values()) == ["toy, sequence length 16", "toy, sequence length 512", "big"]


def test_studies_that_differ_in_nothing_keep_their_folders_and_letters() -> None:
    names = list(names_of(CASES["same"]()).values())
    assert [name[-3:] for name in names] == ["(A)", "(B)"]


def test_what_differs_is_said_in_words_and_with_the_names_of_the_figure() -> None:
    said = caption_of("longer")
    assert "sequence length 512 differs from sequence length 16: sequence_length 16 → 512." in said
    assert "Absolute values of sequence length 512 are of another job" in said


def test_another_model_has_no_place_on_the_absolute_scale() -> None:
    alone = compare_data(comparison_of(CASES["other model"]()))
    assert [panel.is_relative for panel in alone.fronts] == [True]
    beside = compare_data(comparison_of(CASES["three"]()))
    assert [[front.label for front in panel.fronts] for panel in beside.fronts] == [["A", "B", "C"], ["A", "B"]]
    assert beside.fronts[1].x_limits[1] < 2_000
    assert "There is no absolute scale for big: another model." in caption_of("other model")


def test_the_first_studies_differ_in_lightness_as_in_colour_shape_and_dashes() -> None:
    looks = [study_look(index) for index in range(len(SHAPES))]
    assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(looks)
    assert all(a.dashes != b.dashes for a, b in itertools.pairwise(looks))
    grey = [sum(w * c for w, c in zip((0.299, 0.587, 0.114), to_rgb(look.colour), strict=True)) for look in looks]
    assert all(abs(a - b) > 0.2 for a, b in itertools.combinations(grey[:3], 2))
    assert all(abs(a - b) > 0.1 for a, b in itertools.pairwise(grey))


def test_nothing_measured_is_said() -> None:
    texts = [text.get_text() for text in figure_of("all failed", 2).axes[0].texts]
    assert texts == ["No placement was measured in any of the studies."]


@pytest.mark.parametrize("case", CASES)
def test_files_of_both_widths_and_their_captions_are_written(case: str, tmp_path: Path) -> None:
    studies = CASES[case]()
    paths = write_studies_export(tmp_path, comparison_of(studies), [one.frontier for one in studies])
    expected = {f"frontiers-{n}col.{suffix}" for n in (1, 2) for suffix in ("png", "svg", "pdf")}
    assert {path.name for path in paths} == expected | {"captions.txt", "figures.tex"}
    assert all(path.stat().st_size for path in paths)
