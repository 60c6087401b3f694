"""Where samples are stored: what a reader says, and the gather core moves into a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Column = NDArray[np.int64]

AS_STORED = -1
"""In ``Packing.codec``: the bytes are stored as they are."""


class Window:
    """A range of a 1-D array of bytes, and where it is in memory.

    NumPy takes longer to tell an address than LZ4 takes for some kilobytes: it is asked once for
    a whole file or batch.

    Args:
        base: the whole array.
        address: where ``base`` is in memory.
        begin: where the range begins in it.
        size: bytes of the range.
    """

    __slots__ = ("_base", "_begin", "address", "size")

    def __init__(self, base: Bytes, address: int, begin: int, size: int) -> None:
        self._base, self._begin = base, begin
        self.address = address + begin
        self.size = size

    @classmethod
    def over(cls, array: Bytes) -> Window:
        """Return the window that is a whole array, 1-D and contiguous."""
        return cls(array, array.ctypes.data, 0, len(array))

    @property
    def array(self) -> Bytes:
        """The range as an array."""
        return self._base[self._begin : self._begin + self.size]

    def part(self, begin: int, size: int) -> Window:
        """Return a range of the range, which the caller has checked to lie in it."""
        return Window(self._base, self.address - self._begin, self._begin + begin, size)


class Codec(Protocol):
    """Undoes what a container did to some bytes before it stored them; threads may share it."""

    keeps: bool
    """Whether what it decodes is worth keeping while its neighbours are asked for: true where
    only the whole of a chunk can be decoded, false where it is about as small as a sample."""

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out`` with exactly what ``stored`` was made from, the interpreter lock released.

        Raises:
            ValueError: ``stored`` is damaged, or was made from more or fewer bytes.
        """
        ...


@dataclass(frozen=True, slots=True)
class Packing:
    """What stands between the stored bytes of some rows and the bytes wanted. M rows each."""

    codecs: tuple[Codec, ...]
    codec: NDArray[np.int8]
    """Which of ``codecs`` a row went through, or ``AS_STORED``."""
    whole: Column
    """Bytes that a codec makes of all that is stored."""
    begin: Column
    """Where the wanted ones begin among them."""
    size: Column
    """How many are wanted."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Images of one size that lie in one file, one after another: image i is row i."""

    start: int
    """Where the first begins."""
    each: int
    """Bytes of an image."""
    count: int
    file: int = 0
    """Number of the file."""


@dataclass(frozen=True, slots=True)
class Extents:
    """Where some samples are stored: M rows, whose bytes, end to end, are the samples in order.

    A row is a range of a file. Without ``packing`` it is wanted as it is; else a codec makes other
    bytes of it, and some of these are wanted. A sample has more than one row where it lies in more
    than one chunk of its container, and none where it is empty.
    """

    path_of: Callable[[int], str]
    """Returns the path of a file by its number."""
    file: Column
    """Number of the file."""
    offset: Column
    """Where the range begins in it."""
    length: Column
    """Bytes of the range."""
    packing: Packing | None = None
    sample: Column | None = None
    """The position, among those asked for, that a row belongs to; ascending. None: each sample
    has one row."""

    def __len__(self) -> int:
        return len(self.file)

    @property
    def sizes(self) -> Column:
        """Bytes that each row adds to the batch."""
        return self.length if self.packing is None else self.packing.size

    def sample_sizes(self, samples: int) -> Column:
        """Return the bytes of each of the samples asked for, int64[samples]."""
        if self.sample is None:
            return self.sizes
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        return np.diff(ends[np.searchsorted(self.sample, np.arange(samples + 1))])

    def first(self, size: int) -> Extents:
        """Return the extents of the first ``size`` bytes, or of all if there are fewer."""
        sizes = self.sizes
        before = np.cumsum(sizes) - sizes
        rows = before < size
        wanted = np.minimum(sizes, size - before)[rows]
        packing = self.packing
        if packing is not None:
            columns = (packing.codec[rows], packing.whole[rows], packing.begin[rows])
            packing = Packing(packing.codecs, *columns, wanted)
        return Extents(
            self.path_of,
            self.file[rows],
            self.offset[rows],
            wanted if packing is None else self.length[rows],
            packing,
            None if self.sample is None else self.sample[rows],
        )


def cut(starts: Column, counts: Column, each: int) -> tuple[Column, Column, Column, Column]:
    """Cut runs at every multiple of ``each``.

    Returns:
        Of each piece: its run, the number of the multiple, its first position, its last one + 1.
    """
    low = starts // each
    number = np.where(counts > 0, (starts + counts - 1) // each - low + 1, 0)
    run = np.repeat(np.arange(len(starts)), number)
    multiple = low[run] + np.arange(len(run)) - np.repeat(np.cumsum(number) - number, number)
    first = np.maximum(starts[run], multiple * each)
    stop = np.minimum((starts + counts)[run], (multiple + 1) * each)
    return run, multiple, first, stop
