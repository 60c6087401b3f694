"""Owns the records of our LMDB files: sample keys, and the columns beside the samples in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.lmdb.file import DataFile
from fastdata_cli.storage.table import npy_array, npy_bytes

OUR_KEYS = b"__fastdata__/"
"""How all keys beside the samples begin; they sort after the samples."""

MANIFEST = OUR_KEYS + b"manifest"
"""Key of the manifest."""

PIECE_BYTES = 8 << 20
"""A column is cut into pieces of this size, so that no value grows with the dataset."""

KEY_DIGITS = 10
"""Of a sample's key."""


def data_path(path: Path) -> Path:
    """Return the data file of an environment, which is a folder or the file itself."""
    return path if path.is_file() else path / "data.mdb"


def sample_key(index: int) -> bytes:
    """Return the record key of a sample."""
    return b"%010d" % index


def sample_index(key: bytes) -> int | None:
    """Return the sample that a record key stands for, if any."""
    return int(key) if len(key) == KEY_DIGITS and key.isdigit() else None


def column_layout(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what is needed to read the columns again: how many pieces, and a checksum."""
    return {
        name: {"pieces": len(_cuts(column)), "xxh3": _digest(column)}
        for name, column in columns.items()
    }


def column_records(columns: Mapping[str, NDArray[Any]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the columns as records, each a ``.npy`` file, in order of their keys."""
    for name in sorted(columns):
        column = columns[name]
        for piece, begin in enumerate(_cuts(column)):
            yield _piece_key(name, piece), npy_bytes(column[begin : begin + _step(column)])


def read_columns(file: DataFile, layout: Any) -> dict[str, NDArray[Any]]:
    """Read the columns that ``column_layout`` describes.

    Raises:
        DamagedDatasetError: a piece is missing, or is not what was written.
    """
    columns = {}
    for name, (pieces, digest) in _parse_layout(layout, file).items():
        column = _joined([_read_piece(file, _piece_key(name, piece)) for piece in pieces], file)
        if _digest(column) != digest:
            raise DamagedDatasetError(f"{file.path}: the checksum of its {name} does not match")
        columns[name] = column
    return columns


def _parse_layout(layout: Any, file: DataFile) -> dict[str, tuple[range, str]]:
    """Return the pieces of each column, and its checksum."""
    try:
        found = {name: (range(each["pieces"]), each["xxh3"]) for name, each in layout.items()}
        if not all(pieces and name.isascii() for name, (pieces, _) in found.items()):
            raise ValueError("a column without pieces, or of no name that we give")
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise DamagedDatasetError(f"{file.path}: its manifest is damaged") from problem
    return found


def _joined(pieces: list[NDArray[Any]], file: DataFile) -> NDArray[Any]:
    if any(piece.ndim != 1 or piece.dtype != pieces[0].dtype for piece in pieces):
        raise DamagedDatasetError(f"{file.path}: the pieces of a column do not fit together")
    return np.concatenate(pieces)


def _read_piece(file: DataFile, key: bytes) -> NDArray[Any]:
    value = file.get(key)
    if value is None:
        raise DamagedDatasetError(f"{file.path}: the record {key.decode()} is missing")
    return npy_array(value, where=f"{file.path}: {key.decode()}")


def _piece_key(name: str, piece: int) -> bytes:
    return OUR_KEYS + f"{name}/{piece:04d}.npy".encode()


def _step(column: NDArray[Any]) -> int:
    return PIECE_BYTES // column.itemsize


def _cuts(column: NDArray[Any]) -> range:
    """Return where the pieces of a column begin; an empty column has one, for its dtype."""
    return range(0, max(len(column), 1), _step(column))


def _digest(column: NDArray[Any]) -> str:
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(column).data)
