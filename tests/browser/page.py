"""Chromium from Debian's packages, driven by its own chromedriver over Selenium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.track.services import missing

T = TypeVar("T")
WAIT_S = 40
NO_ACCOUNTS = "/ajax-api/2.0/mlflow/users/current - "
"""What MLflow's UI asks of every server, and is told 404 by one without accounts."""
ASSISTANT = "//*[text()='MLflow Assistant']/following::button[3]"
"""What closes the panel that a new user sees beside every page."""
FLAGS = (
    *("--headless=new", "--window-size=1900,1050", "--hide-scrollbars", "--disable-gpu", "--disable-dev-shm-usage"),
    # Nothing but the page under test goes over the network.
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"),
    *("--disable-default-apps", "--disable-extensions", "--no-default-browser-check"),
)


@dataclass(frozen=True, kw_only=True)
class Page:
    driver: webdriver.Chrome
    shots: Path
    """Folder of screenshots."""

    def begin(self, url: str) -> None:
        """Opens `url` as somebody who was never there."""
        self.driver.get(f"{url}/health")
        self.driver.execute_script("localStorage.clear(); sessionStorage.clear()")
        self.driver.get("about:blank")
        self.errors()

    def open(self, address: str) -> None:
        # Over an empty page, since a change behind the # alone loads nothing anew.
        self.driver.get("about:blank")
        self.driver.get(address)

    def wait(self, what: str, condition: Callable[[], T]) -> T:
        """The first true value of `condition`; fails with `what` and the page's text."""
        try:
            return WebDriverWait(self.driver, WAIT_S, ignored_exceptions=[StaleElementReferenceException]).until(
                lambda _: condition()
            )
        except TimeoutException:
            self.shot("failed")
            pytest.fail(
                f"waited {WAIT_S} s for {what}; "
                f"{self.shots}/failed.png shows, at {self.driver.current_url}:\n{self.text()}"
            )

    def text(self) -> str:
        return str(self.driver.execute_script("return document.body.innerText"))

    def wait_for_text(self, *texts: str) -> str:
        """The page's text, once it holds all of `texts`."""
        return self.wait(
            f"{texts} on the page", lambda: (text := self.text()) and all(t in text for t in texts) and text
        )

    def run(self, script: str) -> object:
        return self.driver.execute_script(script)

    def click_text(self, text: str) -> None:
        """Clicks the innermost element that shows exactly `text`."""
        quoted = f"concat('{text}', '')" if "'" not in text else f'"{text}"'
        found = self.wait(
            f"{text!r} to click",
            lambda: [e for e in self.driver.find_elements(By.XPATH, f"//*[text()={quoted}]") if e.is_displayed()],
        )
        found[0].click()

    def errors(self) -> list[str]:
        """What the console said at level SEVERE since the last call: exceptions, and addresses that failed."""
        entries = self.driver.get_log("browser")
        severe = [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
        return [message for message in severe if NO_ACCOUNTS not in message]

    def shot(self, name: str) -> None:
        for button in self.driver.find_elements(By.XPATH, ASSISTANT):
            self.driver.execute_script("arguments[0].click()", button)
        self.driver.save_screenshot(str(self.shots / f"{name}.png"))


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        missing("Chromium (packages chromium and chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = str(binary)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
        options.add_argument(flag)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # which Chromium cannot set up for root
    shots = folder / "shots"
    shots.mkdir()
    browser = webdriver.Chrome(options=options, service=Service(str(driver)))
    try:
        yield Page(driver=browser, shots=shots)
    finally:
        browser.quit()
