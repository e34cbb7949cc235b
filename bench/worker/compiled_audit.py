"""Audits of compiled programs: is the code under a budget the same training as the code that recomputes nothing?

The plain side is compiled as well, from the same graphs, with all saved that the backward reads. So it draws the same
random numbers: inductor's decompositions make dropout of other ops than eager code, and with other masks nothing
could be held against it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bench.audit.judge import judge
from bench.audit.options import GATE
from bench.audit.plain import PlainSide, Trial
from bench.audit.subject import Subject, of_step
from bench.audit.verdict import UNSUPPORTED
from bench.measure import is_out_of_memory, raise_memory_limit
from bench.step.state import state_bytes
from bench.worker.auditing import COPIES
from bench.worker.bench import Bench
from bench.worker.compiled_program import Partition, compile_model, compiled_on


class CompiledAudits:
    """Verdicts on the programs of one bench. Each run drops all compiled code, so they come after the measurements."""

    def __init__(self, bench: Bench, backend: str, *, is_limited: bool) -> None:
        """
        Args:
            is_limited: whether a bound on the step's memory is set, which does not hold for an audit's copies.
        """
        self._bench = bench
        self._saving = compile_model(bench.step.model, Partition(None, ""), backend)
        self._extra = COPIES * state_bytes(bench.step) if is_limited else 0
        self._plain: PlainSide | None = None

    def verdict(self, name: str, compiled: Callable[..., Any]) -> tuple[str, str]:
        """(outcome of the audit, reason)."""
        raise_memory_limit(self._extra, self._bench.device)
        try:
            return self._verdict(name, compiled)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        finally:
            raise_memory_limit(-self._extra, self._bench.device)
        self._plain = None
        self._bench.recover()
        return UNSUPPORTED, "an audit does not fit in memory"

    def _verdict(self, name: str, compiled: Callable[..., Any]) -> tuple[str, str]:
        model = self._bench.step.model

        @contextmanager
        def replayed(_trial: Trial) -> Iterator[Subject]:
            with compiled_on(model, compiled):
                yield replace(self._subject, is_wrapped=True)

        with compiled_on(model, self._saving):
            if self._plain is None:
                self._bench.restore_state()
                self._plain = PlainSide(self._subject, GATE)
            verdict = judge(self._plain, replayed, name)
        gc.collect()
        told = [f"{finding.kind}: {finding.text}" for finding in verdict.findings[:1]] or [*verdict.notes[:1]]
        return verdict.outcome, " ".join(told)

    @property
    def _subject(self) -> Subject:
        return of_step(self._bench.step)
