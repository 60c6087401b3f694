"""Rows of an array whose codecs are plain, read from its chunk and shard files directly."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import UnsupportedError
from fastdata_cli.formats.zarr.blosc import (
    HEADER_BYTES,
    Blocks,
    CorruptChunkError,
    decompress,
    read_blocks,
)
from fastdata_cli.formats.zarr.cache import Recent
from fastdata_cli.formats.zarr.chunks import ChunkStore, Extent, corrupt
from fastdata_cli.formats.zarr.layout import ArrayLayout

Bytes = NDArray[np.uint8]

_DECODED_BYTES = 128 << 20
_TABLE_BYTES = 32 << 20
# What codecs raise over bytes that are not theirs.
DECODE_ERRORS = (RuntimeError, ValueError, OSError, EOFError, zlib.error, lzma.LZMAError)


class PlainRows:
    """Reads chunk and shard files directly; they are closed when it is let go of."""

    def __init__(self, layout: ArrayLayout) -> None:
        assert layout.dtype is not None
        self._chunks = ChunkStore(layout)
        self._row_bytes = int(np.prod(layout.shape[1:], dtype=np.int64)) * layout.dtype.itemsize
        self._rows = layout.chunk[0]
        self._chunk_bytes = self._rows * self._row_bytes
        codec = layout.compressor
        self._blosc = codec is not None and codec["name"] == "blosc"
        self._decode = None if codec is None or self._blosc else decoder(layout)
        self._tables: Recent[Blocks | None] = Recent(_TABLE_BYTES, _weight)
        self._decoded: Recent[Bytes] = Recent(_DECODED_BYTES, lambda chunk: chunk.nbytes)
        self.random = codec is None or self._blosc or self._rows == 1

    def read(self, start: int, stop: int, out: Bytes) -> None:
        """Fill ``out`` with rows ``start`` to ``stop``."""
        done = 0
        while start < stop:
            number, inside = divmod(start, self._rows)
            end = min(stop, start - inside + self._rows)
            size = (end - start) * self._row_bytes
            self._read_chunk(number, inside * self._row_bytes, out[done : done + size])
            start, done = end, done + size

    def _read_chunk(self, number: int, begin: int, out: Bytes) -> None:
        extent = self._chunks.locate(number)
        try:
            if self._decode is not None:
                whole = self._decoded.get(number, self._decode_whole)
                out[:] = whole[begin : begin + out.nbytes]
            elif not self._blosc:
                self._copy(extent, begin, out)
            elif out.nbytes == self._chunk_bytes:
                decompress(self._chunks.stored(extent), out)
            else:
                self._read_blocks(number, extent, begin, out)
        except CorruptChunkError as problem:
            raise corrupt(extent.file.path, str(problem)) from problem

    def _copy(self, extent: Extent, begin: int, out: Bytes) -> None:
        if extent.length != self._chunk_bytes:
            raise CorruptChunkError(f"a chunk of {extent.length} bytes, not {self._chunk_bytes}")
        extent.file.read_into(extent.offset + begin, out.data)

    def _decode_whole(self, number: int) -> Bytes:
        assert self._decode is not None
        decoded = self._decode(self._chunks.stored(self._chunks.locate(number)))
        if decoded.nbytes != self._chunk_bytes:
            raise CorruptChunkError(f"decodes to {decoded.nbytes} bytes, not {self._chunk_bytes}")
        return decoded

    def _read_blocks(self, number: int, extent: Extent, begin: int, out: Bytes) -> None:
        """Decode only the blocks that hold the bytes wanted."""
        blocks = self._tables.get(
            number, lambda _: read_blocks(extent.read, extent.length, self._chunk_bytes)
        )
        if blocks is None:
            whole = np.empty(self._chunk_bytes, np.uint8)
            decompress(self._chunks.stored(extent), whole)
            out[:] = whole[begin : begin + out.nbytes]
            return
        if blocks.starts is None:
            extent.file.read_into(extent.offset + HEADER_BYTES + begin, out.data)
            return
        first, last = blocks.cover(begin, begin + out.nbytes)
        frame, (at, size) = blocks.frame(first, last), blocks.stored_range(first, last)
        buffer = self._chunks.scratch(len(frame) + size)
        buffer[: len(frame)] = frame
        extent.file.read_into(extent.offset + at, buffer[len(frame) :])
        origin, size = blocks.data_range(first, last)
        exact = origin == begin and size == out.nbytes
        target = out if exact else np.empty(size, np.uint8)
        decompress(buffer, target)
        if not exact:
            out[:] = target[begin - origin : begin - origin + out.nbytes]


def decoder(layout: ArrayLayout) -> Callable[[memoryview], Bytes]:
    """Return a function that undoes the compressor, not Blosc, of a plain array.

    Raises:
        UnsupportedError: there is no such codec here.
    """
    codec = layout.compressor
    if codec is None:
        return lambda stored: np.frombuffer(stored, np.uint8).copy()
    from numcodecs import get_codec

    config = {key: value for key, value in codec.items() if key != "name"}
    try:
        library = get_codec({"id": codec["name"], **config})
    except (TypeError, ValueError, LookupError, ImportError) as problem:
        raise UnsupportedError(
            f"{layout.folder}: the codec {codec['name']} of {layout.label!r} cannot be set up as "
            f"its metadata says ({problem})"
        ) from problem

    def decode(stored: memoryview) -> Bytes:
        try:
            return np.frombuffer(library.decode(stored), np.uint8)
        except DECODE_ERRORS as problem:
            raise CorruptChunkError(str(problem)) from problem

    return decode


def _weight(blocks: Blocks | None) -> int:
    return 200 if blocks is None or blocks.starts is None else 200 + blocks.starts.nbytes
