"""Blosc buffers: whole ones, and single blocks out of those that hold many samples.

A Blosc 1 buffer is a header of 16 bytes, then (unless the data is stored as it was) a table of
int32 with the place of each block, then the blocks, in any order. A block is compressed alone: one
or more streams, each behind an int32 with its length. So a chunk of a thousand images is read at
random as fast as a thousand chunks of one, if its blocks are not much larger than an image.

Specification: README_CHUNK_FORMAT.rst of c-blosc.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.extents import Bytes, Codec, Window
from fastdata_cli.formats.codecs import Lz4Block, Lz4Start, ZstdFrame

HEADER_BYTES = 16
STREAM_HEAD = 4
"""Bytes before a stream that say how long it is."""

_HEADER = struct.Struct("<BBBBIII")
_SHUFFLED, _AS_IT_WAS, _BIT_SHUFFLED, _NOT_SPLIT = 0x01, 0x02, 0x04, 0x10


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a buffer."""

    version: int
    codec_version: int
    flags: int
    item: int
    nbytes: int
    block_bytes: int
    stored: int

    @classmethod
    def read(cls, buffer: Bytes, stored: int, nbytes: int) -> Header:
        """Read and check the header of a buffer.

        Args:
            buffer: its first bytes.
            stored: bytes that are stored of it.
            nbytes: bytes that it must decode to.

        Raises:
            ValueError: it is no such buffer.
        """
        # The library believes the header, and would read past the end of a buffer that is cut.
        if len(buffer) < HEADER_BYTES:
            raise ValueError(f"{len(buffer)} bytes are no Blosc buffer")
        header = cls(*_HEADER.unpack_from(buffer.data))
        if header.stored != stored or header.nbytes != nbytes:
            raise ValueError(
                f"its header tells of {header.nbytes} bytes in {header.stored}; "
                f"expected are {nbytes} in {stored}"
            )
        return header

    @property
    def as_it_was(self) -> bool:
        """Whether the data follows the header as it was."""
        return bool(self.flags & _AS_IT_WAS)

    @property
    def plain_stream(self) -> int:
        """The codec whose stream a block is, behind its length; 0 where it is more than that."""
        one_stream = self.item == 1 or self.flags & _NOT_SPLIT
        rearranged = self.flags & _BIT_SHUFFLED or (self.flags & _SHUFFLED and self.item > 1)
        codec = self.flags >> 5
        return codec if codec in _STREAMS and one_stream and not rearranged else 0

    def is_like(self, other: Header) -> bool:
        """Return whether blocks of another buffer are of the same kind and size."""
        kinds = ((each.version, each.flags & ~_AS_IT_WAS, each.item) for each in (self, other))
        return len(set(kinds)) == 1 and self.block_bytes == other.block_bytes

    def table(self, buffer: Bytes) -> NDArray[np.int32]:
        """Return where each block begins in the buffer.

        Raises:
            ValueError: the table cannot be.
        """
        count = -(-self.nbytes // max(self.block_bytes, 1))
        front = HEADER_BYTES + 4 * count
        if not 0 < self.block_bytes <= self.nbytes or front > len(buffer):
            raise ValueError(f"{self.nbytes} bytes in blocks of {self.block_bytes}")
        table = np.frombuffer(buffer[HEADER_BYTES:front], "<i4").astype(np.int32)
        if table.min() < front or table.max() >= len(buffer):
            raise ValueError("its blocks are outside of it")
        return table

    def frame(self, block: int, stored: int) -> bytes:
        """Return header and table of a buffer that holds one block, of ``block`` bytes."""
        front = HEADER_BYTES + STREAM_HEAD
        flags = self.flags & ~_AS_IT_WAS
        if block < self.block_bytes:  # the last one, and short: it is one stream
            flags |= _NOT_SPLIT
        head = (self.version, self.codec_version, flags, self.item)
        return _HEADER.pack(*head, block, block, front + stored) + front.to_bytes(4, "little")


class BloscBuffer:
    """A whole buffer."""

    keeps = True

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        buffer = stored.array
        Header.read(buffer, stored.size, out.size)
        decompress(buffer, out.array)


class FramedBlock:
    """A block of any kind: the library decodes it behind a header of its own.

    Args:
        header: of a buffer that the blocks are from.
        keeps: as ``Codec.keeps``.
    """

    def __init__(self, header: Header, *, keeps: bool) -> None:
        self.keeps = keeps
        self._header = header

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        frame = self._header.frame(out.size, stored.size)
        buffer = np.empty(len(frame) + stored.size, np.uint8)
        buffer[: len(frame)] = np.frombuffer(frame, np.uint8)
        buffer[len(frame) :] = stored.array
        decompress(buffer, out.array)


def block_codec(header: Header, *, keeps: bool) -> Codec:
    """Return what decodes a block: the stream behind its length where it is only that."""
    stream = header.plain_stream
    return _STREAMS[stream](keeps=keeps) if stream else FramedBlock(header, keeps=keeps)


def start_codec(header: Header) -> Codec | None:
    """Return what decodes only the first bytes of a block; None where nothing does."""
    try:
        return Lz4Start() if header.plain_stream == _LZ4 else None
    except LookupError:
        return None


def decompress(buffer: Bytes, out: Bytes) -> None:
    """Decode a whole buffer into ``out``, 1-D and of exactly the size of the data.

    Raises:
        ValueError: the buffer is not sound.
    """
    from numcodecs import blosc

    # Its own threads share one state per process: not fork-safe, and decoding holds the lock.
    blosc.use_threads = False
    try:
        blosc.decompress(buffer, out)
    except RuntimeError as problem:
        raise ValueError(str(problem)) from problem


_LZ4, _ZSTD = 1, 4
_STREAMS: Mapping[int, Callable[..., Codec]] = {_LZ4: Lz4Block, _ZSTD: ZstdFrame}
"""Codecs by the number that Blosc gives them."""
