"""Where a class numbering comes from: a list, or a dataset that another one must agree with."""

from __future__ import annotations

from pathlib import Path

from fastdata_cli import registry
from fastdata_cli.errors import UsageError
from fastdata_cli.json_text import parse
from fastdata_cli.keys import mended, to_text


def load_classes(path: Path) -> tuple[str, ...]:
    """Return class names in the order of their numbers.

    Args:
        path: a text file with one class a line, a JSON list, or a dataset in any format.

    Raises:
        UsageError: the file cannot be read, or names no class or one class twice.
        FastdataError: a dataset that cannot be opened.
    """
    if path.is_dir():
        names = registry.open_reader(path).schema.class_names
    else:
        names = _classes_of_file(path)
    if not names:
        raise UsageError(f"{path}: there are no class names in it", path=str(path))
    if len(set(names)) < len(names):
        again = next(name for at, name in enumerate(names) if name in names[:at])
        raise UsageError(f"{path}: names the class {to_text(again)!r} twice", path=str(path))
    return names


def _classes_of_file(path: Path) -> tuple[str, ...]:
    if any(row.recognises(path) for row in registry.all_formats()):
        return registry.open_reader(path).schema.class_names
    try:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as problem:
        raise UsageError(f"{path}: cannot be read ({problem.strerror})") from problem
    if not text.lstrip().startswith("["):
        return tuple(line for line in text.split("\n") if line.strip())
    try:
        names = parse(text)
    except ValueError as problem:
        raise UsageError(f"{path}: not a JSON list ({problem})", path=str(path)) from problem
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{path}: a list of class names holds texts only", path=str(path))
    return tuple(map(mended, names))
