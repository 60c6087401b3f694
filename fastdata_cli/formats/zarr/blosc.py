"""Blosc chunks: whole ones to and from bytes, and single blocks out of large ones.

A Blosc 1 buffer is a header of 16 bytes, then (unless the data is stored as it was) a table of
int32 with the place of each block, then the blocks. Blocks are independent, so that some of them
become a buffer of their own behind a new header and table: a chunk of a thousand images whose
blocks are one image each is read at random as fast as a thousand chunks of one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.formats.zarr.options import SHUFFLES, Plan

HEADER_BYTES = 16
_HEADER = struct.Struct("<BBBBIII")
_STORED_AS_IT_WAS = 0x02


class CorruptChunkError(ValueError):
    """The stored bytes of a chunk are not what its codec writes."""


@dataclass(frozen=True, slots=True)
class Blosc:
    """How chunks are compressed: single-threaded, so that equal data gives equal bytes."""

    codec: str
    level: int
    shuffle: str
    block_bytes: int
    """0: Blosc decides."""
    item_bytes: int

    @classmethod
    def of(cls, plan: Plan, block_bytes: int, item_bytes: int) -> Blosc:
        """Return the compression that a plan asks for."""
        return cls(plan.codec, plan.level, plan.shuffle, block_bytes, item_bytes)

    def encode(self, data: NDArray[Any]) -> bytes:
        """Return a C-contiguous array as one Blosc buffer."""
        compressed: bytes = _blosc().compress(
            data.reshape(-1).view(np.uint8),
            self.codec.encode(),
            self.level,
            SHUFFLES.index(self.shuffle),
            self.block_bytes,
            self.item_bytes,
        )
        return compressed


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where the blocks of one buffer lie."""

    head: tuple[int, int, int, int]
    """Versions, flags and item size, as the header has them."""
    nbytes: int
    block_bytes: int
    starts: NDArray[np.int64] | None
    """Where each block begins, and where the last ends; None: stored as it was."""

    def cover(self, begin: int, end: int) -> tuple[int, int]:
        """Return the half-open range of blocks that holds bytes ``begin:end`` of the data."""
        first, last = begin // self.block_bytes, -(-end // self.block_bytes)
        if last * self.block_bytes > self.nbytes and first == last - 1 and first > 0:
            first -= 1  # a buffer may end in a short block, but not consist of one
        return first, last

    def frame(self, first: int, last: int) -> bytes:
        """Return header and table of a buffer that holds just these blocks."""
        assert self.starts is not None
        front = HEADER_BYTES + 4 * (last - first)
        starts = self.starts[first : last + 1] - self.starts[first] + front
        sizes = (self.data_range(first, last)[1], self.block_bytes, int(starts[-1]))
        table: bytes = starts[:-1].astype("<i4").tobytes()
        return _HEADER.pack(*self.head, *sizes) + table

    def stored_range(self, first: int, last: int) -> tuple[int, int]:
        """Return where these blocks begin in the buffer, and how many bytes they take there."""
        assert self.starts is not None
        return int(self.starts[first]), int(self.starts[last] - self.starts[first])

    def data_range(self, first: int, last: int) -> tuple[int, int]:
        """Return where these blocks begin in the data, and how many bytes of data they hold."""
        begin = first * self.block_bytes
        return begin, min(last * self.block_bytes, self.nbytes) - begin


def read_blocks(read: Callable[[int, int], bytes], stored: int, nbytes: int) -> Blocks | None:
    """Return where the blocks of a buffer lie.

    Args:
        read: returns ``size`` bytes of the buffer from ``begin``, as ``read(begin, size)``.
        stored: bytes of the buffer.
        nbytes: bytes of the data in it.

    Returns:
        None when the blocks are not in order, so that only the whole can be decoded.

    Raises:
        CorruptChunkError: this is not such a buffer.
    """
    version, codec_version, flags, item, _, block_bytes, _ = _checked(
        read(0, min(HEADER_BYTES, stored)), stored, nbytes
    )
    head = (version, codec_version, flags, item)
    if flags & _STORED_AS_IT_WAS:
        if stored != HEADER_BYTES + nbytes:
            raise CorruptChunkError(f"{stored} bytes hold {nbytes} that are not compressed")
        return Blocks(head, nbytes, max(block_bytes, 1), None)
    count = -(-nbytes // max(block_bytes, 1))
    front = HEADER_BYTES + 4 * count
    if not 0 < block_bytes <= nbytes or front > stored:
        raise CorruptChunkError(f"{nbytes} bytes in blocks of {block_bytes}")
    table = np.frombuffer(read(HEADER_BYTES, 4 * count), "<i4").astype(np.int64)
    starts = np.append(table, stored)
    if starts[0] != front or (np.diff(starts) <= 0).any():
        return None
    return Blocks(head, nbytes, block_bytes, starts)


def decompress(stored: memoryview | bytes, out: NDArray[np.uint8]) -> None:
    """Decode a whole buffer into ``out``, 1-D and of exactly the size of the data.

    Raises:
        CorruptChunkError: the buffer is not sound, or is not of this size.
    """
    _checked(stored, len(stored), out.nbytes)
    try:
        _blosc().decompress(stored, out)
    except (RuntimeError, ValueError) as problem:
        raise CorruptChunkError(str(problem)) from problem


def _checked(header: memoryview | bytes, stored: int, nbytes: int) -> tuple[int, ...]:
    # The library believes the header, and would read past the end of a buffer that is cut.
    if len(header) < HEADER_BYTES:
        raise CorruptChunkError(f"{len(header)} bytes are no Blosc buffer")
    fields = _HEADER.unpack_from(header)
    *_, found, _, size = fields
    if size != stored or found != nbytes:
        raise CorruptChunkError(
            f"its header tells of {found} bytes in {size}; expected are {nbytes} in {stored}"
        )
    return fields


def _blosc() -> Any:
    from numcodecs import blosc

    # Its own threads share one state per process: not fork-safe, and the bytes would vary.
    blosc.use_threads = False
    return blosc
