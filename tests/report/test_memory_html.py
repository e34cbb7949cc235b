"""The page of a step's memory: whole, closed to the net, and right when a browser runs it."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.report.memory_html import as_script_json, memory_html
from bench.trace.log import StepLog
from tests.report.memory_logs import KIB, LogBuilder, toy_log

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&{{data}}\u2028"
PEAK = (308 + 640) * KIB


class Page(html.parser.HTMLParser):
    """Texts by the id of the element that they are in, and all tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "link", "img"):
            self._open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, identity in self._open:
            if identity:
                self.texts[identity] = self.texts.get(identity, "") + data


def data_of(text: str) -> dict:  # type: ignore[type-arg]
    return json.loads(Page(text).texts["data"])


def shown(tmp_path: Path, text: str, address: str = "", do: str = "") -> Page:
    """The page as a browser leaves it, once it has run `do`; an error in it fails the test."""
    file = tmp_path / "memory.html"
    file.write_text(text.replace("</body>", f"<script>{do}</script></body>"), encoding="utf-8")
    arguments = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1200,900",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"{file.as_uri()}{address}",
    ]  # fmt: skip
    ran = subprocess.run(arguments, capture_output=True, check=True, timeout=200)
    said = ran.stderr.decode(errors="replace")
    assert "CONSOLE" not in said, [line for line in said.splitlines() if "CONSOLE" in line]
    return Page(ran.stdout.decode())


def test_the_log_is_in_the_page_and_gives_the_timeline_again() -> None:
    log = toy_log(replayed=True)
    data = data_of(memory_html(log, title="toy", other=toy_log()))
    assert [step["placement"] for step in data["steps"]] == ["h.0..1:each", "none"]
    step = data["steps"][0]
    tensors = step["tensors"]
    total = sum(size for size, birth in zip(tensors["bytes"], tensors["birth"], strict=True) if birth is None)
    line = [total]
    for event in step["events"]:
        line.append(line[-1] + (tensors["bytes"][event - 1] if event > 0 else -tensors["bytes"][-event - 1]))
    assert line == log.timeline()
    assert (step["peak"]["bytes"], step["peak"]["events"]) == log.peak()
    names = [data["categories"][index]["name"] for index in tensors["category"]]
    assert "boundary tensors" in names


def test_every_text_is_escaped() -> None:
    log = toy_log(model=NASTY)
    text = memory_html(log, title=NASTY)
    tags = [tag for tag, _ in Page(text).tags]
    assert "img" not in tags
    assert tags.count("script") == 2
    assert "alert(1)</script>" not in text
    assert data_of(text)["steps"][0]["model"] == data_of(text)["title"] == NASTY


def test_a_tensor_that_outlives_its_backward_is_told_in_the_page() -> None:
    b = LogBuilder()
    b.phase("forward")
    kept, freed = b.op("addmm", "h.0", (KIB, KIB))
    b.phase("backward")
    b.op("mm", "h.0", (), reads=(kept, freed))
    b.free(freed)
    b.phase("optimizer")
    b.phase("end")
    assert data_of(memory_html(b.log(), title="toy"))["steps"][0]["leaked"] == [kept]


