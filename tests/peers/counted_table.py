"""Plans against every peer in exact bytes and counted cost: `python -m tests.peers.counted_table [MODEL…]`.

Asks for models of the zoo at their CPU workloads, a minute or two each; keeps the answers in
`results/reference/counted/` and prints the table of docs/planning.md from all that are there.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from bench.peers.registry import PEERS
from bench.peers.standing import Standing, mean_ratios, standings
from bench.worker.fake_model import fake_model, followed
from tests.trace.test_rearrange_models import controls

MODELS = ("gpt2", "llama", "llama-lora", "mixtral", "t5", "vit", "swin", "resnet50", "densenet", "unet")
KEPT = Path(__file__).parents[2] / "results" / "reference" / "counted"


def ask(model: str) -> dict[str, Any]:
    """Every peer's placements and ours at their peaks, as JSON."""
    began = time.monotonic()
    of = controls(model)
    fake = fake_model(of)
    forecaster = fake.forecaster(list(fake.modules))
    assert forecaster is not None, fake.problem
    rows, missing = standings(forecaster, fake.chains, lambda: followed(of, torch.device("cpu"))[0])
    return {
        "model": model,
        "workload": dataclasses.asdict(of.workload),
        "torch": torch.__version__,
        "wall_s": round(time.monotonic() - began, 1),
        "rows": [dataclasses.asdict(row) for row in rows],
        "missing": missing,
    }


def table(answers: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """Markdown: a row for each peer, a column for each model, then how many of ours are dearer, the worst of all."""
    rows = {model: [Standing(**row) for row in answer["rows"]] for model, answer in answers.items()}
    means = {model: mean_ratios(of_model) for model, of_model in rows.items()}
    yield f"| peer | {' | '.join(rows)} | all |"
    yield "|---" * (len(rows) + 2) + "|"
    for peer in PEERS:
        found = [means[model].get(peer) for model in rows]
        logs = [math.log(one[0]) for one in found if one is not None]
        cells = ["–" if one is None else f"{one[0]:.3f}" for one in found]
        if logs:
            yield f"| {peer} | {' | '.join(cells)} | {math.exp(sum(logs) / len(logs)):.3f} |"
    everything = [row for of_model in rows.values() for row in of_model]
    dearer = sum(row.ratio > 1 + 1e-9 for row in everything)
    worst = max(everything, key=lambda row: row.ratio)
    yield ""
    yield f"{len(everything)} placements; ours is dearer in {dearer}; the worst is {worst.ratio:.4f} ({worst.label})."


def main() -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    for model in sys.argv[1:]:
        answer = ask(model)
        (KEPT / f"{model}.json").write_text(json.dumps(answer, indent=1) + "\n")
        print(f"{model}: {len(answer['rows'])} placements in {answer['wall_s']} s", file=sys.stderr, flush=True)
    answers = {model: json.loads(path.read_text()) for model in MODELS if (path := KEPT / f"{model}.json").exists()}
    print("\n".join(table(answers)))


if __name__ == "__main__":
    main()
