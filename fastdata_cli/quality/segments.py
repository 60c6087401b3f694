"""A segment: hashes put into buckets once and for all, to be searched by Hamming distance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.quality.bands import Band, choose_plan
from fastdata_cli.quality.scratch import scratch_array

_AT_ONCE = 1 << 20
"""Hashes that are put into buckets at a time; it bounds the memory of building."""


class Segment:
    """Some hashes in a row, with what it takes to search them.

    Buckets of all bands lie one after another; each hash is in one bucket of each band.

    Args:
        hashes: uint64[N], N < 2 ** 32; not kept.
        first: number of the first of them in the index.
        radius: largest distance that will be asked for.
    """

    def __init__(self, hashes: NDArray[np.uint64], first: int, radius: int) -> None:
        self.first = first
        self.count = len(hashes)
        self._plan = choose_plan(max(self.count - 1, 1).bit_length(), radius)
        entries = self.count * len(self._plan.bands)
        self._starts: NDArray[np.int64] = scratch_array(self._plan.num_buckets + 1, np.int64)
        self._hashes: NDArray[np.uint64] = scratch_array(entries, np.uint64)
        self._ids: NDArray[np.uint32] = scratch_array(entries, np.uint32)
        self._starts[0] = 0
        for number, band in enumerate(self._plan.bands):
            self._fill(hashes, band, number * self.count)

    def search(self, value: np.uint64, radius: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return numbers and distances of all hashes within ``radius``; the same may come twice."""
        places = self._places(value)
        near, distances = neighbours(self._hashes[places], value, radius)
        return self._ids[places[near]] + np.int64(self.first), distances

    def _places(self, value: np.uint64) -> NDArray[np.int64]:
        """Return where the hashes of all buckets lie that may hold a neighbour."""
        probes = self._plan.probes(value)
        if len(probes) == 1:
            bucket = int(probes[0])
            return np.arange(*self._starts[bucket : bucket + 2].tolist())
        begins = self._starts[probes]
        counts = self._starts[probes + _ONE] - begins
        ends = counts.cumsum()
        places = np.arange(ends[-1])
        places += np.repeat(begins - ends + counts, counts)
        return places

    def _fill(self, hashes: NDArray[np.uint64], band: Band, begin: int) -> None:
        """Put every hash into its bucket of one band; entries of the band start at ``begin``."""
        sizes = np.zeros(1 << band.width, np.int64)
        for _, part in _parts(hashes):
            sizes += np.bincount(band.buckets(part), minlength=len(sizes))
        ends = sizes.cumsum()
        self._starts[band.base + 1 : band.base + 1 + len(ends)] = ends + begin
        for low, high in _ranges(ends):
            chosen = [
                first + _within(band.buckets(part), low, high) for first, part in _parts(hashes)
            ]
            ids = np.concatenate(chosen)
            values = hashes[ids]
            order = np.argsort(band.buckets(values), kind="stable")
            place = begin + (int(ends[low - 1]) if low else 0)
            self._ids[place : place + len(ids)] = ids[order]
            self._hashes[place : place + len(ids)] = values[order]


_ONE = np.uint64(1)


def neighbours(
    hashes: NDArray[np.uint64], value: np.uint64, radius: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Compare with each hash; return positions and distances of those within ``radius``."""
    if radius == 0:
        equal = np.flatnonzero(hashes == value)
        return equal, np.zeros(len(equal), np.uint8)
    distances = np.bitwise_count(hashes ^ value)
    near = np.flatnonzero(distances <= radius)
    return near, distances[near]


def _parts(hashes: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    for first in range(0, len(hashes), _AT_ONCE):
        yield first, hashes[first : first + _AT_ONCE]


def _ranges(ends: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of buckets with about ``_AT_ONCE`` entries each, or one bucket that has more."""
    low = 0
    while low < len(ends):
        taken = int(ends[low - 1]) if low else 0
        high = max(int(np.searchsorted(ends, taken + _AT_ONCE, side="right")), low + 1)
        yield low, high
        low = high


def _within(buckets: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
    return np.flatnonzero((buckets >= low) & (buckets < high))
