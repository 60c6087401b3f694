"""Orders of requests: endless streams of positions, by sample or by batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from fastdata_cli.loading.samplers import (
    BatchSampler,
    BlockShuffleSampler,
    Positions,
    RandomSampler,
    Sampler,
    SequentialSampler,
)
from fastdata_cli.operations.bench.subject import Subject

ORDERS = ("sequential", "random", "block")
GRAINS = ("sample", "batch")


def sampler_of(subject: Subject, order: str, *, window: int = 4) -> Sampler:
    """Return the sampler that visits a dataset in that order."""
    count = subject.facts.samples
    if order == "sequential":
        return SequentialSampler(count)
    if order == "random":
        return RandomSampler(count)
    return BlockShuffleSampler(count, subject.block, window=window)


class Requests:
    """What is asked for, one request after the other; several threads may take from it.

    Epoch follows epoch, so that each run goes on where the one before ended, and a dataset that is
    larger than one run is not judged by its first samples alone.

    Args:
        subject: the dataset; samples that are known to be bad are left out.
        order: one of ORDERS.
        batch_size: samples of a request; None asks for single samples.
        once: end with the epoch, and begin a new one after ``restart``.
    """

    def __init__(
        self, subject: Subject, order: str, batch_size: int | None, *, once: bool = False
    ) -> None:
        self._subject = subject
        self._sampler = sampler_of(subject, order)
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
    if subject.chunk == 1 and subject.facts.random_access:
        sampler: Sampler = RandomSampler(subject.facts.samples)
    elif subject.facts.random_access:
        sampler = sampler_of(subject, "block", window=1)
    else:
        sampler = sampler_of(subject, "sequential")
    found: list[Positions] = []
    for piece in sampler.pieces():
        found.append(piece if subject.chunk > 1 else piece[:least])
        if sum(map(len, found)) >= least:
            break
    return subject.readable(np.concatenate(found))
