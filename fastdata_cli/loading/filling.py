"""How threads fill a batch: gathered, decoded into place, transformed, or left encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.keys import printable
from fastdata_cli.loading.flight import Pending, Stored, Task
from fastdata_cli.loading.images import Allocate, ImageSource
from fastdata_cli.loading.samples import EncodedImages, Transform, call_transform

Shape = tuple[tuple[int, ...], np.dtype[Any]]
_NOTHING = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Stacked:
    """A batch without its bad rows, ready to be handed out."""

    images: Any


Stack = Callable[[Sequence[Any]], Any]


class _Shaped:
    """Begins batches whose images have one shape, known beforehand.

    Args:
        source: where images come from.
        shape: of an image, and its dtype.
        allocate: makes the memory of a batch.
    """

    def __init__(self, source: ImageSource, shape: Shape, allocate: Allocate) -> None:
        self._source = source
        self._shape = shape
        self._allocate = allocate

    def begin(self, pending: Pending) -> None:
        """Make room for a batch."""
        shape, dtype = self._shape
        pending.images = self._allocate((len(pending.positions), *shape), dtype)

    def finish(self, pending: Pending) -> None:
        """Do nothing: what is filled is the batch."""


class Gathering(_Shaped):
    """Stored pixels, as they are: one call of the reader moves a whole batch."""

    def fill(self, task: Task) -> None:
        """Fill the rows."""
        pending, rows = task.pending, task.rows
        try:
            self._source.stored(task.positions, pending.images[rows.start : rows.stop])
        except BadSampleError:
            for row, image in zip(rows, self._source.stored_each(task.positions), strict=True):
                if isinstance(image, BadSampleError):
                    pending.bad[row] = image
                else:
                    pending.images[row] = image


class Placing(_Shaped):
    """Images that are decoded or resized, each straight into its place."""

    def fill(self, task: Task) -> None:
        """Fill the rows."""
        pending = task.pending
        positions = pending.positions.tolist()
        for row, image in zip(task.rows, _stored(self._source, task), strict=True):
            try:
                if isinstance(image, Exception):
                    raise image
                self._source.put(image, positions[row], pending.images[row])
            except BadSampleError as problem:
                pending.bad[row] = problem


class LeavingEncoded:
    """Encoded images as they are stored, one after another.

    Args:
        source: where images come from.
        column: makes of an array what is handed out.
    """

    def __init__(self, source: ImageSource, column: Callable[[NDArray[Any]], Any]) -> None:
        self._source = source
        self._column = column

    def begin(self, pending: Pending) -> None:
        """Do nothing: how much room the images take is known when they are read."""

    def fill(self, task: Task) -> None:
        """Read a batch."""
        pending = task.pending
        try:
            batch = self._source.stored(pending.positions)
            data, offsets = batch.images, batch.offsets
        except BadSampleError:
            stored = self._source.stored_each(pending.positions)
            pending.bad = {r: s for r, s in enumerate(stored) if isinstance(s, BadSampleError)}
            images = [image for image in stored if not isinstance(image, BadSampleError)]
            data = np.concatenate([_NOTHING, *images])
            offsets = np.cumsum([0, *(image.size for image in images)])
        assert offsets is not None, "only encoded images are left so"
        pending.images = Stacked(EncodedImages(self._column(data), self._column(offsets)))

    def finish(self, pending: Pending) -> None:
        """Do nothing: what was read is the batch."""


class Transforming:
    """Images that a function of the user's makes something of.

    Args:
        source: where images come from.
        transform: makes of an image H×W×C what is stacked.
        stack: makes a batch of what it returned.
    """

    def __init__(self, source: ImageSource, transform: Transform, stack: Stack) -> None:
        self._source = source
        self._transform = transform
        self._stack = stack

    def begin(self, pending: Pending) -> None:
        """Make room for what the transform returns."""
        pending.images = [None] * len(pending.positions)

    def fill(self, task: Task) -> None:
        """Fill the rows."""
        pending = task.pending
        positions = pending.positions.tolist()
        for row, stored in zip(task.rows, _stored(self._source, task), strict=True):
            try:
                if isinstance(stored, Exception):
                    raise stored
                image = self._source.own(stored, positions[row])
            except BadSampleError as problem:
                pending.bad[row] = problem
            else:
                pending.images[row] = self._transformed(image, positions[row])

    def finish(self, pending: Pending) -> None:
        """Stack them; bad ones are left out."""
        rows = [each for row, each in enumerate(pending.images) if row not in pending.bad]
        pending.images = Stacked(self._stack(rows) if rows else None)

    def _transformed(self, image: NDArray[Any], index: int) -> Any:
        try:
            return call_transform(self._transform, image)
        except Exception as problem:
            key = printable(self._source.reader.keys()[index])
            problem.add_note(f"in the transform of sample {index}, {key}")
            raise


class Holding(_Shaped):
    """Images that are in memory already, all of them.

    Args:
        held: N×H×W×C, the images of the whole dataset.
        bad: positions that have none, and why.
        allocate: makes the memory of a batch.
    """

    def __init__(
        self, held: NDArray[Any], bad: dict[int, BadSampleError], allocate: Allocate
    ) -> None:
        self._held = held
        self._bad = bad
        self._allocate = allocate
        self._shape = (held.shape[1:], held.dtype)

    def fill(self, task: Task) -> None:
        """Fill the rows."""
        pending, rows = task.pending, task.rows
        out = pending.images[rows.start : rows.stop]
        # With its default mode NumPy buffers ``out``, at half the speed.
        np.take(self._held, task.positions, axis=0, out=out, mode="clip")
        if self._bad:
            pairs = zip(rows, task.positions.tolist(), strict=True)
            pending.bad.update((row, self._bad[at]) for row, at in pairs if at in self._bad)


def _stored(source: ImageSource, task: Task) -> Sequence[Stored]:
    if task.stored is not None:
        return task.stored
    return source.stored_each(task.positions)
