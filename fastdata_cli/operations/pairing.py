"""Pairs the samples of two datasets by key: arrays only, whatever the number of samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.key_table import KeyTable

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Pairing:
    """Which samples of two datasets have the same key.

    A key that occurs several times is paired in order: first with first, second with second.
    """

    first: Positions
    """int64[P], ascending: positions in the first dataset that have a partner."""
    second: Positions
    """int64[P]: their partners."""
    only_first: Positions
    only_second: Positions

    @property
    def same_order(self) -> bool:
        """Whether the partners stand in the same order in both."""
        return bool((np.diff(self.second) > 0).all())


def pair(first: KeyTable, second: KeyTable) -> Pairing:
    """Pair two tables of keys by xxh3-64 of their text forms, then by the texts themselves."""
    ours, theirs = _marks(first), _marks(second)
    order = np.argsort(theirs)
    at = np.minimum(np.searchsorted(theirs, ours, sorter=order), max(len(theirs) - 1, 0))
    found = theirs[order[at]] == ours if len(theirs) else np.zeros(len(ours), bool)
    left = np.flatnonzero(found)
    right = order[at[found]]
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    same = np.fromiter((first.text(i) == second.text(j) for i, j in pairs), bool, len(left))
    left, right = left[same], right[same]
    return Pairing(left, right, _others(left, len(first)), _others(right, len(second)))


def _marks(table: KeyTable) -> NDArray[np.uint64]:
    """Return a number for each key that also counts how often it stood there before."""
    hashes = np.fromiter(
        (
            xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogateescape"))
            for text in table.texts()
        ),
        np.uint64,
        len(table),
    )
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])) if len(ranked) else order
    counts = np.diff(np.append(starts, len(ranked)))
    before = np.arange(len(ranked)) - np.repeat(starts, counts)
    hashes[order] += before.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return hashes


def _others(taken: Positions, count: int) -> Positions:
    rest = np.ones(count, bool)
    rest[taken] = False
    return np.flatnonzero(rest)
