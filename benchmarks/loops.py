"""Owns the loops that sides share: an epoch in random order, spread over threads.

A loop of a reference is what somebody would write who knows the machine and has no library.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import BATCH, SIDE
from fastdata_cli.loading import BatchSampler, BlockShuffleSampler, RandomSampler
from fastdata_cli.loading.samplers import Positions
from fastdata_cli.timing.measure import Work

_WINDOW = 4
IMAGE_BYTES = SIDE * SIDE * 3

PIXELS_A_RUN = 20_000
"""Stored pixels are soon through: so many samples make a run, in several epochs without a pause
between them. Then the start and the end of threads weigh as little as in an epoch of a million."""

DECODED_AT_ONCE = 8
"""Images of a task where each is decoded: the last task of a run leaves the other threads idle."""


def epochs_for(count: int) -> int:
    """Return how many epochs of stored pixels make a run."""
    return max(1, PIXELS_A_RUN // count)


def orders(
    count: int, *, epochs: int = 1, block: int = 1, batch: int = BATCH
) -> Iterable[Positions]:
    """Return random orders of a set, others for each iteration, in batches; the same for all sides.

    Args:
        count: samples of the set.
        epochs: in an iteration.
        block: samples that lie together and are read together; 1 for an order without blocks.
        batch: samples of a batch.
    """
    sampler = (
        RandomSampler(count)
        if block == 1
        else BlockShuffleSampler(count, block=block, window=_WINDOW)
    )
    return BatchSampler(sampler, batch, epochs=epochs)


def buffer(batch: int = BATCH) -> NDArray[np.uint8]:
    """Return memory for a batch, written once: what is fresh costs a page fault every 4 KB."""
    return np.full((batch, SIDE, SIDE, 3), 1, np.uint8)


def threaded(
    count: int,
    threads: int,
    fill: Callable[[Positions, NDArray[np.uint8]], Any],
    *,
    epochs: int = 1,
    block: int = 1,
    batch: int = BATCH,
) -> Callable[[], Work]:
    """Return a run in which threads take batches in turn, and ``fill`` a buffer each.

    Args:
        count: samples of the set.
        threads: how many.
        fill: puts the samples at these positions into the first places of a batch.
        epochs, block, batch: as in ``orders``.
    """
    batches_of = orders(count, epochs=epochs, block=block, batch=batch)
    pool = ThreadPoolExecutor(threads)
    own = threading.local()

    def work(batches: Iterator[Positions], lock: threading.Lock) -> None:
        if not hasattr(own, "buffer"):
            own.buffer = buffer(batch)
        while True:
            with lock:
                positions = next(batches, None)
            if positions is None:
                return
            fill(positions, own.buffer[: len(positions)])

    def run() -> Work:
        batches, lock = iter(batches_of), threading.Lock()
        for done in [pool.submit(work, batches, lock) for _ in range(threads)]:
            done.result()
        return Work(samples=epochs * count, bytes=epochs * count * IMAGE_BYTES)

    return run


def drained(make: Callable[[], Any], images_of: Callable[[Any], Any]) -> Callable[[], Work]:
    """Return a run that takes every batch of an iteration, as a training loop does.

    Args:
        make: returns an iterable over one epoch.
        images_of: returns the images of a batch.
    """

    def run() -> Work:
        samples = size = 0
        for batch in make():
            images = images_of(batch)
            samples += len(images)
            size += images.nbytes
        return Work(samples=samples, bytes=size)

    return run


def first(batch: Any) -> Any:
    """Return the images of a batch ``(images, labels, …)``."""
    return batch[0]
