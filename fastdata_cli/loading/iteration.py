"""One pass of a FastLoader: threads that are started, batches that are handed out, an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, UsageError
from fastdata_cli.loading.delivery import Delivery
from fastdata_cli.loading.filling import Stacked
from fastdata_cli.loading.flight import Pending, Place
from fastdata_cli.loading.pipeline import Pipeline

OnBad = Callable[[int, BadSampleError], None]
"""Told of a sample that was left out: its position, and why."""


@dataclass(frozen=True, kw_only=True)
class HandingOut:
    """Makes of a finished batch what the consumer gets."""

    delivery: Delivery
    labels: NDArray[Any]
    """One for each sample of the dataset."""
    with_index: bool
    on_bad: OnBad | None
    """None: a bad sample ends the iteration."""

    def batch(self, pending: Pending) -> tuple[Any, ...] | None:
        """Return images, labels and, when asked for, positions; None if no sample is left.

        Raises:
            BadSampleError: the first sample of the batch that is bad.
            Exception: whatever else kept the first rows from being filled.
        """
        problems = pending.failures if self.on_bad else {**pending.failures, **pending.bad}
        if problems:
            raise problems[min(problems)]
        positions = pending.positions
        if pending.bad:
            positions = np.delete(positions, list(pending.bad))
            for row, problem in sorted(pending.bad.items()):
                assert self.on_bad is not None, "else it was raised"
                self.on_bad(int(pending.positions[row]), problem)
        if not len(positions):
            return None
        columns = [self.labels[positions], *([positions.copy()] if self.with_index else [])]
        return (self._images(pending), *map(self.delivery.column, columns))

    def _images(self, pending: Pending) -> Any:
        images = pending.images
        if isinstance(images, Stacked):
            return images.images
        if pending.bad:
            good = np.delete(np.arange(len(images)), list(pending.bad))
            kept = self.delivery.empty((len(good), *images.shape[1:]), images.dtype)
            # With its default mode NumPy buffers ``out``.
            images = np.take(images, good, axis=0, out=kept, mode="clip")
        return self.delivery.images(images)


class Iteration(Iterator[tuple[Any, ...]]):
    """Batches that threads make ahead; they end with it.

    They end when it is exhausted, closed, left as a context, or let go of (by ``break``), when an
    error is raised from it, and before the interpreter ends.

    Args:
        pipeline: makes them; started here.
        handing_out: what is handed out.
        on_taken: told the place of each batch that is handed out, or of which nothing is left.
    """

    def __init__(
        self, pipeline: Pipeline, handing_out: HandingOut, on_taken: Callable[[Place], None]
    ) -> None:
        self._pipeline = pipeline
        self._handing_out = handing_out
        self._on_taken = on_taken
        pipeline.start()

    def __next__(self) -> tuple[Any, ...]:
        if not self._pipeline.is_ours:
            raise UsageError(
                "this iteration has its threads in the process that this one was forked from",
                hint="iterate over the loader anew",
            )
        try:
            while (pending := self._pipeline.take()) is not None:
                batch = self._handing_out.batch(pending)
                self._on_taken(pending.place)
                if batch is not None:
                    return batch
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End the threads; returns when they have ended."""
        self._pipeline.stop(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Whatever thread lets go of it last may be one of those that end: none is waited for.
        self._pipeline.stop(wait=False)
