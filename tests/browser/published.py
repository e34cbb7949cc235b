"""The studies that the browser finds: a real one, one that stopped half-way, one with hostile names."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from bench.frontier import Frontier, build_frontier
from bench.records import read_records, read_study
from bench.track import Published, publish_study
from tests.track.synthetic import failed_trial, make_all, ok_trial, ok_trials

REFERENCE = Path(__file__).parents[2] / "results/reference/cpu"
REAL = "gpt2-19a93c5f"
HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>[a](javascript:window.pwned=1)'


@dataclass(frozen=True, kw_only=True)
class Studies:
    url: str
    real: Published
    real_frontier: Frontier
    half: Published
    """One placement measured, one out of memory, one not measured yet."""
    hostile: Published
    """Its model, device, placement and reason are HTML and Markdown that would do harm."""


def publish_studies(url: str, folder: Path) -> Studies:
    real_directory = folder / "studies" / REAL
    shutil.copytree(REFERENCE / REAL, real_directory)
    study = read_study(real_directory)
    frontier = build_frontier(study, read_records(real_directory))
    half = (ok_trial("none", 0), failed_trial("transformer.h.7", 7), failed_trial("transformer.h.8", 8, "pending", ""))
    hostile = (
        *ok_trials(1),
        replace(ok_trial("transformer.h.1", 1), placement=HOSTILE),
        failed_trial("h.2", 2, "error", HOSTILE),
    )
    return Studies(
        url=url,
        real=publish_study(real_directory, study, frontier, url),
        real_frontier=frontier,
        half=publish_study(*make_all(folder / "studies", half, model="half"), url),
        hostile=publish_study(*make_all(folder / "studies", hostile, model=HOSTILE, device=HOSTILE), url),
    )
