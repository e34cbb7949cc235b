"""What `model.target` names, and what is told when it names nothing that can be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import bench.folders
from bench.spec import ModelSpec, SpecError
from bench.step import describe_error, load_family
from bench.step.sources import source_digest, source_files
from bench.step.target import import_target, is_zoo
from tests.step.families import GOOD, write_family


@pytest.fixture(autouse=True)
def path_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)


def test_a_file_is_named_from_the_current_folder(tmp_path: Path) -> None:
    write_family(tmp_path)
    family = load_family(ModelSpec(name="mine", target="somebodys_model.py"))
    assert len(list(family.build().children())) == 3


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside_it.py").write_text("WIDTH = 16")
    spec = write_family(tmp_path / "sub", "from beside_it import WIDTH\n" + GOOD.replace("width=8", "width=WIDTH"))
    assert load_family(spec).build()[0].in_features == 16  # type: ignore[index]


def test_a_module_is_found_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "somebodys_package").mkdir()
    (tmp_path / "somebodys_package" / "model.py").write_text(GOOD)
    assert load_family(ModelSpec(name="mine", target="somebodys_package.model")).draws_globally


def test_an_edited_file_is_another_module(tmp_path: Path) -> None:
    before = load_family(write_family(tmp_path))
    after = load_family(write_family(tmp_path, GOOD.replace("width=8", "width=4")))
    assert before.build()[0].in_features == 8  # type: ignore[index]
    assert after.build()[0].in_features == 4  # type: ignore[index]
    assert before.sources != after.sources


def test_the_zoo_is_the_zoo_whatever_models_the_current_folder_has(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "gpt2.py").write_text("raise RuntimeError")
    module = import_target("models.gpt2")
    assert Path(str(module.__file__)).parent == bench.folders.root() / "models"
    assert not is_zoo("models.mine")
    assert not is_zoo("models/gpt2.py")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "no_such_file.py",
            r"no_such_file\.py: there is no such file \(looked in .*model\.target=path/to/my_model\.py",
        ),
        ("models.gtp2", r"no module 'models\.gtp2'.*the zoo has .*models\.gpt2"),
        ("nobodys_package.model", r"no module 'nobodys_package' \(for 'nobodys_package\.model'; searched /.*"),
        (".", "no module|folder"),
    ],
)
def test_a_target_that_is_not_there_is_told_with_what_was_searched(target: str, message: str) -> None:
    if target == ".":
        target = "./"
        message = "is a folder, not a Python file"
    with pytest.raises(SpecError, match=message):
        import_target(target)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "x = 1\nimport not_installed_anywhere",
            r"somebodys_model\.py:2: ModuleNotFoundError: No module named 'not_inst",
        ),
        ("def f():\n    return 1 / 0\nf()", r"somebodys_model\.py:2: ZeroDivisionError"),
        ("def build(:", r"somebodys_model\.py:1: SyntaxError"),
    ],
)
def test_an_import_that_fails_shows_the_line_of_their_own_file(tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(SpecError, match=f"importing .* failed: {message}"):
        load_family(write_family(tmp_path, code))


def test_an_error_below_a_library_is_shown_where_their_own_code_called_it(tmp_path: Path) -> None:
    spec = write_family(tmp_path, build="def build():\n    return torch.nn.Linear(3, -1)")
    with pytest.raises(RuntimeError) as caught:
        load_family(spec).build()
    line = 1 + (tmp_path / "somebodys_model.py").read_text().splitlines().index("    return torch.nn.Linear(3, -1)")
    assert describe_error(caught.value).startswith(f"somebodys_model.py:{line}: RuntimeError: Trying to create tensor")


def test_sources_are_the_file_and_what_it_imports_from_its_folder(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    texts = {
        "__init__": "",
        "model": "import torch\nfrom .layers import Block\nfrom package import heads as h",
        "layers": "def f():\n    import package.lazy",
        "heads": "",
        "lazy": "",
        "unused": "",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    files = source_files(package / "model.py", tmp_path)
    assert [file.stem for file in files] == ["model", "__init__", "heads", "layers", "lazy"]
    before = source_digest(package / "model.py", tmp_path)
    (package / "unused.py").write_text("changed = 1")
    assert source_digest(package / "model.py", tmp_path) == before
    (package / "lazy.py").write_text("changed = 1")
    assert source_digest(package / "model.py", tmp_path) != before


def test_the_zoo_has_no_source_digest() -> None:
    assert load_family(ModelSpec(name="gpt2", target="models.gpt2")).sources == {}
