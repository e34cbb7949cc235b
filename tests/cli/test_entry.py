"""From the command line to options: what overrides survive, what is refused and how, what is left on the disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cli.answer import COMPLETE, PARTIAL, REQUEST_WRONG, Answer
from bench.cli.entry import Options, run_verb
from bench.cli.request import controls_of
from bench.placement import parse_placement
from bench.records import DamagedStudyError


class Recorder:
    """A verb that keeps the options it was called with."""

    def __init__(self, *exit_codes: int) -> None:
        self.calls: list[Options] = []
        self._exit_codes = list(exit_codes)

    def __call__(self, options: Options) -> Answer:
        controls = controls_of(options)
        self.calls.append(options)
        code = self._exit_codes.pop(0) if self._exit_codes else COMPLETE
        return Answer(exit_code=code, data={"model": controls.model.name, "precision": controls.precision})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "texts",
    [
        ["transformer.h.0..5:each+transformer.h.6..11", "none"],
        ["transformer.h.0..11:each:keep.matmul%2@no-rng"],
        ["transformer.h.0..11.mlp:each", "transformer.h.0..11:every.2", "transformer.h.0..5@reentrant"],
        ["none"],
    ],
)
def test_placement_text_survives_hydra_without_quotes(texts: list[str]) -> None:
    verb = Recorder()
    assert run_verb("sweep", verb, [f"placements.explicit=[{','.join(texts)}]"]) == COMPLETE
    assert verb.calls[0]["placements"]["explicit"] == texts
    for text in texts:
        parse_placement(text)


def test_every_character_of_the_alphabet_survives_hydra() -> None:
    verb = Recorder()
    text = "aZ0_-./+%@:b"
    assert run_verb("sweep", verb, [f"placements.explicit=[{text},{text}]", f"reference={text}"]) == COMPLETE
    assert verb.calls[0]["placements"]["explicit"] == [text, text]
    assert verb.calls[0]["reference"] == text


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("optimiser=sgd", "optimiser"),
        ("model.settings.layrs=3", "layrs"),
        ("model=gpt3", "model: there is no gpt3; did you mean gpt2"),
        ("precision=fp8", "bf16-autocast"),
        ("workload.micro_batch=none", "workload.micro_batch: expected a whole number"),
        ("workload.micro_batch=0", "workload.micro_batch: must be at least 1"),
        ("+workload.sequence=4", "workload.sequence: no such option"),
        ("recipe.zero_grad=${nowhere}", "nowhere"),
        ("placements.explicit=[", "placements.explicit"),
        ("out=nowhere/answer.json", "out: the folder"),
        ("modle=gpt2", "modle: no such option; did you mean model?"),
        ("model=gpt2-tny", "model: there is no gpt2-tny; did you mean gpt2-tiny"),
        ("precision=bf16", "precision: there is no bf16; there are bf16-autocast, bf16-pure, fp16-autocast, fp32"),
        ("caps.time_cap=5", "caps.time_cap: no such option; did you mean caps.time_cap_s"),
        ("protocol.time_cap_s=10", "protocol.time_cap_s: no such option; did you mean caps.time_cap_s"),
        ("workload.batch=2", "workload.batch: no such option; did you mean workload.micro_batch"),
        ("protocol.rounds=3", "protocol.rounds: no such option; did you mean protocol.rounds_m"),
        ("gpt2-tiny", "gpt2-tiny: an option is written name=value, such as model=gpt2-tiny"),
        ("studies=mine", "studies: no such option; did you mean st"),
        ("results=", "results: expected a folder, got ''"),
        ("results=null", "results: expected a folder, got None"),
        ("results=/etc/passwd", "results: /etc/passwd is not a folder"),
    ],
)
def test_a_wrong_request_is_one_line_without_a_traceback_and_exits_2(
    override: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = Recorder()
    assert run_verb("sweep", verb, [override]) == REQUEST_WRONG
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("boundary-bench: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert verb.calls == []


@pytest.mark.parametrize("name", ["with space", "Größe 試", "it's", "a=b,c", "[x]", "back\\slash"])
def test_a_results_folder_may_have_any_name(name: str, folder: Path) -> None:
    verb = Recorder()
    assert run_verb("sweep", verb, [f"results={folder / name}"]) == COMPLETE
    assert verb.calls[0]["results"] == folder / name


def test_an_unknown_flag_exits_2() -> None:
    with pytest.raises(SystemExit, match="2"):
        run_verb("sweep", Recorder(), ["--bogus"])


def test_a_damaged_study_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    def verb(_: Options) -> Answer:
        raise DamagedStudyError("study.json: not JSON")

    assert run_verb("plots", verb, []) == REQUEST_WRONG
    assert capsys.readouterr().err == "boundary-bench: study.json: not JSON\n"


def test_an_error_of_our_own_is_not_hidden() -> None:
    def verb(_: Options) -> Answer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_verb("plots", verb, [])


def test_interrupting_exits_1_and_says_that_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    def verb(_: Options) -> Answer:
        raise KeyboardInterrupt

    assert run_verb("plots", verb, []) == PARTIAL
    assert capsys.readouterr().err == "boundary-bench: interrupted; what has been measured is kept\n"
    assert run_verb("sweep", verb, []) == PARTIAL
    assert "kept, and the same command goes on from there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "studies"),
    [
        ("studies=gpt2-1,gpt2-2", ["gpt2-1", "gpt2-2"]),
        ("studies=[gpt2-1,gpt2-2]", ["gpt2-1", "gpt2-2"]),
        ("studies=/tmp/x=1,/tmp/it's (old),5e3", ["/tmp/x=1", "/tmp/it's (old)", "5e3"]),
    ],
)
def test_a_list_of_studies_needs_no_brackets(override: str, studies: list[str]) -> None:
    given: list[object] = []

    def verb(options: Options) -> Answer:
        given.append(options["studies"])
        return Answer(exit_code=COMPLETE)

    assert run_verb("compare", verb, [override]) == COMPLETE
    assert given == [studies]


def test_multirun_runs_every_combination() -> None:
    verb = Recorder()
    assert run_verb("sweep", verb, ["-m", "model=gpt2,t5", "precision=fp32,bf16-autocast"]) == COMPLETE
    assert [(o["model"]["name"], o["precision"]) for o in verb.calls] == [
        ("gpt2", "fp32"),
        ("gpt2", "bf16-autocast"),
        ("t5", "fp32"),
        ("t5", "bf16-autocast"),
    ]


def test_the_exit_code_of_a_multirun_is_the_worst_and_all_jobs_run() -> None:
    verb = Recorder(COMPLETE, PARTIAL, COMPLETE)
    assert run_verb("sweep", verb, ["-m", "workload.seed=1,2,3"]) == PARTIAL
    assert len(verb.calls) == 3
    verb = Recorder()
    assert run_verb("sweep", verb, ["-m", "workload.micro_batch=0,1"]) == REQUEST_WRONG
    assert len(verb.calls) == 1


def test_a_run_leaves_nothing_behind(folder: Path) -> None:
    run_verb("sweep", Recorder(), [])
    assert list(folder.iterdir()) == []


def test_a_multirun_leaves_files_in_a_hidden_folder_of_the_results_alone(folder: Path) -> None:
    run_verb("sweep", Recorder(), ["-m", "workload.seed=1,2", "results=kept"])
    assert [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()] == [
        "kept/.multirun/multirun.yaml"
    ]


def test_the_working_directory_stays_and_results_become_absolute(folder: Path) -> None:
    verb = Recorder()
    run_verb("sweep", verb, ["results=kept"])
    assert Path.cwd() == folder
    assert verb.calls[0]["results"] == folder / "kept"


def test_out_gets_the_answer_as_json(folder: Path) -> None:
    run_verb("sweep", Recorder(PARTIAL), ["out=answer.json"])
    answer = json.loads((folder / "answer.json").read_text())
    assert answer == {"exit_code": 1, "model": "gpt2", "precision": "fp32"}


def test_out_of_a_multirun_is_a_list(folder: Path) -> None:
    run_verb("sweep", Recorder(), ["-m", "model=gpt2,t5", "out=answer.json"])
    answers = json.loads((folder / "answer.json").read_text())
    assert [answer["model"] for answer in answers] == ["gpt2", "t5"]


def test_out_gets_the_error_of_a_wrong_request(folder: Path) -> None:
    run_verb("sweep", Recorder(), ["workload.micro_batch=0", "out=answer.json"])
    answer = json.loads((folder / "answer.json").read_text())
    assert answer == {"exit_code": 2, "error": "workload.micro_batch: must be at least 1, got 0"}
