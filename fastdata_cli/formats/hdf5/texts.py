"""Columns of strings in HDF5: of fixed length where the longest allows it, else variable.

Fixed-length strings lie in chunks like numbers: they can be compressed, carry HDF5's checksum and
are read without one Python object each. Variable ones lie in HDF5's global heap, which has no
checksum and hangs the library where it is damaged, so they serve only where padding would be dear.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.hdf5.heaps import HeapValues
from fastdata_cli.key_table import KeyTable

_LONGEST_FIXED = 1024
_BLOCK_ROWS = 16384
_BLOCK_BYTES = 1 << 20


def text_layout(texts: KeyTable) -> tuple[Any, int, dict[str, Any]]:
    """Return dtype, rows per chunk and further creation arguments of a column for ``texts``."""
    import h5py

    longest = max(1, int(np.diff(texts.offsets).max(initial=0)))
    if longest > _LONGEST_FIXED:
        return h5py.string_dtype("utf-8"), _BLOCK_ROWS, {"fill_time": "ifset"}
    rows = min(_BLOCK_ROWS, _BLOCK_BYTES // longest)
    compressed = {"compression": "gzip", "compression_opts": 1, "fletcher32": True}
    return h5py.string_dtype("utf-8", longest), rows, compressed


def write_texts(column: Any, texts: KeyTable) -> None:
    """Fill a column; by the block, so that few Python strings live at a time."""
    rest, rows = texts.texts(), column.chunks[0]
    for start in range(0, len(texts), rows):
        block = np.array([text.encode() for text in islice(rest, rows)], column.dtype)
        column[start : start + len(block)] = block


def read_texts(column: Any) -> KeyTable:
    """Read a column of texts that are in their text form.

    Raises:
        BadSampleError, DamagedDatasetError: one of variable length is damaged.
    """
    if column.dtype.kind == "O":
        return KeyTable.from_texts(_from_heap(column))
    return KeyTable.concatenate([_table(block) for block in _blocks(column)])


def read_foreign_keys(column: Any) -> KeyTable:
    """Read a column of keys that others wrote, and put them into their text form.

    Raises:
        BadSampleError, DamagedDatasetError: one of variable length is damaged.
    """
    if column.dtype.kind == "O":
        return KeyTable.from_keys(_from_heap(column))
    decoded = column.asstr(errors="surrogateescape")
    return KeyTable.concatenate([KeyTable.from_keys(block) for block in _blocks(decoded)])


def _from_heap(column: Any) -> Iterator[str]:
    with contextlib.closing(HeapValues(column)) as values:
        for start in range(0, len(column), _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, len(column))
            for value in values.read(np.arange(start, stop)):
                # Some writers count the NUL at the end.
                yield value.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _blocks(column: Any) -> Iterator[Any]:
    for start in range(0, len(column), _BLOCK_ROWS):
        yield column[start : start + _BLOCK_ROWS]


def _table(block: NDArray[Any]) -> KeyTable:
    lengths = np.strings.str_len(block)
    width = block.dtype.itemsize
    # The bytes before the padding of each row, end to end.
    used = np.arange(width) < lengths[:, np.newaxis]
    blob = np.ascontiguousarray(block).view(np.uint8).reshape(-1, width)[used]
    return KeyTable(blob, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
