"""The verb `capacity`: real searches of tiny models, and requests that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.capacity.store import capacity_path, read_answer, read_capacity_records
from bench.capacity.types import Probe
from bench.cli.capacity import share_of, size_of
from bench.cli.main import main
from bench.spec import SpecError

pytestmark = pytest.mark.usefixtures("folder")
TINY = ("model=gpt2-tiny", "device=cpu", "device.threads=1", "tracker=none")
TWO = "placements.explicit=[none,transformer.h.0..3:each]"


def capacity(*overrides: str) -> tuple[int, dict[str, Any]]:
    code = main(["capacity", "out=answer.json", *overrides])
    return code, json.loads(Path("answer.json").read_text())


@pytest.mark.slow
def test_the_answer_has_a_size_and_a_throughput_for_each_placement(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = capacity(*TINY, TWO, "limit=9MiB", "headroom=2%", "multiples=[2]", "rounds=3", "audit=off")
    printed = capsys.readouterr().out
    assert code == 0
    plain, each = told["answer"]["rows"]
    assert plain["placement"] == "none"
    assert each["largest"] > plain["largest"]
    usable = int(9 * 2**20 * 0.98)
    for row in (plain, each):
        assert row["ended"] == "settled"
        assert row["peak_allocated_bytes"] <= usable < row["next_peak_bytes"]
        assert row["margin_bytes"] == 9 * 2**20 - row["peak_allocated_bytes"]
        assert row["throughput"]["units_per_step"] == 64 * row["largest"]
        assert row["throughput"]["rounds"] == 3
        assert str(row["largest"]) in printed
    assert told["answer"]["unit"] == "tokens"

    directory = Path(told["capacity"])
    answer = read_answer(directory)
    assert directory == capacity_path(Path("results").resolve(), answer.spec)
    assert (directory / "answer.csv").is_file()
    assert list((directory / "plots").glob("*.png"))
    probes = read_capacity_records(directory).of(Probe)
    again, _ = capacity(*TINY, TWO, "limit=9MiB", "headroom=2%", "multiples=[2]", "rounds=3", "audit=off")
    assert again == 0
    assert read_capacity_records(directory).of(Probe) == probes, "the second time nothing was probed"


@pytest.mark.slow
def test_that_nothing_fits_is_an_answer_without_a_number() -> None:
    code, told = capacity(*TINY, TWO, "limit=2MiB", "rounds=0", "audit=off")
    assert code == 0
    assert [row["ended"] for row in told["answer"]["rows"]] == ["none-fits", "none-fits"]
    assert [row["largest"] for row in told["answer"]["rows"]] == [None, None]
    assert "not even micro-batch 1 fits" in told["answer"]["rows"][0]["reason"]


@pytest.mark.slow
def test_planned_placements_are_planned_at_the_start_and_for_each_multiple() -> None:
    code, told = capacity(
        *TINY, "placements=planned", "placements.planned=2", "limit=9MiB", "multiples=[2]", "rounds=3"
    )
    generators = [row["generators"][0] for row in told["answer"]["rows"]]
    plain = told["answer"]["rows"][0]["largest"]
    assert any(label.endswith(" at 2") for label in generators)
    assert any(label.endswith(f" at {2 * plain}") for label in generators)
    assert code == 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("axis=depth", "axis: no 'depth'"),
        ("limit=much", "limit: 'much' is no size; write 4GiB or 24GB"),
        ("limit=50%", "limit: '50%' is no size"),
        ("headroom=lots", "headroom: 'lots' is no share of the limit; write 5%"),
        ("keep=all", "keep: 'all' is not one of micro-batch, global-batch"),
        ("multiples=[1]", "multiples: expected a whole number of at least 2, got 1"),
        ("rounds=-1", "rounds: expected a whole number of at least 0, got -1"),
        ("largest=0", "largest: expected a whole number of at least 1, got 0"),
        ("time_cap_s=-3", "time_cap_s: expected seconds above 0, got -3"),
        ("evaluation=3", "evaluation: expected true or false, got 3"),
        ("audit=maybe", "audit: 'maybe' is not one of gate, off"),
        ("device.memory_limit_bytes=5", "device.memory_limit_bytes: a capacity search sets it itself; say limit="),
        ("+limits=4GiB", "limits: no such option"),
    ],
)
def test_a_request_that_cannot_be_exits_2_and_names_the_option(
    override: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capacity", *TINY, override]) == 2
    assert message in capsys.readouterr().err
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("4GiB", 2**32), ("24GB", 24 * 10**9), ("1000B", 1000), (2_000_000, 2_000_000), ("1.5MiB", 3 * 2**19)],
)
def test_sizes_as_people_write_them(text: Any, num_bytes: int) -> None:
    assert size_of("limit", text) == num_bytes


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("12.5 %", 0.125), (0.1, 0.1), ("0.1", 0.1), (0, 0.0)])
def test_shares_as_people_write_them(text: Any, share: float) -> None:
    assert share_of(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["100%", 1, -0.1, "a", None])
def test_what_is_no_share_is_refused(text: Any) -> None:
    with pytest.raises(SpecError, match="headroom"):
        share_of(text)
