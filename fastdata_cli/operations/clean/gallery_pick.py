"""Bounded choices among images, the same in every run however many threads judge."""

from __future__ import annotations

import bisect
from typing import Generic, TypeVar

import xxhash

Rank = tuple[float, int]
T = TypeVar("T")


def scatter(index: int) -> int:
    """Return a number that orders positions as if shuffled: the smallest are a uniform sample."""
    return xxhash.xxh3_64_intdigest(index.to_bytes(8, "little", signed=True))


class Pick(Generic[T]):
    """Keeps the items of the smallest ranks.

    One thread offers, any number may ask beforehand whether that is worth while: as the choice only
    ever gets narrower, none of them ever hears a wrong no.

    Args:
        most: how many items to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[Rank, T]] = []
        self._bound: Rank = (float("inf"), 0)

    def wants(self, rank: Rank) -> bool:
        """Return whether an item of this rank would be kept at this moment."""
        return rank < self._bound

    def offer(self, rank: Rank, item: T) -> None:
        """Keep the item if its rank is among the smallest."""
        if not self.wants(rank):
            return
        bisect.insort(self._kept, (rank, item), key=lambda each: each[0])
        del self._kept[self._most :]
        if len(self._kept) == self._most:
            self._bound = self._kept[-1][0]

    @property
    def items(self) -> tuple[T, ...]:
        """What is kept, by rank."""
        return tuple(item for _, item in self._kept)
