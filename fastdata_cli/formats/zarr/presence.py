"""Looks at stored chunks before zarr-python reads them.

It reads a chunk that is not there as fill value, and hands a Blosc buffer to a library that
believes the sizes in its header: one that was cut is read beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastdata_cli.extents import Bytes
from fastdata_cli.formats.blosc import HEADER_BYTES, Header
from fastdata_cli.formats.zarr.index import ABSENT, missing, read_shard_index
from fastdata_cli.formats.zarr.layout import TEXTS, ArrayLayout
from fastdata_cli.storage.gather import corrupt

_BLOSC = "blosc"
# Filters before Blosc may store each number in a wider one.
_WIDER = 8


def require_row(layout: ArrayLayout, number: int, *, holes: bool = False) -> None:
    """Look at all chunks in a row of the grid of chunks along the first axis.

    Args:
        layout: of the array.
        number: of the row.
        holes: whether chunks may be missing.

    Raises:
        BadSampleError: one is missing, or is no whole Blosc buffer where it should be one.
    """
    each = layout.file_shape[0] // layout.chunk[0]
    file_number, inside = divmod(number, each)
    for name in layout.row_files(file_number):
        path = layout.files.path(name)
        if layout.files.has(name):
            for stored in _chunks(layout, name, inside):
                if stored is not None:
                    _require_blosc(layout, path, stored)
                elif not holes:
                    raise missing(f"{path} lacks a chunk of row {number}")
        elif not holes:
            raise missing(f"{path} is not there")


def require_rows(layout: ArrayLayout) -> None:
    """Look at all chunks that are there."""
    for number in range(-(-layout.shape[0] // layout.chunk[0]) if layout.shape else 0):
        require_row(layout, number, holes=True)


def _chunks(layout: ArrayLayout, name: str, inside: int) -> Iterator[Bytes | None]:
    """Yield the chunks of one row of a file; None for one that a shard does not have."""
    stored = _content(layout, name)
    if layout.shard is None:
        yield stored
        return
    grid = [whole // part for whole, part in zip(layout.shard, layout.chunk, strict=True)]
    path, at_end = layout.files.path(name), bool(layout.index_at_end)
    index = read_shard_index(stored, path, int(np.prod(grid)), at_end=at_end)
    for begin, size in index.reshape(*grid, 2)[inside].reshape(-1, 2).tolist():
        yield None if begin == ABSENT else stored[begin : begin + size]


def _content(layout: ArrayLayout, name: str) -> Bytes:
    if not layout.files.can_map:  # members that a zip has compressed once more
        try:
            return np.frombuffer(layout.files.read(name), np.uint8)
        except (OSError, ValueError) as problem:
            raise corrupt(layout.files.path(name), str(problem)) from problem
    places = layout.files.places(lambda _: name)
    file, begin, size = map(int, np.ravel(places.find(np.array([0]))))
    return places.maps.get(file).data[begin : begin + size]


def _require_blosc(layout: ArrayLayout, path: str, stored: Bytes) -> None:
    if not layout.codecs or layout.codecs[-1]["name"].removeprefix("numcodecs.") != _BLOSC:
        return
    claimed = int.from_bytes(stored[4:8].tobytes(), "little")
    try:
        Header.read(stored[:HEADER_BYTES], len(stored), claimed)
        numbers = layout.dtype is not None and layout.dtype != TEXTS
        if numbers and claimed > _WIDER * layout.chunk_bytes:
            raise ValueError(f"a chunk of {layout.chunk_bytes} bytes, and it tells of {claimed}")
    except ValueError as problem:
        raise corrupt(path, str(problem)) from problem
