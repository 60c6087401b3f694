"""Reads the rows of a label file, CSV or JSON lines, and names the line that is wrong."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from fastdata_cli.errors import UsageError
from fastdata_cli.json_text import parse

KEY_COLUMNS = (
    "key", "path", "file", "filename", "file_name", "filepath", "image", "image_path", "name", "id",
)  # fmt: skip
LABEL_COLUMNS = ("label", "class", "category", "target", "class_name", "label_name")

Row = tuple[int, str, str]
"""Line number, key, label."""


def label_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a label file.

    Raises:
        UsageError: a line cannot be understood.
        OSError: the file cannot be read.
    """
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        first = file.readline()
        file.seek(0)
        yield from _json_rows(file, path) if first.startswith("{") else _csv_rows(file, path, first)


def malformed(path: Path, line: int, why: str) -> UsageError:
    """Return the error for one line of a label file."""
    return UsageError(
        f"{path}, line {line}: {why}",
        hint="a label file has a path and a label on each line: CSV with the header path,label, "
        'or {"key": …, "label": …}',
        path=str(path),
        line=line,
    )


def _csv_rows(file: TextIO, path: Path, first: str) -> Iterator[Row]:
    delimiter = "\t" if "\t" in first and "," not in first else ","
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    columns: tuple[int, int] | None = None
    try:
        for cells in reader:
            if not cells:
                continue
            if columns is None:
                columns, is_header = _columns(cells, path)
                if is_header:
                    continue
            if len(cells) <= max(columns):
                raise malformed(path, reader.line_num, f"{len(cells)} of the columns are there")
            yield reader.line_num, _plain(cells[columns[0]]), cells[columns[1]].strip()
    except csv.Error as problem:
        raise malformed(path, reader.line_num, str(problem)) from problem


def _columns(cells: Sequence[str], path: Path) -> tuple[tuple[int, int], bool]:
    """Return where path and label stand, and whether this line is a header."""
    names = [cell.strip().lower() for cell in cells]
    key = next((names.index(name) for name in KEY_COLUMNS if name in names), None)
    label = next((names.index(name) for name in LABEL_COLUMNS if name in names), None)
    if key is not None and label is not None:
        return (key, label), True
    if len(names) != 2:
        raise malformed(path, 1, "no columns that are known as path and label")
    if key is None and label is None:
        return (0, 1), False
    return ((key, 1 - key) if key is not None else (1 - (label or 0), label or 0)), True


def _json_rows(file: TextIO, path: Path) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = parse(line)
        except ValueError as problem:
            raise malformed(path, number, f"not JSON ({problem})") from problem
        if not isinstance(record, dict):
            raise malformed(path, number, "not a JSON object")
        key, label = _field(record, KEY_COLUMNS), _field(record, LABEL_COLUMNS)
        if not isinstance(key, str):
            raise malformed(path, number, "no path of an image")
        if isinstance(label, bool) or not isinstance(label, str | int | None):
            raise malformed(path, number, "the label is neither a number nor a name")
        yield number, _plain(key), "" if label is None else str(label)


def _field(record: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((record[name] for name in names if name in record), None)


def _plain(key: str) -> str:
    return key.removeprefix("./")