def test_json_in_a_script_has_no_character_that_html_reads() -> None:
    text = as_script_json({"a": NASTY})
    assert not re.search(r"[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"a": NASTY}


def test_the_page_loads_nothing() -> None:
    text = memory_html(toy_log(), title="toy")
    assert not re.search(r"https?:|//cdn|@import|\bfetch\(|XMLHttpRequest|url\(", text)
    page = Page(text)
    (policy,) = [attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert not any({"src", "href"} & set(attributes) for _, attributes in page.tags)


def test_the_peak_is_told_in_words_for_those_who_see_no_picture() -> None:
    text = memory_html(toy_log(), title="toy")
    assert f"<td>{PEAK:,}</td>" in text
    assert "Peak 948.0 KiB in backward, head, cross_entropy_backward (op 8)." in text


def test_equal_logs_give_equal_pages() -> None:
    assert memory_html(toy_log(), title="toy") == memory_html(toy_log(), title="toy")


@needs_browser
def test_a_browser_shows_the_peak_and_all_that_is_alive_at_it(tmp_path: Path) -> None:
    log = toy_log()
    page = shown(tmp_path, memory_html(log, title=NASTY))
    assert "948.0 KiB" in page.texts["now"]
    assert f"after event {log.peak()[1]} of {len(log.events)}: backward" in page.texts["now"]
    assert "cross_entropy_backward in head" in page.texts["now"]
    alive = log.alive_at(log.peak()[1])
    assert page.texts["alive-count"].startswith(f"{len(alive)} blocks")
    assert "exp_avg of h.0.weight" in page.texts["alive"]
    assert page.texts["categories"].count("580.0 KiB") == 2  # now and at the peak
    assert "img" not in [tag for tag, _ in page.tags]
    (canvas,) = [attributes for tag, attributes in page.tags if tag == "canvas"]
    assert canvas["aria-valuenow"] == str(log.peak()[1])
    assert "948.0 KiB" in (canvas["aria-valuetext"] or "")


@needs_browser
def test_an_address_brings_back_a_tensor_and_says_who_made_and_who_keeps_it(tmp_path: Path) -> None:
    log = toy_log()
    kept = next(op for op in log.ops if op.name == "addmm").writes[0]
    page = shown(tmp_path, memory_html(log, title="toy"), f"#tensor={kept}&find=mlp&hide=parameters")
    said = page.texts["tensor"]
    assert "200.0 KiB (204,800 bytes)" in said
    assert "addmm in h.0.mlp" in said
    assert "toy/model.py:12 forward" in said
    assert "needed by mm in h.0.mlp" in said
    assert "parameters" not in page.texts["alive"]
    assert page.texts["found"] == f"{_num_with(log, 'mlp')} found"


@needs_browser
def test_keys_move_and_zoom_and_a_click_chooses_the_band_that_is_pointed_at(tmp_path: Path) -> None:
    log = toy_log(replayed=True)
    first_op = log.ops[0]
    script = """
        const press = (key, shiftKey = false) =>
            canvas.dispatchEvent(new KeyboardEvent('keydown', { key, shiftKey, bubbles: true }));
        const seen = [];
        const keys = ['p', 'Home', 'ArrowLeft', 'shift ArrowRight', 'ArrowRight', 'End', '+'];
        for (const key of keys) {
            press(key.replace('shift ', ''), key.startsWith('shift'));
            seen.push(view.at);
        }
        seen.push((view.to - view.from) / DATA.width);
        press('0');
        const box = canvas.getBoundingClientRect();
        const point = { clientX: box.left + 90, clientY: box.top + picture.top + picture.height - 3, pointerId: 1 };
        canvas.dispatchEvent(new PointerEvent('pointermove', point));
        canvas.dispatchEvent(new PointerEvent('pointerdown', point));
        canvas.dispatchEvent(new PointerEvent('pointerup', point));
        element('found').textContent = JSON.stringify(seen);
    """
    page = shown(tmp_path, memory_html(log, title="toy", other=toy_log()), do=script)
    end = len(log.events)
    after_op = first_op.begin + 1
    assert json.loads(page.texts["found"]) == [log.peak()[1], 0, 0, after_op, after_op + 1, end, end, 0.5]
    assert "h.0.weight" in page.texts["tensor"]  # parameters are at the foot of the stack
    assert "stays from step to step" in page.texts["tensor"]
    assert "parameters: h.0.weight" in page.texts["tip"]


@needs_browser
def test_two_steps_are_switched_and_a_boundary_says_what_it_is_kept_for(tmp_path: Path) -> None:
    log = toy_log(replayed=True)
    boundary = log.passes[1].boundary[0]
    page = shown(
        tmp_path, memory_html(log, title="toy", other=toy_log()), f"#at={log.phases[1].begin}&tensor={boundary}"
    )
    options = [attributes for tag, attributes in page.tags if tag == "option"]
    assert [option["value"] for option in options] == ["0", "1"]
    assert "boundary of h.1, kept for its replay" in page.texts["tensor"]
    other = shown(tmp_path, memory_html(log, title="toy", other=toy_log()), "#step=1")
    assert "none (as recorded)" in other.texts["headline"]


def _num_with(log: StepLog, part: str) -> int:
    return sum(part in log.ops[s.op].module for s in log.storages if s.op >= 0)
