"""Owns what the footers of some Parquet files say: columns, row groups, codecs; all compared."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.errors import DamagedDatasetError, FastdataError, UnsupportedError
from fastdata_cli.formats.parquet.columns import (
    ColumnPath,
    Columns,
    dotted,
    find_columns,
    missing_columns,
)
from fastdata_cli.formats.parquet.compact import Record, parse
from fastdata_cli.formats.parquet.groups import Groups, open_file

# An image takes bytes; rows of nothing but nulls are no use. Refuses what claims absurd numbers.
_ROWS_A_BYTE = 8

# A file ends in the footer, its size and the magic.
_SIZE_BYTES, _TAIL_BYTES = 4, 8
# Fields of parquet.thrift: of the footer, a row group, a column chunk, its metadata, statistics.
_ROWS, _GROUPS = 3, 4
_CHUNKS, _GROUP_ROWS = 1, 3
_META = 3
_PATH, _CODEC, _VALUES, _BYTES, _STATISTICS = 3, 4, 5, 6, 12
_NULLS = 3
_CODECS = dict(enumerate(("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4")))
_MOST_BYTES = 1 << 48
# What comes of a field that is not there, or is of another kind.
_NO_RECORD = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class ImageChunk:
    """The image column of one row group."""

    rows: int
    bytes: int
    """When decoded, as the footer has it."""
    codec: str
    all_null: bool


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
        with _unreadable(path):
            schema = open_file(path).schema_arrow
            columns = columns or find_columns(schema, str(path), field)
            _require_columns(columns, schema, path, paths[0])
            chunks = [_image_chunk(each, columns.image, path) for each in _row_groups(path)]
        for group, chunk in enumerate(chunks):
            file.append(at)
            number.append(group)
            rows.append(chunk.rows)
            sizes.append(chunk.bytes)
            codecs.add(chunk.codec)
            elsewhere &= chunk.all_null
    assert columns is not None
    firsts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
    if firsts[-1] and elsewhere:
        raise UnsupportedError(
            f"{paths[0]}: its images lie elsewhere, {dotted(columns.image)} holds nothing",
            hint="convert the files that it names (fastdata convert - takes a list), or have "
            "their bytes put into it first",
        )
    files, numbers, bytes_of = (np.array(each, np.int64) for each in (file, number, sizes))
    groups = Groups(tuple(paths), files, numbers, firsts, bytes_of)
    return Footers(columns, groups, tuple(sorted(codecs)))


@contextlib.contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    """Turn what is said about a broken footer into a DamagedDatasetError that names the file."""
    import pyarrow

    try:
        yield
    except FastdataError:
        raise
    except (pyarrow.ArrowException, OSError, *_NO_RECORD) as problem:
        reason = str(problem).partition("\n")[0]
        raise DamagedDatasetError(
            f"{path}: its footer cannot be read ({reason})",
            hint="a file that was cut, or never finished, has none",
            path=str(path),
        ) from problem


def _row_groups(path: Path) -> list[Record]:
    """Return the records of the row groups of a file that Arrow has opened.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the footer is damaged.
    """
    with open(path, "rb") as file:
        file.seek(-_TAIL_BYTES, os.SEEK_END)
        size = int.from_bytes(file.read(_SIZE_BYTES), "little")
        file.seek(-_TAIL_BYTES - size, os.SEEK_END)
        footer = parse(file.read(size))
    groups: list[Record] = footer.get(_GROUPS, [])
    rows, expected = sum(group[_GROUP_ROWS] for group in groups), footer[_ROWS]
    if rows != expected or not 0 <= rows <= _ROWS_A_BYTE * path.stat().st_size:
        raise _contradiction(path, f"{expected} rows, and {rows} in its row groups")
    return groups


def _image_chunk(group: Record, image: ColumnPath, path: Path) -> ImageChunk:
    """Return what the footer says of the image column in one row group."""
    wanted, rows = [part.encode() for part in image], group[_GROUP_ROWS]
    chunks = (chunk[_META] for chunk in group[_CHUNKS])
    found = next((chunk for chunk in chunks if chunk[_PATH] == wanted), None)
    if found is None or found[_VALUES] != rows or rows < 0:
        raise _contradiction(path, f"a row group has not {rows} values of {dotted(image)}")
    nulls = found.get(_STATISTICS, {}).get(_NULLS)
    size, codec = int(found[_BYTES]), _CODECS.get(found[_CODEC], f"codec {found[_CODEC]}")
    return ImageChunk(rows, min(max(size, 0), _MOST_BYTES), codec, nulls == rows)


def _require_columns(columns: Columns, schema: Any, path: Path, first: Path) -> None:
    missing = missing_columns(columns, schema)
    if missing:
        raise UnsupportedError(
            f"{path}: has no column {missing[0]}, which {first} has",
            hint="open them one by one",
            path=str(path),
        )


def _contradiction(path: Path, detail: str) -> DamagedDatasetError:
    return DamagedDatasetError(f"{path}: its footer contradicts itself: {detail}", path=str(path))
