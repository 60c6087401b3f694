"""Owns the loops that sides share: an epoch in random order, spread over threads.

A loop of a reference is what somebody would write who knows the machine and has no library.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
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


def epochs_of(count: int, block: int = 1) -> BatchSampler:
    """Return orders of a set, another one for each iteration, in batches; the same for all sides.

    Args:
        count: samples of the set.
        block: samples that lie together and are read together; 1 for a random order.
    """
    if block == 1:
        return BatchSampler(RandomSampler(count), BATCH)
    return BatchSampler(BlockShuffleSampler(count, block=block, window=_WINDOW), BATCH)


def buffer(batch: int = BATCH) -> NDArray[np.uint8]:
    """Return memory for a batch, written once: what is fresh costs a page fault every 4 KB."""
    return np.full((batch, SIDE, SIDE, 3), 1, np.uint8)


def threaded(
    count: int,
    threads: int,
    fill: Callable[[Positions, NDArray[np.uint8]], Any],
    *,
    block: int = 1,
) -> Callable[[], Work]:
    """Return a run over one epoch: threads take batches in turn, and ``fill`` a buffer each.

    Args:
        count: samples of the set.
        threads: how many.
        fill: puts the samples at these positions into the first places of a batch.
        block: of the order, as in ``epochs_of``.
    """
    epochs = epochs_of(count, block)
    pool = ThreadPoolExecutor(threads)
    own = threading.local()

    def work(batches: Iterator[Positions], lock: threading.Lock) -> None:
        if not hasattr(own, "buffer"):
            own.buffer = buffer()
        while True:
            with lock:
                batch = next(batches, None)
            if batch is None:
                return
            fill(batch, own.buffer[: len(batch)])

    def run() -> Work:
        batches, lock = iter(epochs), threading.Lock()
        for done in [pool.submit(work, batches, lock) for _ in range(threads)]:
            done.result()
        return Work(samples=count, bytes=count * IMAGE_BYTES)

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
