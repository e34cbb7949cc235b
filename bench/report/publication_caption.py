"""Captions of figures and tables for print. They stand beside the pictures and not in them: a paper sets its own."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from bench.compare.types import ABSOLUTE, Comparison
from bench.frontier.types import Frontier
from bench.report.caption import caption
from bench.report.compare_data import CompareData, other_models
from bench.report.compare_words import difference_sentence, is_like_for_like
from bench.report.publication_data import PublicationData
from bench.report.publication_table import PublicationTable
from bench.spec import StudySpec


def frontier_caption(study: StudySpec, frontier: Frontier, prefix: str, data: PublicationData, beside: str = "") -> str:
    """Of the figure of one study.

    Args:
        prefix: taken off the names of placements.
        beside: what is to be said of compiled steps.
    """
    sentences = ["Step time against peak allocated memory of activation-checkpoint placements"]
    if data.panel is not None:
        sentences.append(
            "Line: the least time within a memory budget; numbers count the frontier from its highest peak"
        )
    if len(data.key) < data.num_frontier:
        sentences.append(f"{len(data.key)} of its {data.num_frontier} placements are numbered")
    if data.memory is not None:
        sentences.append("Upper and right axis: the same in absolute units")
    sentences += [f"Beyond the axis: {line.label}" for line in data.lines_beyond]
    if data.has_invalid:
        sentences.append("Crosses: measured and not valid, so not scored")
    told = [_joined(sentences), caption(study, frontier, prefix), beside.strip(), _joined(_not_scored(frontier))]
    return " ".join(part for part in told if part)


def strip_caption(study: StudySpec, frontier: Frontier, prefix: str, num_shown: int) -> str:
    """Of the figure of which units are replayed."""
    shown = "each frontier placement replays"
    if num_shown < len(frontier.frontier):
        shown = f"{num_shown} of {len(frontier.frontier)} frontier placements replay"
    return f"Which units {shown}, from the highest peak to the lowest. {caption(study, frontier, prefix)}"


def table_caption(study: StudySpec, frontier: Frontier, table: PublicationTable) -> str:
    """Of the table; the placements' common prefix is told, and the unit of peaks."""
    sentences = ["Placements on the frontier from the highest peak to the lowest"]
    if table.left_out:
        sentences.append(table.left_out)
    if table.memory in table.columns:
        sentences.append(f"{table.memory}: peak allocated memory")
    sentences.append("Saved: share of the peak that could move, which is what lies above the persistent state")
    return f"{_joined(sentences)} {caption(study, frontier, table.prefix)}"


def studies_caption(comparison: Comparison, data: CompareData, names: Mapping[str, str]) -> str:
    """Of the figure of several studies: what differs between them is said in words."""
    baseline = dataclasses.replace(comparison.studies[0], label=names[comparison.studies[0].label])
    sentences = [
        f"Step time against peak allocated memory of {_listed(list(names.values()))}",
        "Lines: the least time within a memory budget; rings: knees; bars: 95 % interval",
        "Relative: time over the study's own reference in the same rounds, peak over that of its own none",
    ]
    others = other_models(comparison)
    drawn = [pairing for pairing in comparison.pairings if pairing.label not in others]
    if any(not panel.is_relative for panel in data.fronts):
        unlike = [names[pairing.label] for pairing in drawn if not is_like_for_like(pairing, ABSOLUTE)]
        if unlike:
            sentences.append(f"Absolute values of {_listed(unlike)} are of another job than those of {baseline.label}")
    if others:
        sentences.append(f"There is no absolute scale for {_listed([names[label] for label in others])}: another model")
    model = "" if baseline.label == baseline.model else f" is {baseline.model} and"
    sentences.append(f"{baseline.label}{model} ran on {baseline.device}")
    for pairing in comparison.pairings:
        named = dataclasses.replace(pairing, label=names[pairing.label])
        sentences.append(difference_sentence(named, baseline))
    return _joined(sentences)


def _not_scored(frontier: Frontier) -> list[str]:
    counted = Counter(trial.outcome for trial in frontier.trials if trial.outcome != "ok")
    if not counted:
        return []
    total = sum(counted.values())
    what = ", ".join(f"{number} {outcome}" for outcome, number in counted.most_common())
    return [f"{total} placement{'s' if total > 1 else ''} {'are' if total > 1 else 'is'} not scored: {what}"]


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1] if words else ""]))


def _joined(sentences: list[str]) -> str:
    return " ".join(f"{sentence}." for sentence in sentences if sentence)
