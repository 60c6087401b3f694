"""Rows of an array: where they are stored if its codecs are plain, else through zarr-python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, DamagedDatasetError, UnsupportedError
from fastdata_cli.extents import Codec
from fastdata_cli.formats.blosc import BloscBuffer
from fastdata_cli.formats.chunked import ChunkedRows
from fastdata_cli.formats.codecs import Lz4Sized, NumcodecsCodec, ZstdFrame
from fastdata_cli.formats.zarr.index import chunk_index
from fastdata_cli.formats.zarr.layout import TEXTS, ArrayLayout
from fastdata_cli.formats.zarr.library import LibraryRows, open_array
from fastdata_cli.formats.zarr.presence import require_rows
from fastdata_cli.storage.gather import Gather, gather_enabled

_CODECS = {"blosc": BloscBuffer, "zstd": ZstdFrame, "lz4": Lz4Sized}


def is_located(layout: ArrayLayout) -> bool:
    """Return whether it can be said where the rows of an array of numbers are stored."""
    indexed = layout.shard is None or layout.index_at_end is not None
    plain = layout.plain and layout.files.can_map
    return plain and layout.rows_whole and layout.dtype != TEXTS and indexed


def locate_rows(layout: ArrayLayout) -> ChunkedRows:
    """Return what says where the rows of an array are stored, if ``is_located``.

    Raises:
        UnsupportedError: a codec is not known here.
    """
    index, each = chunk_index(layout, _codec(layout)), layout.chunk[0]
    return ChunkedRows(index, -(-layout.shape[0] // each), each, layout.row_bytes)


def check_codecs(layout: ArrayLayout) -> None:
    """Raise UnsupportedError when a codec of the array is not installed."""
    if layout.plain:
        _codec(layout)
    else:
        open_array(layout).store.close()


def read_numbers(layout: ArrayLayout) -> NDArray[Any]:
    """Return a whole array of ours, none of whose chunks may be missing.

    Raises:
        DamagedDatasetError: it cannot be read in full.
    """
    assert layout.dtype is not None
    values = np.empty(layout.shape, layout.dtype)
    out = values.reshape(-1).view(np.uint8)
    try:
        if gather_enabled() and is_located(layout):
            rows = locate_rows(layout)
            everything = rows.locate_runs(np.array([0]), np.array([len(values)]))
            Gather(rows.files).fill(everything, out)
        else:
            LibraryRows(layout).read(0, len(values), out)
    except BadSampleError as problem:
        raise DamagedDatasetError(f"{layout.label}: {problem.detail}") from problem
    return values


def read_texts(layout: ArrayLayout) -> Iterator[str]:
    """Yield the strings of a whole array of ours, none of whose chunks may be missing.

    Raises:
        DamagedDatasetError: it cannot be read in full.
    """
    from numcodecs import VLenUTF8

    compressor = layout.compressor
    blosc = compressor is not None and compressor["name"] == "blosc"
    simple = layout.plain and layout.files.can_map and not layout.shard
    if not simple or layout.dtype != TEXTS or blosc:
        raise DamagedDatasetError(f"{layout.folder}: not the strings that fastdata writes")
    count, each = layout.shape[0], layout.chunk[0]
    library = None if compressor is None else _numcodecs(layout)
    index, strings = chunk_index(layout, None), VLenUTF8()
    try:
        for number in range(-(-count // each)):
            at = index.find(np.array([number]))
            begin, size = int(at.offset[0]), int(at.length[0])
            stored = index.files.get(int(at.file[0])).data[begin : begin + size]
            data = stored.copy() if library is None else library.decoded(stored)
            # The codec believes the count that the data begins with, and takes memory for it.
            if int.from_bytes(data[:4].tobytes(), "little") != each:
                raise ValueError(f"chunk {number} does not hold {each} strings")
            yield from strings.decode(data)[: count - number * each].tolist()
    except BadSampleError as problem:
        raise DamagedDatasetError(f"{layout.label}: {problem.detail}") from problem
    except ValueError as problem:
        raise DamagedDatasetError(f"{layout.folder}: {problem}") from problem


def read_foreign(layout: ArrayLayout) -> NDArray[Any]:
    """Return a whole array that others wrote; what they left out is fill value."""
    require_rows(layout)
    array = open_array(layout)
    found: NDArray[Any] = np.asarray(array[:])
    array.store.close()
    return found


def _codec(layout: ArrayLayout) -> Codec | None:
    compressor = layout.compressor
    if compressor is None:
        return None
    ours = _CODECS.get(compressor["name"])
    return _numcodecs(layout) if ours is None else ours()


def _numcodecs(layout: ArrayLayout) -> NumcodecsCodec:
    codec = layout.compressor or {"name": ""}
    config = {key: value for key, value in codec.items() if key != "name"}
    try:
        return NumcodecsCodec({"id": codec["name"], **config})
    except (TypeError, ValueError, LookupError, ImportError) as problem:
        raise UnsupportedError(
            f"{layout.folder}: the codec {codec['name']} of {layout.label!r} cannot be set up as "
            f"its metadata says ({problem})"
        ) from problem
