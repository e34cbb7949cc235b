"""The report in a real Chromium, from the disk: pointing, clicking, keys, sorting, and names that would do harm."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from bench.device.lock import DIRECTORY_VARIABLE
from bench.frontier import load_frontier
from bench.records import Records, read_study
from bench.records.forecast import CHECKED
from bench.records.timeline import Timelines
from bench.report.html_report import html_report, write_html_report
from bench.spec import GATE
from bench.study import run_study
from tests.browser.page import Page
from tests.browser.published import HOSTILE
from tests.records.test_timelines import timeline_of
from tests.report.examples import failed, frontier_of, gpt2_eight, ok, sixty, study_of
from tests.study.test_forecasting import custom_controls
from tests.toy_study import EACH, toy_study

WIDE, NARROW = (1280, 900), (700, 900)
MODEL = """
import torch
from torch import nn


def block():
    return nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def build():
    return Chain()


def batch(model, workload):
    return torch.ones(workload.micro_batch, 512, 32)


def loss(model, batch):
    return model(batch).square().mean()
"""
PLACEMENTS = ("none", EACH, "blocks.0..1", "blocks.0..2:each")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four blocks, really forecast, audited and measured."""
    folder = tmp_path_factory.mktemp("measured")
    study = dataclasses.replace(toy_study(PLACEMENTS, custom_controls(folder, MODEL)), audit=GATE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DIRECTORY_VARIABLE, str(folder / "locks"))
        return run_study(study, folder / "results", lambda event: None, forecast=CHECKED)


@pytest.fixture
def report(browser: Page) -> Iterator[Page]:
    """The browser at its usual size, with nothing said on its console yet; that nothing is, is asserted at the end."""
    browser.driver.get("about:blank")
    browser.errors()
    browser.driver.set_window_size(*WIDE)
    yield browser
    assert browser.errors() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    browser.driver.set_window_size(1900, 1050)
    shots = os.environ.get("BOUNDARY_BENCH_SCREENSHOTS")
    if shots:
        shutil.copytree(browser.shots, Path(shots), dirs_exist_ok=True)


def opened(page: Page, directory: Path, folder: Path, address: str = "") -> None:
    path = write_html_report(folder, directory, read_study(directory), load_frontier(directory))
    page.open(path.as_uri() + address)


def shown(page: Page, text: str, folder: Path) -> None:
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    page.open(path.as_uri())


def eight() -> str:
    return html_report(study_of(gpt2_eight()), gpt2_eight(), Records(entries=()), Timelines())


def marks(page: Page) -> dict[str, WebElement]:
    """By placement."""
    found = page.driver.find_elements(By.CSS_SELECTOR, "#plot .mark")
    return {str(page.run(f"return PLACEMENTS[{mark.get_attribute('data-index')}].text")): mark for mark in found}


def text_of(page: Page, identity: str) -> str:
    return page.driver.find_element(By.ID, identity).text


