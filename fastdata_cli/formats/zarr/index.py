"""Where the chunks of an array are: in files of their own, or in shards behind an index."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import AS_STORED, Bytes, Codec, Column
from fastdata_cli.formats.chunked import ChunkIndex, StoredChunks
from fastdata_cli.formats.zarr.files import Places
from fastdata_cli.formats.zarr.layout import ArrayLayout
from fastdata_cli.storage.gather import corrupt
from fastdata_cli.storage.table import lead_outside

ABSENT = np.uint64(2**64 - 1)
"""Offset and length of a chunk that a shard does not have."""

_CHECKSUM_BYTES = 4


def chunk_index(layout: ArrayLayout, codec: Codec | None) -> ChunkIndex:
    """Return what knows where the chunks of an array are that is cut along its first axis only.

    Args:
        layout: of the array.
        codec: that its chunks went through.
    """
    tail = (0,) * (len(layout.shape) - 1)
    places = layout.files.places(lambda number: layout.file(number, *tail))
    return _ChunkFiles(places, codec) if layout.shard is None else _Shards(places, codec, layout)


class _ChunkFiles:
    """Chunks in files of their own."""

    def __init__(self, places: Places, codec: Codec | None) -> None:
        self.files, self.codecs, self._places = places.maps, _codecs(codec), places

    def find(self, chunks: Column) -> StoredChunks:
        """Return where chunks are: each is a whole file."""
        return StoredChunks(*self._places.find(chunks), _which(self.codecs, chunks))


class _Shards:
    """Chunks in shards, whose indexes are read and checked when they are first needed.

    Errors are BadSampleError with the reason ``missing`` or ``corrupt`` that name the file.
    """

    def __init__(self, places: Places, codec: Codec | None, layout: ArrayLayout) -> None:
        assert layout.shard is not None
        self.files, self.codecs, self._layout = places.maps, _codecs(codec), layout
        self._places = places
        self._each = layout.shard[0] // layout.chunk[0]
        shards = len(layout.file_rows)
        self._row, self._read_so_far = np.full(shards, -1, np.int64), 0
        self._file, self._begin = np.zeros((2, shards), np.int64)
        # Grows by the indexes that were read: the metadata may claim any number of chunks.
        self._extents = np.empty((0, self._each, 2), np.int64)
        self._lock = threading.Lock()

    def find(self, chunks: Column) -> StoredChunks:
        """Return where chunks are."""
        shard, inside = np.divmod(chunks, self._each)
        if (self._row[shard] < 0).any():
            self._read(np.unique(shard))
        offset, length = self._extents[self._row[shard], inside].T
        if (offset < 0).any():
            row = int(np.argmax(offset < 0))
            path = self._path(int(shard[row]))
            raise missing(f"{path} has no chunk {chunks[row]} of {self._layout.label}")
        columns = (self._file[shard], self._begin[shard] + offset, length)
        return StoredChunks(*columns, _which(self.codecs, chunks))

    def _read(self, shards: Column) -> None:
        with self._lock:
            for shard in shards[self._row[shards] < 0].tolist():
                at_end = bool(self._layout.index_at_end)
                file, begin, size = map(int, np.ravel(self._places.find(np.array([shard]))))
                stored = self.files.get(file).data[begin : begin + size]
                index = read_shard_index(stored, self._path(shard), self._each, at_end=at_end)
                self._file[shard], self._begin[shard] = file, begin
                row = self._read_so_far
                self._make_room(row)
                self._extents[row] = index.view(np.int64)  # what is absent becomes -1
                self._row[shard] = row  # last: threads that see it see the index as well
                self._read_so_far += 1

    def _make_room(self, row: int) -> None:
        if row == len(self._extents):
            rows = min(2 * row + 1, len(self._row))
            grown = np.empty((rows, *self._extents.shape[1:]), np.int64)
            grown[:row] = self._extents
            self._extents = grown

    def _path(self, shard: int) -> str:
        tail = (0,) * (len(self._layout.shape) - 1)
        return self._layout.files.path(self._layout.file(shard, *tail))


def read_shard_index(stored: Bytes, path: str, chunks: int, *, at_end: bool) -> NDArray[np.uint64]:
    """Return the checked index of a shard, uint64[chunks, 2]: offset and length of each chunk.

    Args:
        stored: all bytes of the shard.
        path: names it in messages.
        chunks: how many it has.
        at_end: whether the index stands at its end, or at its begin.
    """
    size = 16 * chunks + _CHECKSUM_BYTES
    if len(stored) < size:
        raise corrupt(path, f"{len(stored)} bytes cannot hold the index of a shard")
    begin = len(stored) - size if at_end else 0
    data = stored[begin : begin + size].tobytes()
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if _crc32c(body) != checksum:
        raise corrupt(path, "the checksum of its index does not match")
    index = np.frombuffer(body, "<u8").reshape(chunks, 2)
    begins, lengths = index[index[:, 0] != ABSENT].astype(np.int64).T  # from 2^63 on: negative
    if lead_outside(begins, lengths, len(stored)):
        raise corrupt(path, "its index points beyond its end")
    return index


def shard_index(extents: NDArray[np.uint64]) -> bytes:
    """Return the stored form of a shard's index, uint64[chunks, 2]."""
    body = extents.astype("<u8").tobytes()
    return body + _crc32c(body)


def missing(detail: str) -> BadSampleError:
    """Return the error for a piece that is not there."""
    return BadSampleError(reason="missing", detail=detail)


def _codecs(codec: Codec | None) -> tuple[Codec, ...]:
    return () if codec is None else (codec,)


def _which(codecs: tuple[Codec, ...], chunks: Column) -> NDArray[np.int8]:
    return np.full(len(chunks), 0 if codecs else AS_STORED, np.int8)


def _crc32c(data: bytes) -> bytes:
    import crc32c

    return int(crc32c.crc32c(data)).to_bytes(_CHECKSUM_BYTES, "little")
