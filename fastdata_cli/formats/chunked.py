"""Rows of arrays that are cut into chunks along their first axis: where each of them is stored.

What Zarr and HDF5 have in common. A format says where its chunks are (``ChunkIndex``); which bytes
of which chunks some rows are, and how little has to be decoded for them, is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.extents import AS_STORED, Codec, Column, Extents, Packing, cut
from fastdata_cli.formats.blosc import BloscBuffer
from fastdata_cli.formats.blosc_blocks import BlockIndex
from fastdata_cli.formats.located import Locator
from fastdata_cli.storage.gather import corrupt
from fastdata_cli.storage.mapping import FileMaps


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """Where some chunks are stored, whole."""

    file: Column
    offset: Column
    length: Column
    codec: NDArray[np.int8]
    """Which of the index's codecs they went through, or ``AS_STORED``."""


class ChunkIndex(Protocol):
    """Knows where the chunks of an array are; threads may share it."""

    files: FileMaps
    codecs: tuple[Codec, ...]

    def find(self, chunks: Column) -> StoredChunks:
        """Return where chunks are, by their numbers along the first axis.

        Raises:
            BadSampleError: one is missing, or what leads to it is damaged.
        """
        ...


class ChunkedRows:
    """Says where rows of an array are stored.

    Args:
        index: where its chunks are.
        chunks: how many there are.
        chunk_rows: rows in each.
        row_bytes: bytes of a row.
    """

    def __init__(self, index: ChunkIndex, chunks: int, chunk_rows: int, row_bytes: int) -> None:
        self.files = index.files
        self._index, self._rows, self._row_bytes = index, chunk_rows, row_bytes
        self._chunk_bytes = chunk_rows * row_bytes
        self._blocks = None
        if chunk_rows > 1 and any(isinstance(codec, BloscBuffer) for codec in index.codecs):
            self._blocks = BlockIndex(self.files, chunks, self._chunk_bytes, row_bytes)

    def locate(self, rows: Column) -> Extents:
        """Return where single rows are."""
        chunk, inside = np.divmod(rows, self._rows)
        size = np.full(len(rows), self._row_bytes)
        return self._extents(chunk, inside * self._row_bytes, size, None)

    def locate_runs(self, starts: Column, counts: Column) -> Extents:
        """Return where runs of rows are: samples, of ``counts`` rows each."""
        run, chunk, first, stop = cut(starts, counts, self._rows)
        begin = (first - chunk * self._rows) * self._row_bytes
        return self._extents(chunk, begin, (stop - first) * self._row_bytes, run)

    def _extents(self, chunk: Column, begin: Column, size: Column, run: Column | None) -> Extents:
        found = self._index.find(chunk)
        self._check_lengths(found)
        if (found.codec == AS_STORED).all():
            offset = found.offset + begin
            return Extents(self.files.path_of, found.file, offset, size, None, run)
        whole = np.full(len(chunk), self._chunk_bytes)
        packing = Packing(self._index.codecs, found.codec, whole, begin, size)
        columns = (found.file, found.offset, found.length)
        extents = Extents(self.files.path_of, *columns, packing, run)
        return extents if self._blocks is None else self._blocks.locate(extents, packing, chunk)

    def _check_lengths(self, found: StoredChunks) -> None:
        wrong = (found.codec == AS_STORED) & (found.length != self._chunk_bytes)
        if wrong.any():
            row = int(np.argmax(wrong))
            path = self.files.path_of(int(found.file[row]))
            detail = f"a chunk of {found.length[row]} bytes, not {self._chunk_bytes}"
            raise corrupt(path, detail)


class ChunkedImages(Locator):
    """A Locator of images that are rows of an array, or runs of its rows.

    Args:
        rows: of the array.
        runs: of encoded images, the first row of each and how many, int64[N] both; without it,
            each row is an image.
    """

    def __init__(self, rows: ChunkedRows, runs: tuple[Column, Column] | None = None) -> None:
        self.files = rows.files
        self._rows, self._runs = rows, runs

    def locate(self, indices: Column) -> Extents:
        """Return where the images are."""
        if self._runs is None:
            return self._rows.locate(indices)
        starts, counts = self._runs
        return self._rows.locate_runs(starts[indices], counts[indices])
