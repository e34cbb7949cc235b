"""What a comparison says in sentences: the same in a terminal, under a figure and in MLflow."""

from __future__ import annotations

from collections.abc import Mapping

from bench.compare.types import (
    ABSOLUTE,
    NEITHER,
    ONLY_BASELINE,
    ONLY_CANDIDATE,
    RELATIVE,
    Against,
    AtBudget,
    Comparison,
    Entrant,
    Knee,
    Pairing,
    Win,
)
from bench.report.labels import Shortening, shorten
from bench.report.quantities import ABSENT, Unit, memory_unit, ratio_text, share_text

NO_KNEE = "no knee"


def shortenings(comparison: Comparison) -> dict[str, Shortening]:
    """Label of a study → how its placements are written; studies of one model share a way."""
    texts: dict[str, list[str]] = {}
    for entrant in comparison.studies:
        texts.setdefault(entrant.model, []).extend(point.placement for point in entrant.relative.points)
    ways = {model: shorten(of_model) for model, of_model in texts.items()}
    return {entrant.label: ways[entrant.model] for entrant in comparison.studies}


def explanations(ways: Mapping[str, Shortening]) -> list[str]:
    """How labels are read back; a sentence that is not about all studies begins with whose it is."""
    told: dict[str, list[str]] = {}
    for label, way in ways.items():
        for sentence in way.explanations():
            told.setdefault(sentence, []).append(label)
    return [
        sentence if len(labels) == len(ways) else f"{', '.join(labels)}: {sentence}"
        for sentence, labels in told.items()
    ]


def budget_text(row: AtBudget, scale: str, memory: Unit) -> str:
    """`60 %`, with its size on the absolute scale; `any` without a limit."""
    if row.share is None or row.budget is None:
        return "any"
    share = f"{100 * row.share:g} %"
    return share if scale == RELATIVE else f"{share} = {memory.text(row.budget)} {memory.name}"


def hypervolume_words(against: Against) -> str:
    """`×1.03 ± 0.02`, of the candidate over the baseline."""
    return ratio_text(against.hypervolume_ratio, against.hypervolume_interval)


def epsilon_words(label: str, baseline: str, against: Against) -> str:
    """What each frontier lacks to cover the other."""
    if against.candidate_epsilon is None or against.baseline_epsilon is None:
        return ""
    return (
        f"ε of {label} over {baseline} {against.candidate_epsilon:.3f}, of {baseline} over {label} "
        f"{against.baseline_epsilon:.3f}"
    )


def knee_words(knee: Knee, way: Shortening) -> str:
    """`h.0..10:each (72 % of resamples; h.0..11:each 20 %)`."""
    if knee.confidence is None or knee.none_share is None:
        return way.label(knee.placement) if knee.placement is not None else NO_KNEE
    others = [(way.label(other.placement), other.share) for other in knee.others]
    if knee.placement is not None and knee.none_share > 0:
        others.append((NO_KNEE, knee.none_share))
    also = [f"{name} {share_text(share, decimals=0)}" for name, share in others if share >= 0.005]
    name = way.label(knee.placement) if knee.placement is not None else NO_KNEE
    return f"{name} ({'; '.join([f'{share_text(knee.confidence, decimals=0)} of resamples', *also])})"


def win_words(win: Win, label: str, baseline: str, scale: str, memory: Unit) -> str:
    """`52 to 74 %: B faster`."""
    low, high = (memory_words(value, scale, memory) for value in (win.low, win.high))
    where = f"from {low}" if win.high is None else f"{low} to {high}"
    who = {
        ONLY_BASELINE: f"only {baseline} fits",
        ONLY_CANDIDATE: f"only {label} fits",
        NEITHER: "neither fits",
        "same": f"{label} and {baseline} the same",
        "unclear": "unclear",
    }.get(win.verdict, f"{label} {win.verdict}")
    return f"{where}: {who}"


def memory_words(value: float | None, scale: str, memory: Unit) -> str:
    if value is None:
        return ABSENT
    return f"{100 * value:.1f} %" if scale == RELATIVE else f"{memory.text(value)} {memory.name}"


def comparison_memory_unit(comparison: Comparison) -> Unit:
    return memory_unit(point.peak for entrant in comparison.studies for point in entrant.absolute.points)


def scale_heading(scale: str, comparison: Comparison) -> str:
    baseline = comparison.studies[0].label
    if scale == RELATIVE:
        return "relative: budgets are shares of each study's own none, times are over its own reference"
    unlike = [pairing.label for pairing in comparison.pairings if pairing.unlike]
    heading = f"absolute: budgets are shares of {baseline}'s none in bytes, times are milliseconds of sessions apart"
    return heading + (f" ({', '.join(unlike)}: not like for like)" if unlike else "")


def difference_sentence(pairing: Pairing, baseline: Entrant, shown: int = 8) -> str:
    """What differs in the controls, the baseline's value first."""
    if not pairing.differences:
        return f"{pairing.label} differs from {baseline.label} in no control"
    listed = "; ".join(pairing.differences[:shown])
    more = len(pairing.differences) - shown
    return f"{pairing.label} differs from {baseline.label}: {listed}" + (f" and {more} more" if more > 0 else "")


def commit_sentence(pairing: Pairing, comparison: Comparison) -> str:
    """The sources that measured both, where they are known and differ."""
    first, second = comparison.studies[0].git_commit, comparison.entrant(pairing.label).git_commit
    if first is None or second is None or first == second:
        return ""
    return f"commit {short_commit(first)} → {short_commit(second)}"


def short_commit(commit: str) -> str:
    """Eight digits, and whether the source differed from it."""
    digits, dash, rest = commit.partition("-")
    return digits[:8] + dash + rest


def scale_sentence(pairing: Pairing, baseline: Entrant, scale: str, memory: Unit) -> str:
    """The indicators and the wins of one candidate on one scale."""
    against = pairing.against(scale)
    parts = [f"{pairing.label}: hypervolume {hypervolume_words(against)} of {baseline.label}'s"]
    parts.append(epsilon_words(pairing.label, baseline.label, against))
    parts += [win_words(win, pairing.label, baseline.label, scale, memory) for win in against.wins]
    return "; ".join(part for part in parts if part)


def is_like_for_like(pairing: Pairing, scale: str) -> bool:
    return scale != ABSOLUTE or not pairing.unlike
