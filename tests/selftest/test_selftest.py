"""The self-test finds what is there, with fixed seeds, and can fail."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bench.cli.main import main
from bench.selftest.campaign import Cell, run_campaign, simulated_spec
from bench.selftest.claims import check_claims
from bench.selftest.noise import NOISES
from bench.selftest.oracle import oracle_rounds
from bench.selftest.simulated import simulate_study
from bench.spec import Caps, ProtocolSpec

SAMPLING_ERROR = 0.011
"""Standard error of a share of 5 % in 400 studies. The verb runs 1,000 and more; docs/measurement.md has the
figures."""
PROTOCOL = ProtocolSpec(rounds_min=5, rounds_max=400, target_half_width=0.01)


def campaign(noise: str, delay: float, studies: int = 400, protocol: ProtocolSpec = PROTOCOL) -> Cell:
    (cell,) = run_campaign(protocol, Caps(), [noise], [delay], studies, seed=11, watch=lambda cell: None)
    return cell


@pytest.mark.parametrize("noise", NOISES)
def test_equal_placements_are_seldom_called_different(noise: str) -> None:
    cell = campaign(noise, 0.0)
    assert cell.share("faster") + cell.share("slower") <= 0.05 + SAMPLING_ERROR
    assert cell.share("same") >= 0.9


@pytest.mark.parametrize("noise", ["normal", "heavy tails", "one-sided"])
def test_two_per_cent_are_found_with_at_most_twice_the_rounds_of_a_test_that_knows_the_noise(noise: str) -> None:
    cell = campaign(noise, 0.02)
    assert cell.share("slower") >= 0.95
    assert cell.oracle_rounds is not None
    assert cell.rounds <= 2 * cell.oracle_rounds


def test_too_few_rounds_leave_it_unclear() -> None:
    cell = campaign("bimodal", 0.02, protocol=ProtocolSpec(rounds_min=8, rounds_max=8, target_half_width=0.01))
    assert cell.share("unclear") > 0.5
    assert cell.share("same") <= 0.05


def test_a_time_cap_ends_a_study_on_the_simulated_clock() -> None:
    # Two samples of about 0.1 s a round: ten rounds fit in two seconds.
    study = simulated_spec(PROTOCOL, Caps(time_cap_s=2.0))
    end = simulate_study(study, {"copy": 0.0}, NOISES["normal"], np.random.default_rng(0)).end
    assert end.reason == "time cap"
    assert 7 <= end.rounds <= 10


def test_oracle_of_normal_noise_is_the_textbook_s() -> None:
    sigma, delay = 0.02 * math.sqrt(2), math.log1p(0.02)
    expected = ((1.960 + 1.645) * sigma / delay) ** 2
    assert oracle_rounds(NOISES["normal"], 0.02, seed=3) == pytest.approx(expected, rel=0.1)


def test_claims_fail_where_they_do_not_hold() -> None:
    def cell(delay: float, verdicts: dict[str, int], rounds: float = 30.0) -> Cell:
        return Cell(
            noise="normal",
            delay=delay,
            studies=100,
            verdicts=verdicts,
            rounds=rounds,
            reasons={"tight": 100},
            oracle_rounds=20 if delay else None,
        )

    good = check_claims([cell(0.0, {"same": 96, "slower": 4}), cell(0.02, {"slower": 95})], [cell(0.02, {})], 0.02)
    assert [claim.holds for claim in good] == [True] * 4
    bad = check_claims(
        [cell(0.0, {"same": 94, "faster": 6}), cell(0.02, {"slower": 94}, rounds=41.0)],
        [cell(0.02, {"same": 6})],
        0.02,
    )
    assert [claim.holds for claim in bad] == [False] * 4


def test_the_verb_prints_rates_and_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answer.json"
    code = main(
        [
            "selftest",
            "simulated.studies=20",
            "simulated.noises=[one-sided]",
            "simulated.delays=[0.0,0.05]",
            f"out={out}",
        ]
    )
    printed = capsys.readouterr().out
    assert "oracle's" in printed
    assert "equal placements are called different" in printed
    answer = json.loads(out.read_text())
    assert code == answer["exit_code"] == 0
    assert len(answer["simulated"]["cells"]) == 3


def test_for_real_every_name_is_the_plain_step_and_a_delay_is_slower(tmp_path: Path) -> None:
    out = tmp_path / "answer.json"
    code = main(
        [
            "selftest",
            "simulated.studies=0",
            "real.run=true",
            "real.rounds=8",
            "real.delays=[3.0]",
            "model.target=tests.families.toy",
            "device=cpu",
            f"results={tmp_path}",
            f"out={out}",
        ]
    )
    assert code == 0
    real = json.loads(out.read_text())["real"]
    assert [result["name"] for result in real["results"]] == ["copy.0", "copy.1", "delay.300.0"]
    assert real["results"][-1]["verdict"] == "slower"  # by a factor of four, whatever the machine does


def test_an_unknown_noise_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "simulated.noises=[calm]"]) == 2
    assert "there are normal, drift, bursts" in capsys.readouterr().err