def rows(page: Page) -> list[list[str]]:
    return [
        [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in page.driver.find_elements(By.CSS_SELECTOR, "#table tbody tr")
        if row.is_displayed()
    ]


def choose(page: Page, placement: str) -> None:
    """In the table: in the plot of a real study marks may cover each other."""
    index = page.run(f"return PLACEMENTS.findIndex(({{ text }}) => text === '{placement}')")
    page.driver.find_element(By.CSS_SELECTOR, f"#table tr[data-index='{index}'] button").click()


def point_at(page: Page, mark: WebElement) -> None:
    ActionChains(page.driver, duration=0).move_to_element(mark).perform()


def test_pointing_at_a_mark_tells_placement_time_interval_peak_and_verdict(report: Page, tmp_path: Path) -> None:
    shown(report, eight(), tmp_path)
    point_at(report, marks(report)["transformer.h.0..11.mlp:each"])
    assert text_of(report, "tip").splitlines() == [
        "★ 3 h.0..11.mlp:each",
        "time ×1.12 ± 0.02 (1.1 to 1.14), 5.52 s",
        "peak 2516 MiB, 77.8 %; saved 39.7 %",
        "slower, on the frontier, its knee (97 % sure)",
    ]
    point_at(report, report.driver.find_element(By.ID, "headline"))
    assert not report.driver.find_element(By.ID, "tip").is_displayed()


def test_a_click_shows_the_evidence_and_the_memory_of_a_real_study(
    report: Page, measured: Path, tmp_path: Path
) -> None:
    opened(report, measured, tmp_path)
    (peak,) = [t.peak_allocated_bytes for t in load_frontier(measured).trials if t.placement == EACH]
    assert peak is not None
    choose(report, EACH)
    report.wait("the placement's evidence", lambda: EACH in text_of(report, "detail-title"))
    evidence = text_of(report, "evidence")
    for told in (
        "equal to the bit in",
        "3 paired rounds in 1 execution",
        f"({peak:,} bytes)",
        "Expected beside measured",
    ):
        assert told in evidence, evidence
    assert text_of(report, "peak").startswith("Forecast peak ")
    assert "in backward" in text_of(report, "peak")
    assert "the measured one." in text_of(report, "origin")
    names = [item.text.splitlines()[0] for item in report.driver.find_elements(By.CSS_SELECTOR, "#categories li")]
    assert {"parameters", "boundary tensors", "gradients"} <= set(names)
    assert report.driver.find_elements(By.CSS_SELECTOR, "#timeline path.outline"), "the plain step stands behind"
    report.shot("report-click")


def test_a_moment_of_the_timeline_is_read_by_pointer_and_by_keys(report: Page, measured: Path, tmp_path: Path) -> None:
    opened(report, measured, tmp_path)
    choose(report, EACH)
    timeline = report.driver.find_element(By.ID, "timeline")
    at_peak = text_of(report, "peak")
    timeline.send_keys(Keys.HOME)
    assert text_of(report, "peak").endswith("in forward")
    assert timeline.get_attribute("aria-valuenow") == "0"
    timeline.send_keys(Keys.ARROW_RIGHT)
    assert timeline.get_attribute("aria-valuenow") == "1"
    timeline.send_keys("p")
    assert text_of(report, "peak") == at_peak
    ActionChains(report.driver, duration=0).move_to_element(timeline).perform()
    assert report.driver.find_elements(By.CSS_SELECTOR, "#timeline .moment")
    assert 0 < int(timeline.get_attribute("aria-valuenow") or 0) < int(timeline.get_attribute("aria-valuemax") or 0)


def test_a_step_that_allocates_nothing_is_a_flat_picture(report: Page, tmp_path: Path) -> None:
    flat = dataclasses.replace(timeline_of("none"), by_category={"parameters": (1500,)}, peak_point=0)
    timelines = Timelines(placements={"none": flat})
    shown(report, html_report(study_of(gpt2_eight()), gpt2_eight(), Records(entries=()), timelines), tmp_path)
    choose(report, "none")
    assert text_of(report, "peak").startswith("Forecast peak 1,500 B in forward")
    assert report.driver.find_elements(By.CSS_SELECTOR, "#timeline path[data-category='parameters']")


def test_the_plot_is_worked_by_keys_alone(report: Page, tmp_path: Path) -> None:
    shown(report, eight(), tmp_path)
    report.run("document.querySelector('#plot .mark[tabindex=\"0\"]').focus()")
    focused = report.driver.switch_to.active_element
    focused.send_keys(Keys.HOME)
    lowest = report.driver.switch_to.active_element
    assert "h.0..11:each" in (lowest.get_attribute("aria-label") or "")
    assert "h.0..11:each" in text_of(report, "tip")
    lowest.send_keys(Keys.ARROW_RIGHT)
    second = report.driver.switch_to.active_element
    assert second.get_attribute("data-index") != lowest.get_attribute("data-index")
    second.send_keys(Keys.ENTER)
    assert second.get_attribute("aria-pressed") == "true"
    assert text_of(report, "detail-title") in (second.get_attribute("aria-label") or "").replace("★ ", "").replace(
        "● ", ""
    )
    report.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not report.driver.find_element(By.ID, "tip").is_displayed()


def test_the_table_sorts_by_numbers_and_what_is_not_known_stays_last(report: Page, tmp_path: Path) -> None:
    frontier = sixty()
    shown(report, html_report(study_of(frontier), frontier, Records(entries=()), Timelines()), tmp_path)
    peak = next(
        b for b in report.driver.find_elements(By.CSS_SELECTOR, "#table th button") if b.text.startswith("peak")
    )
    for sign in (1, -1):
        peak.click()
        peaks = [float(row[5]) if row[5] != "–" else None for row in rows(report)]
        known = [value for value in peaks if value is not None]
        assert known == sorted(known, key=lambda value: sign * value)
        assert peaks[: len(known)] == known
        assert len(known) == 48


def test_the_filter_narrows_table_and_plot_alike(report: Page, tmp_path: Path) -> None:
    shown(report, eight(), tmp_path)
    report.driver.find_element(By.ID, "filter").send_keys("every.2 slower")
    assert text_of(report, "found") == "1 of 8"
    assert [row[1] for row in rows(report)] == ["h.0..11:every.2"]
    bright = [text for text, mark in marks(report).items() if "faded" not in (mark.get_attribute("class") or "")]
    assert bright == ["transformer.h.0..11:every.2"]


def test_plot_and_table_point_at_the_same_placement(report: Page, tmp_path: Path) -> None:
    shown(report, eight(), tmp_path)
    point_at(report, marks(report)["none"])
    near = report.driver.find_elements(By.CSS_SELECTOR, "#table tr.near")
    assert [row.find_elements(By.TAG_NAME, "td")[1].text for row in near] == ["none (reference)"]
    row = report.driver.find_elements(By.CSS_SELECTOR, "#table tbody tr")[0]
    row.find_element(By.TAG_NAME, "button").click()
    chosen = report.driver.find_element(By.CSS_SELECTOR, "#plot .mark.chosen")
    assert chosen.get_attribute("data-index") == row.get_attribute("data-index")


def test_axes_are_relative_or_absolute_and_dragging_looks_closer(report: Page, tmp_path: Path) -> None:
    shown(report, eight(), tmp_path)
    relative = text_of(report, "plot")
    assert "×1.1" in relative
    assert " %" in relative
    report.driver.find_element(By.CSS_SELECTOR, "#axes input[value='1']").click()
    assert "Peak allocated memory (MiB)" in text_of(report, "plot")
    everything = len(marks(report))
    knee = marks(report)["transformer.h.0..11.mlp:each"]
    drag = ActionChains(report.driver, duration=0).move_to_element_with_offset(knee, -60, -40)
    drag.click_and_hold().move_by_offset(120, 80).release().perform()
    assert 0 < len(marks(report)) < everything
    report.driver.find_element(By.ID, "whole").click()
    assert len(marks(report)) == everything


def test_the_address_brings_back_what_was_chosen(report: Page, tmp_path: Path) -> None:
    shown(report, eight(), tmp_path)
    marks(report)["none"].click()
    report.driver.find_element(By.CSS_SELECTOR, "#axes input[value='1']").click()
    report.open(report.driver.current_url)
    assert text_of(report, "detail-title").endswith("none")
    assert "Peak allocated memory (MiB)" in text_of(report, "plot")


def test_names_that_would_do_harm_do_nothing(report: Page, tmp_path: Path) -> None:
    nasty = dataclasses.replace(
        ok("transformer.h.1", 2000, 1.1), placement=HOSTILE, id=HOSTILE, generators=(HOSTILE,), verdict=HOSTILE,
        audit=HOSTILE, peak_phase=HOSTILE, forecast_method=HOSTILE, forecast_peak_bytes=2**30,
    )  # fmt: skip
    frontier = frontier_of(
        ok("none", 3000, 1.0, "none", width=0), nasty, failed("h.2", HOSTILE, HOSTILE),
        model=HOSTILE, device=HOSTILE, study=HOSTILE, notes=(HOSTILE,),
    )  # fmt: skip
    timelines = Timelines(
        placements={HOSTILE: dataclasses.replace(timeline_of(HOSTILE), peak_op=HOSTILE, peak_module=HOSTILE)}
    )
    plain = study_of(frontier_of(ok("none", 3000, 1.0, "none", width=0)))
    shown(report, html_report(plain, frontier, Records(entries=()), timelines), tmp_path)
    mark = marks(report)[HOSTILE]
    point_at(report, mark)
    assert HOSTILE in text_of(report, "tip")
    mark.click()
    assert HOSTILE in text_of(report, "detail-title")
    assert HOSTILE in text_of(report, "peak")
    report.driver.find_element(By.ID, "filter").send_keys("<script>")
    assert len(rows(report)) == 1 + 1  # the measured one, and the one that is not scored
    assert report.run("return window.pwned === undefined")
    assert report.run("return document.querySelector('main img, main script, header img, main a') === null")


def test_the_policy_stops_a_script_that_got_in_all_the_same(browser: Page, tmp_path: Path) -> None:
    text = eight().replace("</main>", "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'></main>")
    shown(browser, text, tmp_path)
    assert browser.run("return window.pwned === undefined")
    assert [error for error in browser.errors() if "Content Security Policy" in error]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (700, "light"), (1280, "dark"), (700, "dark")])
def test_nothing_sticks_out_at_any_width_in_light_and_dark(
    report: Page, measured: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    report.driver.set_window_size(width, 1000)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        opened(report, measured, tmp_path)
        assert report.run("return document.documentElement.scrollWidth <= window.innerWidth")
        background = report.run("return getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 28)"}[scheme]
        report.shot(f"report-{width}-{scheme}")
    finally:
        report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_on_paper_all_placements_are_there_and_the_controls_are_not(report: Page, tmp_path: Path) -> None:
    shown(report, eight(), tmp_path)
    report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not report.driver.find_element(By.ID, "filter").is_displayed()
        assert len(rows(report)) == 8
        assert report.run(
            "const box = document.querySelector('.scroll'); return box.scrollHeight <= box.clientHeight + 1"
        )
    finally:
        report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
