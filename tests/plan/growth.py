"""How long planning takes as a model grows: `python -m tests.plan.growth` draws docs/img/planning-growth.png.

GPT-2 of ever more blocks, narrow, since width changes no count: CPU seconds for recording the step, trying options, the
floor, and 24 budgets.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from bench.plan.planner import OverBudgetError
from tests.plan.planning import zoo

BLOCKS = (6, 12, 24, 48, 96)
NUM_BUDGETS = 24
PICTURE = Path(__file__).parents[2] / "docs" / "img" / "planning-growth.png"
NARROW = ("model.settings.width=64", "model.settings.heads=4", "model.settings.vocabulary=256")


def measured(blocks: int) -> dict[str, float]:
    subject = zoo("gpt2", f"model.settings.layers={blocks}", *NARROW)
    row: dict[str, float] = {"blocks": blocks}
    began = time.process_time()
    row["ops"] = len(subject.forecaster.plain_log.ops)
    row["record the step"] = time.process_time() - began
    began = time.process_time()
    planner = subject.planner
    row["options"], row["trials"] = planner.num_options, planner.num_trials
    row["try options"] = time.process_time() - began
    began = time.process_time()
    planner.floor()
    row["the floor"] = time.process_time() - began
    began = time.process_time()
    for budget in subject.budgets(NUM_BUDGETS):
        try:
            planner.plan(budget)
        except OverBudgetError:
            continue
    row[f"{NUM_BUDGETS} budgets"] = time.process_time() - began
    return row


def draw(rows: pd.DataFrame) -> None:
    parts = ["record the step", "try options", "the floor", f"{NUM_BUDGETS} budgets"]
    long = rows.melt(id_vars="blocks", value_vars=parts, var_name="part", value_name="CPU seconds")
    axes = sns.lineplot(long, x="blocks", y="CPU seconds", hue="part", style="part", markers=True, dashes=False)
    axes.set(xscale="log", yscale="log", xticks=BLOCKS, xticklabels=BLOCKS)
    axes.minorticks_off()
    axes.set_title("Planning a GPT-2 of ever more blocks")
    axes.figure.set_size_inches(6, 4)
    axes.figure.tight_layout()
    axes.figure.savefig(PICTURE, dpi=120)
    plt.close(axes.figure)


def main() -> None:
    rows: list[dict[str, float]] = []
    for blocks in BLOCKS:
        rows.append(measured(blocks))
        print({name: round(value, 1) for name, value in rows[-1].items()}, flush=True)
        draw(pd.DataFrame(rows))


if __name__ == "__main__":
    sys.exit(main())
