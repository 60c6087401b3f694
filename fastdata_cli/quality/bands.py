"""Bands of 64-bit hashes: which buckets hold every hash within a Hamming radius of another.

Cut two hashes into ``m`` bands. If they differ in at most ``D`` bits, then with ``D = m q + a``
one of the first ``a + 1`` bands differs in at most ``q`` bits, or one of the others in at most
``q - 1``: else they differed in ``(a + 1)(q + 1) + (m - a - 1) q = D + 1``. So it is enough to look
into the buckets of that few flipped bits in each band (M. Norouzi, A. Punjani, D. Fleet, "Fast
Exact Search in Hamming Space with Multi-Index Hashing", 2014). The first bits of a band differ in
no more than the band does, so that buckets may go by these alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

BITS = 64
MAX_RADIUS = 16
_MAX_BANDS = 9
_MAX_WIDTH = 20
"""Bits that buckets may go by: so their numbers take 8 MB, however many hashes there are."""

# Nanoseconds, measured: to look into one bucket, and to compare one hash found there. Only their
# ratio counts.
_PROBE_NS, _GATHER_NS = 40.0, 4.0


@dataclass(frozen=True, slots=True)
class Band:
    """Some neighbouring bits of a hash, by which buckets are numbered."""

    shift: int
    """Bits of the hash below these."""
    width: int
    """How many: there are 2 ** width buckets."""
    radius: int
    """How many of them may differ."""
    base: int
    """Number of the first bucket, counted over all bands."""

    def buckets(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number within this band, from 0, of the bucket of each hash."""
        mask = np.uint64((1 << self.width) - 1)
        return ((hashes >> np.uint64(self.shift)) & mask).astype(np.int64)


@dataclass(frozen=True)
class Plan:
    """How hashes are put into buckets, and which buckets a search looks into."""

    bands: tuple[Band, ...]
    shifts: NDArray[np.uint64]
    """uint64[P], one element for each bucket to look into; so are the next three."""
    masks: NDArray[np.uint64]
    flips: NDArray[np.uint64]
    bases: NDArray[np.uint64]

    @property
    def num_buckets(self) -> int:
        """How many buckets there are in all bands."""
        return sum(1 << band.width for band in self.bands)

    def probes(self, value: np.uint64) -> NDArray[np.uint64]:
        """Return the numbers, over all bands, of the buckets in which to look for neighbours."""
        return (((value >> self.shifts) & self.masks) ^ self.flips) + self.bases


@cache
def choose_plan(log_count: int, radius: int) -> Plan:
    """Return the plan with the least expected work for one search among ``2 ** log_count`` hashes.

    Args:
        log_count: binary logarithm of the number of hashes.
        radius: bits that may differ, 0 to ``MAX_RADIUS``.
    """
    candidates = [
        _bands(number, log_count, radius) for number in range(1, min(radius + 1, _MAX_BANDS) + 1)
    ]
    return _plan(min(candidates, key=lambda bands: _cost(bands, log_count)))


def _bands(number: int, log_count: int, radius: int) -> tuple[Band, ...]:
    """Cut a hash into ``number`` bands; of each, no more bits are used than give full buckets."""
    quotient, remainder = divmod(radius, number)
    bands = []
    base, top = 0, BITS
    for index in range(number):
        whole = BITS // number + (index < BITS % number)
        width = min(whole, max(log_count, 1), _MAX_WIDTH)
        allowed = quotient if index <= remainder else quotient - 1
        bands.append(Band(top - width, width, allowed, base))
        base += 1 << width
        top -= whole
    return tuple(bands)


def _cost(bands: tuple[Band, ...], log_count: int) -> float:
    probes = [sum(comb(band.width, bits) for bits in range(band.radius + 1)) for band in bands]
    found = sum(
        count * 2.0 ** (log_count - band.width) for count, band in zip(probes, bands, strict=True)
    )
    return sum(probes) * _PROBE_NS + found * _GATHER_NS


def _plan(bands: tuple[Band, ...]) -> Plan:
    rows = [
        (band.shift, (1 << band.width) - 1, flip, band.base)
        for band in bands
        for flip in _flips(band.width, band.radius)
    ]
    shifts, masks, flips, bases = np.array(rows, np.uint64).T.copy()
    return Plan(bands, shifts, masks, flips, bases)


def _flips(width: int, radius: int) -> list[int]:
    """Return every pattern of at most ``radius`` ones among ``width`` bits."""
    return [
        sum(1 << position for position in positions)
        for count in range(radius + 1)
        for positions in combinations(range(width), count)
    ]
