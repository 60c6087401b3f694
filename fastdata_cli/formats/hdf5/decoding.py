"""Undoes HDF5's filters without HDF5, outside the lock that it holds over all its calls."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from fastdata_cli.extents import Codec, Window
from fastdata_cli.formats.blosc import BloscBuffer
from fastdata_cli.formats.codecs import ByteShuffle, Chain, Lz4Block, ZlibStream, ZstdFrame
from fastdata_cli.formats.hdf5.filters import BLOSC, GZIP, LZ4, SHUFFLE, ZSTD, Filter

_LZ4_HEAD = struct.Struct(">QI")
_LZ4_LENGTH = struct.Struct(">I")


def codec_for(filters: Sequence[Filter], skipped: int = 0) -> Codec | None:
    """Return what undoes the filters of a chunk; None where there are none.

    Args:
        filters: of the dataset, in the order of writing.
        skipped: the chunk's filter mask; bit i is set where it did not go through filter i.

    Raises:
        LookupError: a filter, or the order of them, is not known here.
    """
    steps: list[Codec] = []
    for position, (number, values, name) in reversed(list(enumerate(filters))):
        if skipped >> position & 1:
            continue
        if number not in _KNOWN:
            raise LookupError(name)
        steps.append(_KNOWN[number](values))
    if not all(isinstance(step, ByteShuffle) for step in steps[1:]):
        raise LookupError("two filters that change the size")
    return Chain(*steps) if len(steps) > 1 else next(iter(steps), None)


class Lz4Filter:
    """LZ4 blocks of one size, each behind its length; one that did not get shorter is as it was.

    The layout is that of filter 32004 (H5Zlz4.c): all numbers are big-endian.
    """

    keeps = True

    def __init__(self) -> None:
        self._block = Lz4Block()

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out``."""
        data = stored.array.data
        total, each = _LZ4_HEAD.unpack_from(data) if stored.size >= _LZ4_HEAD.size else (-1, 0)
        if total != out.size or (each == 0 and total):
            raise ValueError(f"its first bytes tell of {total} bytes, not {out.size}")
        at, done = _LZ4_HEAD.size, 0
        while done < out.size:
            size = min(each, out.size - done)
            if at + _LZ4_LENGTH.size > stored.size:
                raise ValueError("it ends before its last block")
            length = _LZ4_LENGTH.unpack_from(data, at)[0]
            at += _LZ4_LENGTH.size
            if at + length > stored.size:
                raise ValueError("it ends in a block")
            self._decode_block(stored.part(at, length), out.part(done, size))
            at, done = at + length, done + size

    def _decode_block(self, stored: Window, out: Window) -> None:
        if stored.size == out.size:
            out.array[:] = stored.array
        else:
            self._block.decode(stored, out)


def _byte_shuffle(values: tuple[int, ...]) -> ByteShuffle:
    if not any(values[:1]):
        raise LookupError("a shuffle of items without bytes")
    return ByteShuffle(values[0])


_KNOWN: Mapping[int, Callable[[tuple[int, ...]], Codec]] = {
    GZIP: lambda _: ZlibStream(),
    SHUFFLE: _byte_shuffle,
    BLOSC: lambda _: BloscBuffer(),
    LZ4: lambda _: Lz4Filter(),
    ZSTD: lambda _: ZstdFrame(),
}
"""What undoes a filter, by its number and from its parameters."""
