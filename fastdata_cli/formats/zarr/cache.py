"""A bounded cache of what was used last: open files, indices, decoded chunks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


def _one(value: object) -> int:
    return 1


class Recent(Generic[V]):
    """Values by number; those used longest ago go first. Threads may share it.

    A value that is dropped while a thread still uses it lives until that thread lets go.

    Args:
        limit: how much weight is kept; the newest value stays, whatever it weighs.
        weigh: the weight of one value; by default each weighs 1.
    """

    def __init__(self, limit: int, weigh: Callable[[V], int] = _one) -> None:
        self._limit = limit
        self._weigh = weigh
        self._values: OrderedDict[int, V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, number: int, make: Callable[[int], V]) -> V:
        """Return the value of ``number``, made by ``make(number)`` if it is not here."""
        with self._lock:
            if number in self._values:
                self._values.move_to_end(number)
                return self._values[number]
        value = make(number)  # outside the lock: others need not wait for a disk or a codec
        with self._lock:
            if number not in self._values:
                self._values[number] = value
                self._weight += self._weigh(value)
            while self._weight > self._limit and len(self._values) > 1:
                _, dropped = self._values.popitem(last=False)
                self._weight -= self._weigh(dropped)
        return value
