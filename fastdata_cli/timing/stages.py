"""Where the time of a run went, by stage; safe to feed from several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Stage:
    """The sum of one stage over all threads."""

    name: str
    seconds: float
    calls: int


class StageClock:
    """Adds up the seconds of named stages. Stages of several threads may exceed the wall clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, tuple[float, int]] = {}
        self._started = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of the block under ``name``."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - begin)

    def add(self, name: str, seconds: float) -> None:
        """Count ``seconds`` under ``name``."""
        with self._lock:
            total, calls = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + seconds, calls + 1)

    def timed(self, name: str, function: Callable[[T], R]) -> Callable[[T], R]:
        """Return ``function`` with its calls counted under ``name``."""

        def run(item: T) -> R:
            with self.stage(name):
                return function(item)

        return run

    def drawn(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Yield ``items``, counting the time it takes to draw them under ``name``."""
        iterator = iter(items)
        while True:
            begin = time.perf_counter()
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self.add(name, time.perf_counter() - begin)
            yield item

    @property
    def wall(self) -> float:
        """Seconds since this clock was made."""
        return time.perf_counter() - self._started

    def stages(self) -> tuple[Stage, ...]:
        """Return the stages in the order in which they were first seen."""
        with self._lock:
            return tuple(Stage(name, *total) for name, total in self._sums.items())
