"""`fail_if`: a comparison as a check for somebody's own CI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.compare.types import (
    ABSOLUTE,
    NEITHER,
    ONLY_BASELINE,
    ONLY_CANDIDATE,
    RELATIVE,
    AtBudget,
    Comparison,
    Pairing,
)
from bench.spec import SpecError
from bench.stats import verdict

SLOWER, COSTLIER, LARGER, HYPERVOLUME = "slower", "costlier", "larger", "hypervolume"
RULE = re.compile(r"([a-z]+)\s*:\s*(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, kw_only=True)
class Rule:
    kind: str
    threshold: float
    """As a share: 0.02 is 2 %."""

    @property
    def text(self) -> str:
        return f"{self.kind}:{100 * self.threshold:g}%"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule says of one candidate. Where it neither fires nor is undecided, all is well."""

    rule: Rule
    fires: bool
    text: str


def parse_rules(option: object) -> tuple[Rule, ...]:
    """`slower:2%`, or a list of such.

    Raises:
        SpecError: a rule of another form.
    """
    given = option if isinstance(option, (list, tuple)) else [] if option is None else [option]
    return tuple(_rule(str(text).strip()) for text in given)


def findings(comparison: Comparison, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """All that fires, and what cannot be told: an interval that reaches beyond the threshold, or nothing to judge.

    A rule fires where the whole 97 % interval lies beyond its threshold (95 % for the hypervolume), or where the
    candidate has nothing at all within a budget in which the baseline has something. Peaks are exact.

    Raises:
        SpecError: a rule on milliseconds or bytes, and the studies are of different jobs or devices.
    """
    found: list[Finding] = []
    for rule in rules:
        for pairing in comparison.pairings:
            if rule.kind in (SLOWER, LARGER) and pairing.unlike:
                raise SpecError(
                    f"fail_if: {rule.text} compares absolute numbers, and those of {pairing.label} are not like for "
                    f"like ({', '.join(pairing.unlike)}); ask {COSTLIER} or {HYPERVOLUME}, which are relative"
                )
            found += _JUDGES[rule.kind](rule, pairing)
    return tuple(found)


def _rule(text: str) -> Rule:
    match = RULE.fullmatch(text)
    if match is None or match[1] not in _JUDGES:
        raise SpecError(f"fail_if: {text!r} is no rule; write {', '.join(f'{kind}:2%' for kind in _JUDGES)}")
    return Rule(kind=match[1], threshold=float(match[2]) / 100)


def _slower(rule: Rule, pairing: Pairing) -> Iterator[Finding]:
    return _longer(rule, pairing, pairing.against(ABSOLUTE).budgets)


def _costlier(rule: Rule, pairing: Pairing) -> Iterator[Finding]:
    # Within any memory both are at their reference, where ratios are 1.
    budgets = [row for row in pairing.against(RELATIVE).budgets if row.share is not None]
    return _longer(rule, pairing, budgets)


def _longer(rule: Rule, pairing: Pairing, budgets: Sequence[AtBudget]) -> Iterator[Finding]:
    judged = [row for row in budgets if row.contest.verdict not in (NEITHER, ONLY_CANDIDATE)]
    if not judged:
        yield Finding(rule=rule, fires=False, text=f"{pairing.label}: there is nothing to judge within any budget")
    limit = 1 + rule.threshold
    for row in judged:
        contest, where = row.contest, f"{pairing.label} {budget_words(row)}"
        if contest.verdict == ONLY_BASELINE:
            yield Finding(rule=rule, fires=True, text=f"{where}: no placement fits, and the baseline has one that does")
        elif contest.sure_interval is None:
            yield Finding(rule=rule, fires=False, text=f"{where}: {contest.reason}")
        else:
            low, high = contest.sure_interval.low, contest.sure_interval.high
            says = f"{where}: step time ×{contest.ratio:.3f} of the baseline's ({low:.3f} to {high:.3f} at 97 %)"
            if low > limit and contest.verdict == verdict.SLOWER:
                yield Finding(rule=rule, fires=True, text=says)
            elif high > limit:
                why = f"; {contest.reason}" if low > limit else ""
                yield Finding(rule=rule, fires=False, text=says + why)


def _larger(rule: Rule, pairing: Pairing) -> Iterator[Finding]:
    if not pairing.shared_peaks:
        yield Finding(rule=rule, fires=False, text=f"{pairing.label}: no placement was measured in both studies")
        return
    worst = max(pairing.shared_peaks, key=lambda shared: shared.candidate_bytes / shared.baseline_bytes)
    ratio = worst.candidate_bytes / worst.baseline_bytes
    if ratio > 1 + rule.threshold:
        over = sum(s.candidate_bytes > (1 + rule.threshold) * s.baseline_bytes for s in pairing.shared_peaks)
        yield Finding(
            rule=rule,
            fires=True,
            text=f"{pairing.label}: {over} of {len(pairing.shared_peaks)} placements have a higher peak, most of all "
            f"{worst.placement}: ×{ratio:.4f} ({worst.baseline_bytes} to {worst.candidate_bytes} bytes)",
        )


def _hypervolume(rule: Rule, pairing: Pairing) -> Iterator[Finding]:
    against = pairing.against(RELATIVE)
    ratio, interval = against.hypervolume_ratio, against.hypervolume_interval
    limit = 1 - rule.threshold
    if ratio is None or interval is None:
        yield Finding(rule=rule, fires=False, text=f"{pairing.label}: the ratio of hypervolumes has no interval")
    elif interval.low < limit:
        says = (
            f"{pairing.label}: hypervolume ×{ratio:.3f} of the baseline's ({interval.low:.3f} to {interval.high:.3f})"
        )
        yield Finding(rule=rule, fires=interval.high < limit, text=says)


def budget_words(row: AtBudget) -> str:
    return "within any memory" if row.share is None else f"within {100 * row.share:g} % of none"


_JUDGES: Mapping[str, Callable[[Rule, Pairing], Iterable[Finding]]] = {
    SLOWER: _slower,
    COSTLIER: _costlier,
    LARGER: _larger,
    HYPERVOLUME: _hypervolume,
}
