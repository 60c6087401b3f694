"""Single blocks of Blosc chunks that hold many samples: where each of them is stored."""

from __future__ import annotations

import threading

import numpy as np

from fastdata_cli.extents import AS_STORED, Bytes, Column, Extents, Packing, cut
from fastdata_cli.formats.blosc import (
    HEADER_BYTES,
    STREAM_HEAD,
    BloscBuffer,
    Header,
    block_codec,
    start_codec,
)
from fastdata_cli.storage.gather import corrupt
from fastdata_cli.storage.mapping import FileMaps

_UNREAD, _IN_BLOCKS, _AS_IT_WAS, _ONLY_WHOLE = range(4)

# A block of so many samples is kept for its other samples; a smaller one is decoded again.
_MANY_SAMPLES = 4

# Of all chunks. Their tables then take 1 GiB; tables of more are no use beside what they lead to.
_MOST_BLOCKS = 1 << 27


class BlockIndex:
    """Where the blocks of Blosc chunks are, read from each chunk when it is first needed.

    All chunks are expected to have blocks of the same kind and size. One that has not, and one
    whose table makes no sense, is left to the library as a whole.

    Args:
        files: that the chunks are in.
        chunks: how many there are.
        chunk_bytes: bytes that each decodes to.
        wanted: bytes that are usually asked for.
    """

    def __init__(self, files: FileMaps, chunks: int, chunk_bytes: int, wanted: int) -> None:
        self._files, self._chunk_bytes, self._wanted = files, chunk_bytes, wanted
        self._kind = np.zeros(chunks, np.int8)
        self._lock = threading.Lock()
        self._like: _Blocks | None = None

    def locate(self, extents: Extents, packing: Packing, chunk: Column) -> Extents:
        """Return extents of the blocks that hold what is wanted of whole chunks."""
        self._read_new(extents, packing, chunk)
        blocks = self._like
        if blocks is None:
            return extents
        row, block, first, stop = cut(packing.begin, packing.size, blocks.bytes)
        chunk, kind = chunk[row], self._kind[chunk[row]]
        origin = block * blocks.bytes
        whole = np.minimum(self._chunk_bytes - origin, blocks.bytes)
        start, end = blocks.starts[chunk, block], blocks.ends[chunk, block]
        alone = kind != _ONLY_WHOLE
        codec = np.where(alone, len(packing.codecs), packing.codec[row]).astype(np.int8)
        as_stored = kind == _AS_IT_WAS
        if blocks.streams:  # one that did not get shorter is no stream
            as_stored |= alone & (end - start == whole)
        codec[as_stored] = AS_STORED
        codecs = (*packing.codecs, blocks.codec)
        if blocks.start_codec is not None:
            starts = alone & ~as_stored & (first == origin) & (stop - first < whole)
            codec[starts] = len(codecs)
            whole = np.where(starts, stop - first, whole)
            codecs = (*codecs, blocks.start_codec)
        return Extents(
            extents.path_of,
            extents.file[row],
            np.where(alone, extents.offset[row] + start, extents.offset[row]),
            np.where(alone, end - start, extents.length[row]),
            Packing(
                codecs,
                codec,
                np.where(alone, whole, self._chunk_bytes),
                np.where(alone, first - origin, first),
                stop - first,
            ),
            row if extents.sample is None else extents.sample[row],
        )

    def _read_new(self, extents: Extents, packing: Packing, chunk: Column) -> None:
        new = np.flatnonzero(self._kind[chunk] == _UNREAD)
        if not len(new):
            return
        with self._lock:
            for row in new[np.unique(chunk[new], return_index=True)[1]].tolist():
                codec = int(packing.codec[row])
                kind = _ONLY_WHOLE
                if codec != AS_STORED and isinstance(packing.codecs[codec], BloscBuffer):
                    kind = self._read(extents, row, int(chunk[row]))
                self._kind[chunk[row]] = kind  # last: threads that see it see the table as well

    def _read(self, extents: Extents, row: int, chunk: int) -> int:
        """Read the table of a chunk; return what kind it is of."""
        file = self._files.get(int(extents.file[row]))
        offset, length = int(extents.offset[row]), int(extents.length[row])
        buffer = file.data[offset : offset + length]
        try:
            header = Header.read(buffer, length, self._chunk_bytes)
            if self._like is None:
                if not header.as_it_was:
                    header.table(buffer)  # there is one: only then it takes memory
                if len(self._kind) * _count(header) > _MOST_BLOCKS:
                    return _ONLY_WHOLE
                self._like = _Blocks(header, len(self._kind), self._wanted)
            return self._like.read(chunk, header, buffer)
        except ValueError as problem:
            raise corrupt(file.path, str(problem)) from problem


class _Blocks:
    """The tables of chunks whose blocks are like those of the first one that was read."""

    def __init__(self, header: Header, chunks: int, wanted: int) -> None:
        self._header = header
        self.bytes = _block_bytes(header)
        self.streams = header.plain_stream != 0
        keeps = self.bytes >= _MANY_SAMPLES * wanted
        self.codec = block_codec(header, keeps=keeps)
        self.start_codec = None if keeps else start_codec(header)
        shape = (chunks, _count(header))
        self.starts, self.ends = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        """Where each block, or the stream that it is, lies in its chunk: int32[chunks, blocks]."""

    def read(self, chunk: int, header: Header, buffer: Bytes) -> int:
        """Take in a chunk and return its kind.

        Raises:
            ValueError: it cannot be a buffer with this header.
        """
        starts, ends = self.starts[chunk], self.ends[chunk]
        if header.as_it_was:
            if len(buffer) != HEADER_BYTES + header.nbytes:
                raise ValueError(f"{len(buffer)} bytes hold {header.nbytes} as they were")
            starts[:] = HEADER_BYTES + np.arange(len(starts)) * self.bytes
            ends[:] = np.append(starts[1:], len(buffer))
            return _AS_IT_WAS
        table = header.table(buffer)
        if not self._header.is_like(header):
            return _ONLY_WHOLE
        order = np.argsort(table)
        # Blosc's threads write blocks as they are done: one ends where the next in the file begins.
        behind = np.append(table[order][1:], len(buffer))
        if (behind <= table[order] + STREAM_HEAD).any():
            return _ONLY_WHOLE
        starts[:] = table + (STREAM_HEAD if self.streams else 0)
        ends[order] = behind
        return _IN_BLOCKS


def _block_bytes(header: Header) -> int:
    return header.block_bytes if 0 < header.block_bytes <= header.nbytes else header.nbytes


def _count(header: Header) -> int:
    """Return how many blocks a buffer has."""
    return -(-header.nbytes // _block_bytes(header))
