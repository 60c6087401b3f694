"""Orders of requests: endless streams of positions, by sample or by batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from fastdata_cli.loading.orders import sampler_for
from fastdata_cli.loading.samplers import BatchSampler, Positions
from fastdata_cli.operations.bench.subject import Subject

GRAINS = ("sample", "batch")


class Requests:
    """What is asked for, one request after the other; several threads may take from it.

    Epoch follows epoch, so that each run goes on where the one before ended, and a dataset that is
    larger than one run is not judged by its first samples alone.

    Args:
        subject: the dataset; samples that are known to be bad are left out.
        order: a word of SAMPLERS.
        batch_size: samples of a request; None asks for single samples.
        once: end with the epoch, and begin a new one after ``restart``.
    """

    def __init__(
        self, subject: Subject, order: str, batch_size: int | None, *, once: bool = False
    ) -> None:
        self._subject = subject
        self._sampler = sampler_for(subject.reader, order)
        self._batch_size = batch_size
        self._once = once
        self._lock = threading.Lock()
        self._stream = self._endless()

    def restart(self) -> None:
        """Begin a new epoch."""
        self._stream = self._endless()

    def take(self) -> Positions | None:
        """Return the next request; None at the end of an epoch that is not repeated."""
        with self._lock:
            return next(self._stream, None)

    def _endless(self) -> Iterator[Positions]:
        while True:
            yield from self._epoch()
            if self._once:
                return

    def _epoch(self) -> Iterator[Positions]:
        for positions in self._pieces():
            readable = self._subject.readable(positions)
            if len(readable):
                yield readable

    def _pieces(self) -> Iterator[Positions]:
        if self._batch_size is not None:
            yield from BatchSampler(self._sampler, self._batch_size)
            return
        for piece in self._sampler.pieces():
            yield from piece[:, np.newaxis]


def whole_blocks(subject: Subject, least: int) -> Positions:
    """Return positions that a chunked dataset can be charged fairly for.

    Whole blocks in random order, each shuffled within itself: a chunk that is decompressed serves
    all of its samples, as in an epoch by blocks. At least ``least`` samples, if there are.
    """
    order = "sequential"
    if subject.facts.random_access:
        order = "random" if subject.chunk == 1 else "block"
    sampler = sampler_for(subject.reader, order, window=1)
    found: list[Positions] = []
    for piece in sampler.pieces():
        found.append(piece if subject.chunk > 1 else piece[:least])
        if sum(map(len, found)) >= least:
            break
    return subject.readable(np.concatenate(found))
