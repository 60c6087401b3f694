"""How batches of some samples are made: which filler, which tasks, how many of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, UsageError
from fastdata_cli.loading.delivery import Delivery
from fastdata_cli.loading.filling import (
    Gathering,
    Holding,
    LeavingEncoded,
    Placing,
    Shape,
    Transforming,
)
from fastdata_cli.loading.flight import Filler, Flight, Place
from fastdata_cli.loading.images import Allocate
from fastdata_cli.loading.pipeline import Pipeline, RowTasks
from fastdata_cli.loading.readahead import ROWS, ReadAhead
from fastdata_cli.loading.samplers import BatchSampler, Positions, SequentialSampler, whole
from fastdata_cli.loading.samples import Samples
from fastdata_cli.timing.environment import usable_cores

Plan = Iterator[tuple[Place, Positions]]

# Stored pixels come as fast as memory allows with this many threads.
_MOST_GATHERING = 8
# Rows of a task that gathers, at least: a task costs some 20 us, a row of pixels 15.
_LEAST_ROWS = 16
# Batches that are ready, or nearly so, beyond those that the threads are at.
_READY = 2


@dataclass(frozen=True, slots=True)
class Held:
    """The images of a whole dataset, in memory."""

    images: NDArray[Any]
    """N×H×W×C."""
    bad: dict[int, BadSampleError]
    """Positions that have no image, and why."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How batches are made.

    Attributes:
        samples: what they are made of.
        batch_size: samples of a batch.
        threads: that make them.
        prefetch: batches that may be ready or in work at once.
    """

    samples: Samples
    batch_size: int
    threads: int
    prefetch: int

    def pipeline(self, plan: Plan, delivery: Delivery, held: Held | None = None) -> Pipeline:
        """Return the threads that make the batches of a plan; not started.

        Raises:
            BadSampleError: not one image tells the shape that the others should have.
        """
        if held is not None:
            return self._pipeline(plan, Holding(held.images, held.bad, delivery.empty), ahead=False)
        source, transform = self.samples.images, self.samples.transform
        if transform is not None:
            filler: Filler = Transforming(source, transform, delivery.stack)
        elif not self.samples.decode:
            filler = LeavingEncoded(source, delivery.column)
        else:
            filler = self._placing(delivery.empty)
        return self._pipeline(plan, filler, ahead=source.decodes)

    def hold(self) -> Held:
        """Return all images, as they are in a batch. Bad samples are put down.

        Raises:
            UsageError: they do not fit into memory.
        """
        shape, dtype = self._shape()
        count = len(self.samples)
        images = _memory((count, *shape), dtype, where=self.samples.reader.path)
        batches = enumerate(BatchSampler(SequentialSampler(count), self.batch_size))
        plan = ((Place(0, number), positions) for number, positions in batches)
        filler = self._placing(_InOrder(images).empty)
        pipeline = self._pipeline(plan, filler, ahead=self.samples.images.decodes)
        bad: dict[int, BadSampleError] = {}
        pipeline.start()
        try:
            while (pending := pipeline.take()) is not None:
                if pending.failures:
                    raise pending.failures[min(pending.failures)]
                bad.update((int(pending.positions[r]), pending.bad[r]) for r in pending.bad)
        finally:
            pipeline.stop(wait=True)
        return Held(images, bad)

    def _placing(self, allocate: Allocate) -> Gathering | Placing:
        source = self.samples.images
        kind = Placing if source.encoded or source.resizes else Gathering
        return kind(source, self._shape(), allocate)

    def _shape(self) -> Shape:
        """Return the shape of images in a batch, by the first that can be read if need be."""
        problem: BadSampleError | None = None
        for index in range(max(1, len(self.samples))):
            try:
                return self.samples.images.shape(index)
            except BadSampleError as found:
                problem = problem or found
        raise problem or AssertionError("there is a first sample")

    def _pipeline(self, plan: Plan, filler: Filler, *, ahead: bool) -> Pipeline:
        flight = Flight(filler, self.prefetch)
        tasks = (
            ReadAhead(plan, flight, self.samples.images, self.threads)
            if ahead
            else RowTasks(plan, flight, _rows(self.batch_size, self.threads))
        )
        return Pipeline(flight, tasks, filler, self.threads)


def recipe_for(
    samples: Samples, batch_size: int, threads: int | None, prefetch: int | None
) -> Recipe:
    """Return how batches are made; what is None fits the machine and the dataset.

    Raises:
        UsageError: a number that cannot be meant.
    """
    threads = None if threads is None else whole("threads", threads, 1)
    prefetch = None if prefetch is None else whole("prefetch", prefetch, 1)
    decodes = samples.images.decodes
    if threads is None:
        threads = usable_cores() if decodes else min(usable_cores(), _MOST_GATHERING)
    if prefetch is None:
        rows = ROWS if decodes else _rows(batch_size, threads)
        prefetch = _READY + -(-threads * rows // batch_size)
    return Recipe(samples=samples, batch_size=batch_size, threads=threads, prefetch=prefetch)


def _rows(batch_size: int, threads: int) -> int:
    """Return the rows of a task where images are not decoded: a batch is shared by the threads."""
    return max(_LEAST_ROWS, -(-batch_size // threads))


class _InOrder:
    """Hands out the rows of one array, as many at a time as are asked for."""

    def __init__(self, images: NDArray[Any]) -> None:
        self._images = images
        self._at = 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        begin, self._at = self._at, self._at + shape[0]
        return self._images[begin : self._at]


def _memory(shape: tuple[int, ...], dtype: np.dtype[Any], where: Path) -> NDArray[Any]:
    needed = math.prod(shape) * dtype.itemsize
    there = psutil.virtual_memory().available
    if needed > there:
        raise UsageError(
            f"{where}: all images in memory would take {needed / 1e9:.1f} GB;"
            f" {there / 1e9:.1f} GB are free",
            hint="leave in_memory out: what was read stays in the page cache as far as it fits",
        )
    return np.empty(shape, dtype)
