"""The choice of a verb."""

from __future__ import annotations

import pytest

from bench.cli.main import VERBS, main


@pytest.mark.parametrize("arguments", [[], ["swep"], ["model=gpt2"], ["--model", "gpt2"]])
def test_an_unknown_verb_exits_2_and_lists_the_verbs(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert all(verb in said for verb in VERBS)


def test_a_mistyped_verb_names_the_close_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["swep"])
    assert "did you mean sweep?" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--help", "-h", "help"])
def test_help_explains_every_verb(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    said = capsys.readouterr().out
    assert all(meaning in said for meaning in VERBS.values())


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_shows_its_options(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert "results: results" in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_of_a_verb_exits_2(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "no_such_option=1"]) == 2
    assert "no_such_option" in capsys.readouterr().err
