"""Owns what the footers of some Parquet files say: columns, row groups, codecs; all compared."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.parquet.columns import Columns, find_columns, missing_columns
from fastdata_cli.formats.parquet.groups import Groups, open_file

# An image takes bytes; rows of nothing but nulls are no use. Refuses what claims absurd numbers.
_ROWS_A_BYTE = 8


@dataclass(frozen=True, slots=True)
class Footers:
    """What the footers say together."""

    columns: Columns
    groups: Groups
    codecs: tuple[str, ...]
    """Of the image column, all that occur."""


def read_footers(paths: Sequence[Path], field: str | None) -> Footers:
    """Read and compare the footers of some files.

    Args:
        paths: at least one.
        field: the column of the image; None finds it.

    Raises:
        DamagedDatasetError: a footer cannot be read, or contradicts itself.
        UnsupportedError: files with other columns than the first, or images that lie elsewhere.
        UsageError: as ``find_columns``.
    """
    columns, codecs, elsewhere = None, set[str](), True
    file, number, rows, sizes = array("q"), array("q"), array("q"), array("q")
    for at, path in enumerate(paths):
        footer, schema = _footer(path)
        columns = columns or find_columns(schema, str(path), field)
        _require_columns(columns, schema, path, paths[0])
        for group in range(footer.num_row_groups):
            chunk = _chunk(footer.row_group(group), columns.image, path)
            file.append(at)
            number.append(group)
            rows.append(chunk.num_values)
            sizes.append(max(chunk.total_uncompressed_size, 0))
            codecs.add(chunk.compression.lower())
            elsewhere &= _is_all_null(chunk)
    assert columns is not None
    firsts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
    if firsts[-1] and elsewhere:
        raise UnsupportedError(
            f"{paths[0]}: its images lie elsewhere, {columns.image} holds nothing",
            hint="convert the files that it names (fastdata convert - takes a list), or have "
            "their bytes put into it first",
        )
    files, numbers, bytes_of = (np.array(each, np.int64) for each in (file, number, sizes))
    groups = Groups(tuple(paths), files, numbers, firsts, bytes_of)
    return Footers(columns, groups, tuple(sorted(codecs)))


def _footer(path: Path) -> tuple[Any, Any]:
    """Return the metadata and the Arrow schema of a file."""
    import pyarrow

    try:
        opened = open_file(path)
        footer, schema = opened.metadata, opened.schema_arrow
        rows = sum(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        reason = str(problem).partition("\n")[0]
        raise DamagedDatasetError(
            f"{path}: its footer cannot be read ({reason})",
            hint="a file that was cut, or never finished, has none",
            path=str(path),
        ) from problem
    if rows != footer.num_rows or rows > _ROWS_A_BYTE * path.stat().st_size:
        raise _contradiction(path, f"{footer.num_rows} rows, and {rows} in its row groups")
    return footer, schema


def _chunk(group: Any, image: str, path: Path) -> Any:
    """Return the footer's record of the image column in one row group."""
    chunks = (group.column(at) for at in range(group.num_columns))
    found = next((chunk for chunk in chunks if chunk.path_in_schema == image), None)
    if found is None or found.num_values != group.num_rows:
        raise _contradiction(path, f"a row group has not {group.num_rows} values of {image}")
    return found


def _is_all_null(chunk: Any) -> bool:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return False
    return bool(statistics.null_count == chunk.num_values)


def _require_columns(columns: Columns, schema: Any, path: Path, first: Path) -> None:
    missing = missing_columns(columns, schema.names)
    if missing:
        raise UnsupportedError(
            f"{path}: has no column {missing[0]}, which {first} has",
            hint="open them one by one",
            path=str(path),
        )


def _contradiction(path: Path, detail: str) -> DamagedDatasetError:
    return DamagedDatasetError(f"{path}: its footer contradicts itself: {detail}", path=str(path))
