"""`model.target` to a module: of the zoo, of the person's own packages, or a Python file. Nothing else is imported."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from bench.folders import root
from bench.spec import SpecError

ZOO = "models"
SEARCHED = 3
"""How many of the searched folders an error names."""


def import_target(target: str) -> ModuleType:
    """Imports what `target` names and nothing else.

    - `models.NAME`, where the zoo has it, is the zoo's, whatever `models` the current folder has; a file of that name
      is reached by its path, `models/NAME.py`.
    - `path/to/file.py` is a file; its folder is importable, as it is for a script.
    - anything else is a module, looked for in the current folder and then wherever Python looks.

    Raises:
        SpecError: there is no such module or file, or importing it raised; names the line of the person's own code.
    """
    if is_file(target):
        return _import_file(target)
    if is_zoo(target):
        _put_first(root())
    else:
        _put_first(Path.cwd(), at_end=True)
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name and f"{target}.".startswith(f"{error.name}."):
            raise SpecError(f"model.target: {_not_found(target, error.name)}") from None
        raise SpecError(f"model.target: importing {target} failed: {describe_error(error)}") from None
    except Exception as error:
        raise SpecError(f"model.target: importing {target} failed: {describe_error(error)}") from None


def is_file(target: str) -> bool:
    return target.endswith(".py") or "/" in target


def is_zoo(target: str) -> bool:
    package, _, name = target.partition(".")
    return package == ZOO and name.isidentifier() and (root() / ZOO / f"{name}.py").is_file()


def search_folders(module: ModuleType) -> tuple[Path, ...]:
    """Where a target's own imports are looked up: the folder from which its name is found; for a file its folder, and
    the current one."""
    if module.__file__ is None:
        raise SpecError(f"model.target: {module.__name__} is a folder without code; name a module in it")
    file = Path(module.__file__).resolve()
    if module.__name__.startswith(_FILE_PREFIX):
        return file.parent, Path.cwd()
    levels = module.__name__.count(".") + (file.name == "__init__.py")
    return (file.parents[levels],)


def describe_error(error: BaseException) -> str:
    """`my_model.py:12: ValueError: …`: the error, and the deepest line that is in nobody's installed library."""
    text = f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}: {text}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(frame.filename)]
    return f"{_shown(own[-1].filename)}:{own[-1].lineno}: {text}" if own else text


_FILE_PREFIX = "_target_"


def _import_file(target: str) -> ModuleType:
    path = Path(target).expanduser()
    if not path.is_file():
        what = "is a folder, not a Python file" if path.is_dir() else "there is no such file"
        raise SpecError(
            f"model.target: {target}: {what} (looked in {Path.cwd()}); name your own: model.target=path/to/my_model.py"
        )
    path = path.resolve()
    content = path.read_bytes()
    # One name a content: several loads in a process are one module, and an edited file is another.
    name = f"{_FILE_PREFIX}{path.stem}_{hashlib.sha256(str(path).encode() + content).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SpecError(f"model.target: {target} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    _put_first(path.parent)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise SpecError(f"model.target: importing {target} failed: {describe_error(error)}") from None
    return module


def _put_first(folder: Path, at_end: bool = False) -> None:
    """Makes the folder importable; one that is importable already keeps its place unless it must come first."""
    text = str(folder)
    there = text in sys.path or (folder == Path.cwd() and "" in sys.path)
    if at_end and not there:
        sys.path.append(text)
    elif not at_end and sys.path[:1] != [text]:
        sys.path.insert(0, text)


def _not_found(target: str, missing: str) -> str:
    folders: Sequence[str] = list(dict.fromkeys([str(Path.cwd()), *(entry for entry in sys.path if entry)]))
    searched = ", ".join(folders[:SEARCHED]) + (" …" if len(folders) > SEARCHED else "")
    zoo = sorted(path.stem for path in (root() / ZOO).glob("*.py") if "\ndef build(" in path.read_text())
    hint = f"; the zoo has {', '.join(f'{ZOO}.{name}' for name in zoo)}" if missing == ZOO or ZOO in target else ""
    return (
        f"there is no module {missing!r} (for {target!r}; searched {searched}){hint}; "
        "a file is named by its path: model.target=path/to/my_model.py"
    )


def _is_own(filename: str) -> bool:
    """Whether a frame is in code of the person who runs this: no installed package, no frozen module, none of ours."""
    path = Path(filename)
    if filename.startswith("<") or not path.is_absolute():
        return False
    library = Path(traceback.__file__).parent
    ours = Path(__file__).parents[1]
    return not (path.is_relative_to(library) or path.is_relative_to(ours) or "site-packages" in path.parts)


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
