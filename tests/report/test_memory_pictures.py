"""All pictures of a step at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.report.memory_pictures import write_memory_pictures
from tests.report.memory_logs import toy_log


def test_one_step_gives_four_files_and_two_steps_an_overlay_too(tmp_path: Path) -> None:
    one = write_memory_pictures(tmp_path / "one", toy_log(), name="memory")
    two = write_memory_pictures(tmp_path / "two", toy_log(replayed=True), other=toy_log(), name="h")
    assert [path.name for path in one] == ["memory.png", "memory.svg", "memory.html", "memory.snapshot.pickle"]
    assert [path.name for path in two] == [
        "h.png", "h.svg", "h.html", "h.snapshot.pickle", "h-overlay.png", "h-overlay.svg",
    ]  # fmt: skip
    assert all(path.stat().st_size > 1000 for path in one + two)
    assert one[0].read_bytes().startswith(b"\x89PNG")


def test_the_page_is_called_by_model_and_placement(tmp_path: Path) -> None:
    page = write_memory_pictures(tmp_path, toy_log(), name="memory")[2].read_text(encoding="utf-8")
    assert "<title>toy, none</title>" in page


def test_pictures_need_no_torch() -> None:
    modules = ", ".join(
        f"bench.report.memory_{name}" for name in ("timeline", "overlay", "html", "snapshot", "pictures")
    )
    script = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
