"""Every file of `conf/` composes, and what it composes to is controls that validate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.cli.entry import config_folder
from bench.cli.request import caps_of, controls_of
from bench.cli.tracking import Tracker
from bench.placement import generate_placements
from bench.spec import PRECISIONS, ChainInfo, from_mapping, to_mapping

CONF = config_folder()
CHOICES = sorted((path.parent.name, path.stem) for path in CONF.glob("*/*.yaml") if path.parent.name != "hydra")
MODELS = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
GPT2_CHAINS = (
    ChainInfo(
        name="blocks",
        units=tuple(f"transformer.h.{i}" for i in range(12)),
        kinds={"attention": ("attn",), "mlp": ("mlp",), "norm": ("ln_1", "ln_2")},
    ),
)

Compose = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_every_choice_of_every_group_gives_valid_controls(composed: Compose, group: str, choice: str) -> None:
    options = composed([f"{group}={choice}"], name="forecast" if group == "target" else "sweep")
    controls_of(options)
    caps_of(options)
    if group != "target":
        from_mapping(Tracker, options["tracker"], where="tracker")
    assert generate_placements(options["placements"], GPT2_CHAINS)


@pytest.mark.parametrize(
    "verb",
    [
        "sweep",
        "capacity",
        "audit",
        "explain",
        "forecast",
        "selftest",
        "publish",
        "plots",
        "compare",
        "recommend",
        "export",
        "ui",
    ],
)
def test_every_verb_composes_with_the_shared_options(composed: Compose, verb: str) -> None:
    assert composed(name=verb).items() >= {"results": "results", "out": None}.items()


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_chooses_its_workload_by_device(composed: Compose, model: str, kind: str) -> None:
    chosen = composed([f"model={model}", f"device={kind}"])
    named = composed([f"model={model}", f"device={kind}", f"workload={model}-{kind}"])
    assert chosen == named
    assert controls_of(chosen).device.kind == kind


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_auto_is_the_device_that_is_there(composed: Compose, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("bench.cli.device.torch_has_cuda", lambda: True)
    monkeypatch.setattr("bench.cli.device.cuda_device_visible", lambda: kind == "cuda")
    for model in MODELS:
        assert composed([f"model={model}", "device=auto"]) == composed([f"model={model}", f"device={kind}"])


def test_options_are_the_fields_of_the_controls_one_for_one(composed: Compose) -> None:
    options = composed()
    controls = to_mapping(controls_of(options))
    del controls["facts"]
    assert controls == {name: options[name] for name in controls}


def test_there_is_a_file_for_every_precision() -> None:
    assert {path.stem for path in (CONF / "precision").glob("*.yaml")} == set(PRECISIONS)


def test_every_placements_file_says_every_generator(composed: Compose) -> None:
    names = [path.stem for path in (CONF / "placements").glob("*.yaml")]
    keys = {tuple(composed([f"placements={name}"])["placements"]) for name in names}
    assert len(keys) == 1


@pytest.mark.parametrize(("overrides", "count"), [([], 8), (["protocol=full"], 16)])
def test_number_of_placements_for_gpt2(composed: Compose, overrides: list[str], count: int) -> None:
    assert len(generate_placements(composed(overrides)["placements"], GPT2_CHAINS)) == count


@pytest.mark.parametrize("model", [model for model in MODELS if model.endswith("-tiny")])
def test_tiny_models_are_quick_unless_told_otherwise(composed: Compose, model: str) -> None:
    quick = composed([f"model={model}"])
    assert quick == composed([f"model={model}", "protocol=quick"])
    assert composed([f"model={model}", "protocol=full"])["protocol"]["executions"] == 2


def test_a_choice_on_the_command_line_wins_over_what_a_protocol_or_model_chooses(composed: Compose) -> None:
    options = composed(["model=gpt2-tiny", "protocol=full", "placements=all", "workload=gpt2-cpu"])
    assert options["placements"] == composed(["placements=all"])["placements"]
    assert options["workload"] == composed(["workload=gpt2-cpu"])["workload"]
