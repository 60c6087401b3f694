"""Rows of an array, as bytes: from its files where its codecs are plain, else by zarr-python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.formats.zarr.blosc import CorruptChunkError
from fastdata_cli.formats.zarr.chunks import ChunkStore
from fastdata_cli.formats.zarr.layout import TEXTS, ArrayLayout
from fastdata_cli.formats.zarr.library import LibraryRows, open_array
from fastdata_cli.formats.zarr.plain import Bytes, PlainRows, decoder


class Rows(Protocol):
    """Reads rows (along the first axis) of one array."""

    random: bool
    """Whether one row costs about as much alone as among its neighbours."""

    def read(self, start: int, stop: int, out: Bytes) -> None:
        """Fill ``out``, 1-D uint8, with rows ``start`` to ``stop``, all inside the array.

        Raises:
            BadSampleError: a chunk is missing or corrupt.
        """
        ...


def open_rows(layout: ArrayLayout) -> Rows:
    """Return the fastest way to read an array of numbers.

    Raises:
        UnsupportedError: a codec, or the dtype, is not known here.
    """
    indexed = layout.shard is None or layout.index_at_end is not None
    if layout.plain and layout.rows_whole and layout.dtype != TEXTS and indexed:
        return PlainRows(layout)
    return LibraryRows(layout)


def check_codecs(layout: ArrayLayout) -> None:
    """Raise UnsupportedError when a codec of the array is not installed."""
    if not layout.plain:
        open_array(layout)
    elif (layout.compressor or {"name": "blosc"})["name"] != "blosc":
        decoder(layout)


def read_numbers(layout: ArrayLayout) -> NDArray[Any]:
    """Return a whole array of ours, none of whose chunks may be missing.

    Raises:
        DamagedDatasetError: it cannot be read in full.
    """
    assert layout.dtype is not None
    values = np.empty(layout.shape, layout.dtype)
    try:
        open_rows(layout).read(0, len(values), values.reshape(-1).view(np.uint8))
    except BadSampleError as problem:
        raise DamagedDatasetError(f"{layout.label}: {problem.detail}") from problem
    return values


def read_texts(layout: ArrayLayout) -> Iterator[str]:
    """Yield the strings of a whole array of ours, none of whose chunks may be missing.

    Raises:
        DamagedDatasetError: it cannot be read in full.
    """
    from numcodecs import VLenUTF8

    compressor = (layout.compressor or {"name": ""})["name"]
    if not layout.plain or layout.dtype != TEXTS or layout.shard or compressor == "blosc":
        raise DamagedDatasetError(f"{layout.folder}: not the strings that fastdata writes")
    chunks, count, each = ChunkStore(layout), layout.shape[0], layout.chunk[0]
    decompressed, strings = decoder(layout), VLenUTF8()
    try:
        for number in range(-(-count // each)):
            data = decompressed(chunks.stored(chunks.locate(number)))
            # The codec believes the count that the data begins with, and takes memory for it.
            if int.from_bytes(data[:4].tobytes(), "little") != each:
                raise CorruptChunkError(f"chunk {number} does not hold {each} strings")
            yield from strings.decode(data)[: count - number * each].tolist()
    except BadSampleError as problem:
        raise DamagedDatasetError(f"{layout.label}: {problem.detail}") from problem
    except ValueError as problem:
        raise DamagedDatasetError(f"{layout.folder}: {problem}") from problem


def read_foreign(layout: ArrayLayout) -> NDArray[Any]:
    """Return a whole array that others wrote; what they left out is fill value."""
    found: NDArray[Any] = np.asarray(open_array(layout)[:])
    return found
