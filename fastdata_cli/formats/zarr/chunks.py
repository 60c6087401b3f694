"""The stored bytes of chunks: in files of their own, or in shards behind an index."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.formats.zarr.cache import Recent
from fastdata_cli.formats.zarr.layout import ArrayLayout

ABSENT = np.uint64(2**64 - 1)
"""Offset and length of a chunk that a shard does not have."""

_OPEN_FILES = 256
_INDEX_BYTES = 64 << 20
_CHECKSUM_BYTES = 4
_SCRATCH_BYTES = 4 << 20


class StoredFile:
    """An open file, closed when the last user lets go of it."""

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.path = path
        self.size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    def read_into(self, begin: int, out: memoryview) -> None:
        """Fill ``out``, bytes, from ``begin`` on."""
        while out:
            count = os.preadv(self._descriptor, [out], begin)
            if count == 0:
                raise corrupt(self.path, f"ends at {begin} bytes")
            out, begin = out[count:], begin + count

    def read(self, begin: int, size: int) -> bytes:
        """Return ``size`` bytes."""
        data = bytearray(size)
        self.read_into(begin, memoryview(data))
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Extent:
    """Where the stored bytes of one chunk lie."""

    file: StoredFile
    offset: int
    length: int

    def read(self, begin: int, size: int) -> bytes:
        """Return ``size`` of its stored bytes."""
        return self.file.read(self.offset + begin, size)


class ChunkStore:
    """Finds the chunks of an array that is cut along its first axis only.

    Errors are BadSampleError with the reason ``missing`` or ``corrupt`` that name the file.
    """

    def __init__(self, layout: ArrayLayout) -> None:
        self.layout = layout
        self.per_file = layout.file_shape[0] // layout.chunk[0]
        self._tail = (0,) * (len(layout.shape) - 1)
        self._files: Recent[StoredFile] = Recent(_OPEN_FILES)
        self._indices: Recent[NDArray[np.uint64]] = Recent(_INDEX_BYTES, lambda index: index.nbytes)
        self._scratch = threading.local()

    def locate(self, number: int) -> Extent:
        """Return where chunk ``number`` is stored."""
        if self.layout.shard is None:
            file = self._files.get(number, self._open)
            return Extent(file, 0, file.size)
        shard, inside = divmod(number, self.per_file)
        offset, length = self._indices.get(shard, self._load_index)[inside].tolist()
        file = self._files.get(shard, self._open)
        if offset == ABSENT:
            raise missing(f"{file.path} has no chunk {number} of {self.layout.label}")
        return Extent(file, offset, length)

    def stored(self, extent: Extent) -> memoryview:
        """Return the stored bytes; they are good until this thread asks again."""
        view = self.scratch(extent.length)
        extent.file.read_into(extent.offset, view)
        return view

    def scratch(self, size: int) -> memoryview:
        """Return memory of this thread, good until it asks again."""
        if size > _SCRATCH_BYTES:
            return memoryview(bytearray(size))
        buffer = getattr(self._scratch, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._scratch.buffer = bytearray(max(size, 1 << 16))
        return memoryview(buffer)[:size]

    def _open(self, number: int) -> StoredFile:
        path = self.layout.file(number, *self._tail)
        try:
            return StoredFile(path)
        except FileNotFoundError as problem:
            raise missing(f"{path} is not there") from problem

    def _load_index(self, shard: int) -> NDArray[np.uint64]:
        file = self._files.get(shard, self._open)
        return read_shard_index(file, self.per_file, at_end=bool(self.layout.index_at_end))


def read_shard_index(file: StoredFile, chunks: int, *, at_end: bool) -> NDArray[np.uint64]:
    """Return the checked index of a shard, uint64[chunks, 2]: offset and length of each chunk."""
    size = 16 * chunks + _CHECKSUM_BYTES
    if file.size < size:
        raise corrupt(file.path, f"{file.size} bytes cannot hold the index of a shard")
    data = file.read(file.size - size if at_end else 0, size)
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if _crc32c(body) != checksum:
        raise corrupt(file.path, "the checksum of its index does not match")
    index = np.frombuffer(body, "<u8").reshape(chunks, 2)
    ends = index[index[:, 0] != ABSENT].sum(axis=1)
    if len(ends) and ends.max() > file.size:
        raise corrupt(file.path, "its index points beyond its end")
    return index


def shard_index(extents: NDArray[np.uint64]) -> bytes:
    """Return the stored form of a shard's index, uint64[chunks, 2]."""
    body = extents.astype("<u8").tobytes()
    return body + _crc32c(body)


def missing(detail: str) -> BadSampleError:
    """Return the error for a piece that is not there."""
    return BadSampleError(reason="missing", detail=detail)


def corrupt(path: str, detail: str) -> BadSampleError:
    """Return the error for a file whose content is wrong."""
    return BadSampleError(reason="corrupt", detail=f"{path}: {detail}")


def _crc32c(data: bytes) -> bytes:
    import crc32c

    return int(crc32c.crc32c(data)).to_bytes(_CHECKSUM_BYTES, "little")
