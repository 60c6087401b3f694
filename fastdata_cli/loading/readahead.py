"""One thread reads encoded images ahead, in the order of the files; others decode them.

Reading is a handful of short calls for each image. From two threads of Python it is six times
slower than from one, because each call hands the interpreter over; so one reads for all.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fastdata_cli.loading.flight import Flight, Pending, Place, Stored, Task
from fastdata_cli.loading.images import ImageSource
from fastdata_cli.loading.samplers import Positions

ROWS = 4
"""Images of a task, at most: few, so that the threads are done at the same time. A task costs some
20 us, decoding a photograph 1400."""

# Bytes of a read: enough to be worth sorting. Two such reads are ahead of what is being decoded.
_READ_BYTES = 16 << 20
_READS = 2
_MOST_SAMPLES = 1024


@dataclass(frozen=True, slots=True)
class _Part:
    """Some rows of a batch, and their stored images once they are read."""

    place: Place
    positions: Positions
    """Of the whole batch."""
    rows: range
    images: Sequence[Stored] = ()

    @property
    def wanted(self) -> Positions:
        """Positions of the rows."""
        return self.positions[self.rows.start : self.rows.stop]

    def cut(self, images: Sequence[Stored], step: int) -> Iterator[_Part]:
        """Yield pieces of at most ``step`` rows, with their images."""
        for at in range(0, len(self.rows), step):
            piece = slice(at, at + step)
            yield _Part(self.place, self.positions, self.rows[piece], images[piece])

    def failed(self, problem: Exception) -> _Part:
        """Return all rows from here to the end of the batch, with what went wrong."""
        rows = range(self.rows.start, len(self.positions))
        return _Part(self.place, self.positions, rows, [problem] * len(rows))


class ReadAhead:
    """Tasks whose images have been read.

    Args:
        plan: places and positions of the batches to come.
        flight: where they are on their way.
        source: reads.
        threads: that will ask for tasks.
    """

    def __init__(
        self,
        plan: Iterator[tuple[Place, Positions]],
        flight: Flight,
        source: ImageSource,
        threads: int,
    ) -> None:
        self._plan = plan
        self._flight = flight
        self._source = source
        self._threads = threads
        self._reads: deque[deque[_Part]] = deque()
        self._pending: Pending | None = None
        self._ended = False
        # Of the thread that reads alone:
        self._samples = ROWS * threads
        self._rest: _Part | None = None
        self._failure: Exception | None = None

    def start(self) -> Sequence[threading.Thread]:
        """Start the thread that reads."""
        thread = threading.Thread(target=self._run, name="fastdata-read", daemon=True)
        thread.start()
        return (thread,)

    def take(self) -> Task | None:
        """Return the next few rows; the first ones of a batch when there is room for it."""
        flight = self._flight
        with flight.lock:
            while not flight.is_over:
                if self._is_ready():
                    return self._next()
                if self._ended and not self._reads:
                    flight.end(self._failure)
                    return None
                flight.work.wait()
            return None

    def take_of_first(self) -> Task | None:
        """Return the next rows, if they are of the batch that is due."""
        first = self._flight.first
        is_due = first is None or (first is self._pending and self._goes_on())
        return self._next() if is_due and self._is_ready() else None

    def _goes_on(self) -> bool:
        """Whether what was read goes on with the batch that was begun last."""
        return bool(self._reads) and self._reads[0][0].rows.start > 0

    def _is_ready(self) -> bool:
        return self._goes_on() or (bool(self._reads) and self._flight.has_room)

    def _next(self) -> Task:
        part = self._reads[0].popleft()
        if not self._reads[0]:
            self._reads.popleft()
            self._flight.space.notify()
        if part.rows.start == 0:
            self._pending = self._flight.begin(part.place, part.positions)
        if self._is_ready():
            self._flight.work.notify()
        assert self._pending is not None, "a batch is cut from its first row on"
        return Task(self._pending, part.rows, part.images)

    def _run(self) -> None:
        flight = self._flight
        try:
            while not flight.is_over and (parts := self._portion()):
                self._add(deque(self._read(parts)))
        except BaseException as problem:  # noqa: BLE001 - handed to the consumer
            flight.break_off(problem)
        with flight.lock:
            self._ended = True
            flight.work.notify_all()

    def _add(self, read: deque[_Part]) -> None:
        """Add what was read, and wait until there is space for more."""
        flight = self._flight
        with flight.lock:
            self._reads.append(read)
            flight.work.notify()
            while len(self._reads) >= _READS and not flight.is_over:
                flight.space.wait()

    def _portion(self) -> list[_Part]:
        """Return what is read next: rows of one batch or several, in their order."""
        parts: list[_Part] = []
        left = 0 if self._failure else self._samples
        while left:
            part = self._rest or self._planned()
            if part is None:
                break
            taken = part.rows[:left]
            parts.append(_Part(part.place, part.positions, taken))
            rest = part.rows[len(taken) :]
            self._rest = _Part(part.place, part.positions, rest) if rest else None
            left -= len(taken)
        return parts

    def _planned(self) -> _Part | None:
        try:
            planned = next(self._plan, None)
        except Exception as problem:  # noqa: BLE001 - handed to the consumer
            self._failure = problem
            return None
        return planned and _Part(*planned, range(len(planned[1])))

    def _read(self, parts: Sequence[_Part]) -> Iterator[_Part]:
        positions = np.concatenate([part.wanted for part in parts])
        order = np.argsort(positions, kind="stable")
        try:
            stored = self._source.stored_each(positions[order])
        except Exception as problem:  # noqa: BLE001 - handed to the consumer
            self._failure, self._rest = problem, None
            yield from (part.failed(problem) for part in parts)
            return
        images = list(stored)
        for at, image in zip(order.tolist(), stored, strict=True):
            images[at] = image
        step = max(1, min(ROWS, len(images) // self._threads))
        begin = 0
        for part in parts:
            yield from part.cut(images[begin : begin + len(part.rows)], step)
            begin += len(part.rows)
        self._settle(images)

    def _settle(self, images: Sequence[Stored]) -> None:
        """Decide how much is read next, by how large images are."""
        sizes = [image.size for image in images if isinstance(image, np.ndarray)]
        fitting = _READ_BYTES * len(sizes) // max(1, sum(sizes))
        self._samples = max(self._threads, min(2 * self._samples, fitting, _MOST_SAMPLES))
