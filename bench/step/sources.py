"""The content of somebody's own code as a fact of a study: an edited model is another model."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from bench.folders import root

OURS = ("bench", "models")
INSTALLED = {"site-packages", "dist-packages"}


def source_digest(file: Path, *folders: Path) -> str:
    """`sha256:` and 16 digits over the file and all that it imports, directly or not, from `folders`.

    Imports are read from the source, not from what happens to be loaded, so that every process gets the same answer.
    Libraries installed elsewhere are not followed: their versions are facts of their own.
    """
    digest = hashlib.sha256()
    for path in source_files(file, *folders):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"sha256:{digest.hexdigest()[:16]}"


def source_files(file: Path, *folders: Path) -> list[Path]:
    """`file` and the files that it imports from `folders`, in which top-level names are looked up in this order."""
    file = file.resolve()
    places = [folder.resolve() for folder in dict.fromkeys(folders)]
    own = next((file.relative_to(p).parts[0].removesuffix(".py") for p in places if file.is_relative_to(p)), "")
    found, left = {file: None}, [file]
    while left:
        path = left.pop()
        names = [name for place in places if path.is_relative_to(place) for name in _imported(path, place)]
        for candidate in (candidate for name in names for place in places for candidate in _files_of(name, place, own)):
            if candidate not in found:
                found[candidate] = None
                left.append(candidate)

    def relative(path: Path) -> str:  # absolute paths sort otherwise on another machine
        return next(path.relative_to(place).as_posix() for place in places if path.is_relative_to(place))

    return [file, *sorted((path for path in found if path != file), key=relative)]


def _imported(path: Path, folder: Path) -> Iterator[str]:
    """Absolute dotted names in the file's import statements; of `from a import b` both `a` and `a.b`."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = path.relative_to(folder).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from filter(None, (base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)))


def _files_of(name: str, folder: Path, own: str) -> Iterator[Path]:
    """The module's file and the `__init__.py` of each package around it, where they are below `folder`; where that is a
    folder of installed libraries, only those of the package `own`."""
    parts = name.split(".")
    if parts[0] in OURS and folder == root():
        return
    if parts[0] != own and INSTALLED & set(folder.parts):
        return
    for depth in range(1, len(parts) + 1):
        stem = folder.joinpath(*parts[:depth])
        for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if path.is_file():
                yield path
