"""The index of 64-bit hashes: grows one by one, finds all within a Hamming radius, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import UsageError
from fastdata_cli.quality.bands import MAX_RADIUS
from fastdata_cli.quality.scratch import Column
from fastdata_cli.quality.segments import Segment, neighbours

_TAIL = 1 << 13
"""Newest hashes, which are compared one by one. Looking through them takes as long as looking into
a segment does."""
_RATIO = 8
"""A segment is joined with the one before unless that is this many times as large."""

_NOTHING = (np.empty(0, np.int64), np.empty(0, np.uint8))


class HashIndex:
    """Finds hashes that differ from another in few bits; which bits does not matter.

    The newest hashes are compared one by one. From time to time they become a segment, which is
    joined with earlier ones so that sizes fall geometrically: the number of segments grows with the
    logarithm of the number of hashes. What is large is in unnamed files, not in memory.

    Args:
        radius: the most bits that ``query`` may be asked for, 0 to 16.
        hashes: uint64, the column to which hashes are added; what it holds already counts.

    Raises:
        UsageError: another radius.
    """

    def __init__(self, radius: int, hashes: Column | None = None) -> None:
        if not 0 <= radius <= MAX_RADIUS:
            raise UsageError(
                f"a radius must be 0 to {MAX_RADIUS} bits, not {radius}",
                hint="of two different pictures, about 32 differ",
            )
        self.radius = radius
        self._hashes = Column("<u8") if hashes is None else hashes
        self._segments: list[Segment] = []
        self._indexed = 0
        self._settle()

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, value: int) -> int:
        """Add one hash and return its number, counted from 0."""
        self._hashes.append(value)
        self._settle()
        return len(self._hashes) - 1

    def query(
        self, value: int, radius: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return every hash within a radius of ``value``.

        Args:
            value: the hash to compare with.
            radius: bits that may differ, at most that of the index, which is the default.

        Returns:
            int64[K] numbers in ascending order, and uint8[K] their distances in bits.
        """
        limit = self.radius if radius is None else radius
        wanted = np.uint64(value)
        newest, distances = neighbours(self._hashes.values[self._indexed :], wanted, limit)
        found = [(newest + self._indexed, distances)]
        found += [segment.search(wanted, limit) for segment in self._segments]
        found = [part for part in found if len(part[0])]
        if not found:
            return _NOTHING
        numbers, first = np.unique(np.concatenate([ids for ids, _ in found]), return_index=True)
        return numbers, np.concatenate([bits for _, bits in found])[first]

    def _settle(self) -> None:
        """Once there are enough newest hashes, make a segment of them.

        Earlier segments that are not much larger become part of it.
        """
        first, end = self._indexed, len(self._hashes)
        if end - first < _TAIL:
            return
        while self._segments and self._segments[-1].count < _RATIO * (end - first):
            first = self._segments.pop().first
        self._segments.append(Segment(self._hashes.values[first:end], first, self.radius))
        self._indexed = end
