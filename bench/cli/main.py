"""Chooses the verb: `python -m bench VERB overrides…`, also installed as `boundary-bench`."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

from bench.cli.answer import REQUEST_WRONG

VERBS = {
    "sweep": "measure the frontier of a model: model=gpt2 device=auto protocol=full …",
    "plan": "the placement that costs least within a memory budget: model=gpt2 budget=8GiB [target=h200]",
    "capacity": "the largest batch, sequence or model within a memory limit: model=gpt2 limit=4GiB [axis=layers]",
    "audit": "is a replayed step the plain step, and where is it not: model=gpt2 placement=…",
    "explain": "what coexists at a step's peak, and what frees it: model=gpt2 placement=… [other=…]",
    "forecast": "the peak of any placement without training: model=gpt2 [target=h200] placements.explicit=[…]",
    "compare": "frontiers of several studies on common axes: studies=[A,B] budgets=[40%,60%] fail_if=slower:2%",
    "recommend": "which placement to use, from stored results: study=… [budget=8GiB] [card=24GB] [slowdown=5%] [save=]",
    "export": "plots (PNG, SVG, PDF) and evidence tables (CSV, Markdown, LaTeX): studies=[A,B] folder=…",
    "publish": "rebuild the MLflow runs of a study from its directory: study=…",
    "plots": "redraw the plots and tables of a study from its records: study=…",
    "selftest": "try the protocol on equal placements and injected delays: simulated.studies=1000 real.run=true",
    "ui": "open MLflow on the studies: port=5000",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code: 0 the answer is there, 1 partial, 2 the request was wrong."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if not given or given[0] not in VERBS:
        print(_wrong_verb(given), file=sys.stderr)
        return REQUEST_WRONG
    verb, *overrides = given
    return int(importlib.import_module(f"bench.cli.{verb}").run(overrides))


def usage() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in VERBS.items())
    return (
        "python -m bench VERB option=value …\n\n"
        f"{verbs}\n\n"
        "Every verb takes results=FOLDER and out=FILE (the answer as JSON as well).\n"
        "python -m bench VERB --help lists its options; --cfg job shows them as they would be used.\n"
        "Exit codes: 0 the answer is there, 1 something asked for is missing, 2 the request was wrong."
    )


def _wrong_verb(given: Sequence[str]) -> str:
    verbs = ", ".join(VERBS)
    if not given:
        return f"Which verb? There are {verbs}; python -m bench --help explains them."
    close = difflib.get_close_matches(given[0], VERBS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{given[0]}: no such verb; {hint}There are {verbs}."
