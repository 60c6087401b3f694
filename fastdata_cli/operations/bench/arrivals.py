"""What arrived from a loader: each sample exactly once, and with the bytes of a plain read?"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.operations.bench.subject import Subject
from fastdata_cli.storage.table import checksum

_BATCH = 64


class Arrivals:
    """The samples of one epoch, as they came; order does not matter.

    Attributes:
        whole: whether the loader was asked for all of the epoch.
    """

    def __init__(self) -> None:
        self.whole = False
        self._positions: list[Positions] = []
        self._checksums: dict[int, int] = {}

    def add(self, positions: Positions, images: NDArray[Any]) -> None:
        """Take note of a batch: int64[N], and N images."""
        self._positions.append(positions.copy())
        for position, image in zip(positions.tolist(), images, strict=True):
            self._checksums[position] = checksum(image)

    @property
    def positions(self) -> Positions:
        """All positions, in order of arrival."""
        return np.concatenate([np.empty(0, np.int64), *self._positions])

    def each_once(self, subject: Subject) -> bool | None:
        """Return whether every readable sample came once; None if that was not seen to its end."""
        found = self.positions
        if len(np.unique(found)) < len(found):
            return False
        if not self.whole:
            return None
        missing = np.setdiff1d(np.arange(subject.facts.samples), found)
        return not len(_usable(subject, missing))

    def same_bytes(self, plain: PlainRead, seconds: float) -> bool | None:
        """Return whether the images equal those of a plain read; None if none were compared."""
        expected = plain.checksums(np.unique(self.positions), seconds)
        if not expected:
            return None
        return all(self._checksums[position] == value for position, value in expected.items())


class PlainRead:
    """Checksums of a dataset's images, as they are in a batch, read in this process."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._known: dict[int, int] = {}

    def checksums(self, positions: Positions, seconds: float) -> dict[int, int]:
        """Return the checksum by position, of those that can be read within ``seconds``."""
        deadline = time.perf_counter() + seconds
        wanted = positions.tolist()
        missing = [position for position in wanted if position not in self._known]
        for at in range(0, len(missing), _BATCH):
            part = np.array(missing[at : at + _BATCH], np.int64)
            images, _ = self._subject.source.pixels(part)
            pairs = zip(part.tolist(), images, strict=True)
            self._known.update((position, checksum(image)) for position, image in pairs)
            if time.perf_counter() >= deadline:
                break
        return {position: self._known[position] for position in wanted if position in self._known}


def _usable(subject: Subject, positions: Positions) -> Positions:
    """Return which of some samples a plain read does bring into a batch; note the others."""
    for position in subject.readable(positions).tolist():
        try:
            subject.source.pixels(np.array([position], np.int64))
        except BadSampleError as problem:
            subject.note_bad(position, problem)
        else:
            return np.array([position], np.int64)  # one is enough to know
    return np.empty(0, np.int64)
