"""MLflow's UI as a person sees it: the studies, the figure, the saved view and the comparison of placements."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest

from bench.track.view import SECTION, view_link
from tests.browser.page import Page
from tests.browser.published import HOSTILE, Studies
from tests.track.stores import children_of, parent_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PEAK, STEP_TIME = "memory/peak_allocated_mib", "time/step_time_ms"
POINTS = "return document.querySelectorAll('.scatterlayer .point, .scatterlayer .points path').length"
OWN_CHARTS = re.compile(r"/static-files/.* Error: <\w+> attribute [\w-]+: ")
FIGURE = (
    "const found = [...document.querySelectorAll('img')].find(image => image.src.includes('get-artifact'));"
    "return found && found.complete ? found.naturalWidth : 0"
)


def errors_of(page: Page) -> list[str]:
    """But those of MLflow's own charts: while their panel has no size yet they draw with NaN or less than nothing for
    the width of things, and again once it has."""
    return [error for error in page.errors() if not OWN_CHARTS.search(error)]


def run_page(studies: Studies, run_id: str, experiment_id: str) -> str:
    return f"{studies.url}/#/experiments/{experiment_id}/runs/{run_id}"


def test_the_experiment_of_a_model_and_device_is_found_by_name(page: Page, studies: Studies) -> None:
    page.open(f"{studies.url}/#/experiments")
    page.click_text("Model training")
    page.click_text(studies.real.experiment_name)
    page.wait_for_text("gpt2-19a93c5f")
    assert errors_of(page) == []


def test_the_saved_view_shows_studies_with_the_columns_of_a_frontier(page: Page, studies: Studies) -> None:
    page.open(f"{studies.url}/{view_link(studies.real.experiment_id, charts=False)}")
    text = page.wait_for_text("gpt2-19a93c5f", STEP_TIME, PEAK, "frontier/confidence")
    assert "Error loading shared view state" not in text
    page.shot("mlflow-experiment")
    assert errors_of(page) == []


def test_the_saved_view_draws_step_time_against_memory_for_every_measured_placement(
    page: Page, studies: Studies
) -> None:
    measured = [trial for trial in studies.real_frontier.trials if trial.outcome == "ok"]
    page.open(f"{studies.url}/{view_link(studies.real.experiment_id, charts=True)}")
    page.wait_for_text(SECTION)
    page.wait("a point a placement", lambda: page.run(POINTS) == len(measured))
    page.shot("mlflow-view")
    assert errors_of(page) == []


def test_a_study_shows_its_frontier_and_its_figure(page: Page, studies: Studies) -> None:
    page.open(run_page(studies, studies.real.parent_run_id, studies.real.experiment_id))
    page.click_text("Show more")
    text = page.wait_for_text("step time / reference", "peak allocated (MiB)", "Reference: none")
    for placement in studies.real_frontier.frontier:
        assert placement in text
    page.wait("the figure", lambda: int(str(page.run(FIGURE))) > 500)
    page.shot("mlflow-study")
    assert errors_of(page) == []


def test_the_link_in_a_study_leads_to_the_saved_view(page: Page, studies: Studies) -> None:
    page.open(run_page(studies, studies.real.parent_run_id, studies.real.experiment_id))
    page.click_text("Show more")
    page.wait_for_text("Compare with all studies of this experiment")
    link = "[...document.querySelectorAll('a')].find(a => a.innerText.startsWith('Compare with all studies'))"
    address = page.run(f"return {link}.href")
    assert address == f"{studies.url}/{view_link(studies.real.experiment_id, charts=True)}"


def test_the_figure_is_among_the_artifacts(page: Page, studies: Studies) -> None:
    address = run_page(studies, studies.real.parent_run_id, studies.real.experiment_id)
    page.open(f"{address}/artifacts/plots/frontier.png")
    shown = "return [...document.querySelectorAll('img')].some(image => image.complete && image.naturalWidth > 500)"
    page.wait(
        "the picture",
        lambda: page.run(shown) or int(str(page.run("return document.querySelectorAll('canvas').length"))),
    )
    assert "frontier.png" in page.text()


def test_mlflows_own_comparison_draws_the_placements(page: Page, studies: Studies) -> None:
    runs = placements(studies)
    address = f"{studies.url}/#/compare-runs?runs={quote(json.dumps(runs))}&experiments="
    page.open(address + quote(json.dumps([studies.real.experiment_id])))
    page.wait_for_text("Parallel Coordinates Plot", "Scatter Plot", "Comparing")
    text = page.wait_for_text("transformer.h.0..10:each")
    assert f"Comparing {len(runs)} Runs" in text
    page.wait("parallel coordinates", lambda: page.run("return document.querySelectorAll('.parcoords').length > 0"))
    page.shot("mlflow-compare")
    assert errors_of(page) == []


def test_a_study_that_stopped_half_way_reads_as_such(page: Page, studies: Studies) -> None:
    page.open(f"{studies.url}/{view_link(studies.half.experiment_id, charts=False)}")
    page.wait_for_text(parent_of(studies.half).info.run_name or "")
    page.open(run_page(studies, studies.half.parent_run_id, studies.half.experiment_id))
    text = page.wait_for_text("Incomplete: 2 of 3 placements have no answer", "not measured yet")
    assert "Failed" in text
    page.shot("mlflow-half-way")


def test_hostile_names_are_text(page: Page, studies: Studies) -> None:
    hostile = studies.hostile
    for address in (
        f"{studies.url}/{view_link(hostile.experiment_id, charts=False)}",
        run_page(studies, hostile.parent_run_id, hostile.experiment_id),
        *(run_page(studies, run, hostile.experiment_id) for run in placements(studies, hostile)),
    ):
        page.open(address)
        page.wait_for_text(HOSTILE[:30])
        assert page.run("return window.pwned === undefined")
        assert page.run('return document.querySelector(\'img[src="x"], a[href^="javascript"]\') === null')
    page.shot("mlflow-hostile")


def placements(studies: Studies, published: object = None) -> list[str]:
    """Run ids of a study's measured placements; of the hostile study all that are named so."""
    if published is not None:
        return [run.info.run_id for run in children_of(studies.hostile).values() if HOSTILE in str(run.data)]
    return [run.info.run_id for run in children_of(studies.real).values() if run.info.status == "FINISHED"]
