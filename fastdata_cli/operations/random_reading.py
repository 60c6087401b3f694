"""Batches at random from a reader, for as long as the harness wants: how fast a format is read."""

from __future__ import annotations

import time
from typing import Any

from fastdata_cli.contract import Reader
from fastdata_cli.loading.fastloader import FastLoader
from fastdata_cli.timing.measure import Case, Work

_ENDLESS = 1 << 30
_BATCH = 64


class RandomReading:
    """A FastLoader over a reader that runs on from repeat to repeat.

    Args:
        name: of the case.
        reader: of samples that lie in the page cache.
        size: (height, width) that encoded images are brought to; None for pixels.
        seconds: of a repeat.
    """

    def __init__(
        self, name: str, reader: Reader, size: tuple[int, int] | None, seconds: float
    ) -> None:
        self._loader = FastLoader(
            reader,
            min(_BATCH, len(reader)),
            size=size,
            epochs=_ENDLESS,
            arrays="numpy",
            on_bad="skip",
        )
        self._seconds = seconds
        self._batches: Any = None
        self.case = Case(name=name, run=self._run, prepare=self._prepare)

    def close(self) -> None:
        """End the threads."""
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()

    def _prepare(self) -> None:
        """Start anew, and take what is made ahead: what is timed is made while it is timed."""
        self.close()
        self._batches = iter(self._loader)
        for _ in range(self._loader.prefetch + 1):
            next(self._batches)

    def _run(self) -> Work:
        samples = size = 0
        stop_at = time.perf_counter() + self._seconds
        while time.perf_counter() < stop_at:
            images, _ = next(self._batches)
            samples, size = samples + len(images), size + images.nbytes
        self.close()
        return Work(samples=samples, bytes=size)
