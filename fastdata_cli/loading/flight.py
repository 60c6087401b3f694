"""Batches on their way from the plan to the consumer, in the order of the plan. NumPy alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.loading.samplers import Positions

Stored = NDArray[Any] | Exception
"""An image as a reader returns it, or what kept it from doing so."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where training stands: before this batch of this epoch, both counted from 0."""

    epoch: int = 0
    batch: int = 0


@dataclass(eq=False, slots=True)
class Pending:
    """A batch on its way."""

    place: Place
    positions: Positions
    images: Any = None
    """What is filled: N×H×W×C, or whatever the filler makes of the rows in the end."""
    missing: int = 0
    """Rows that are not done yet."""
    bad: dict[int, BadSampleError] = field(default_factory=dict)
    """Rows that have no image, and why."""
    failures: dict[int, BaseException] = field(default_factory=dict)
    """What ends the iteration here, by the first row of the task that met it."""

    def __post_init__(self) -> None:
        self.missing = len(self.positions)

    @property
    def is_ready(self) -> bool:
        """Whether it may be handed out."""
        return self.missing < 0


@dataclass(frozen=True, slots=True)
class Task:
    """Some rows of a batch, for one thread."""

    pending: Pending
    rows: range
    stored: Sequence[Stored] | None = None
    """The encoded image of each row, or why there is none; None: not read yet."""

    @property
    def positions(self) -> Positions:
        """Positions of the rows."""
        return self.pending.positions[self.rows.start : self.rows.stop]


class Filler(Protocol):
    """Puts images into the rows of batches. Any number of threads use it at once."""

    def begin(self, pending: Pending) -> None:
        """Make room for a batch; called in the order of the plan, by one thread at a time."""
        ...

    def fill(self, task: Task) -> None:
        """Fill the rows of a task; bad samples are put down in ``pending.bad``."""
        ...

    def finish(self, pending: Pending) -> None:
        """Called once all rows are done, by the thread that did the last."""
        ...


class Flight:
    """The batches between plan and consumer, in order; not more than ``limit`` of them.

    Attributes:
        lock: guards everything here.
        work: told when a thread may find something to do.
        space: told when a thread that reads ahead may go on.
        stopped: nobody wants any more batches.
    """

    def __init__(self, filler: Filler, limit: int) -> None:
        self.lock = threading.RLock()  # the collector may end an iteration within it
        self.work = threading.Condition(self.lock)
        self.space = threading.Condition(self.lock)
        self.stopped = False
        self._arrived = threading.Condition(self.lock)
        self._filler = filler
        self._limit = limit
        self._batches: deque[Pending] = deque()
        self._ended = False
        self._failure: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether no more batches are to begin."""
        return self.stopped or self._ended

    @property
    def has_room(self) -> bool:
        """Whether another batch may begin."""
        return len(self._batches) < self._limit

    @property
    def first(self) -> Pending | None:
        """The batch that is handed out next, if it has begun."""
        return self._batches[0] if self._batches else None

    def begin(self, place: Place, positions: Positions) -> Pending:
        """Add a batch. The lock is held."""
        pending = Pending(place, positions)
        self._filler.begin(pending)
        self._batches.append(pending)
        return pending

    def done(self, task: Task) -> None:
        """Take note that a task is done; the last of a batch completes it."""
        pending = task.pending
        with self.lock:
            pending.missing -= len(task.rows)
            if pending.missing:
                return
        if not pending.failures:
            try:
                self._filler.finish(pending)
            except Exception as problem:  # noqa: BLE001 - handed to the consumer
                pending.failures[0] = problem
        with self.lock:
            pending.missing = -1
            if self._batches and self._batches[0] is pending:
                self._arrived.notify()

    def end(self, failure: BaseException | None = None) -> None:
        """Say that no batch follows those that have begun."""
        with self.lock:
            self._ended, self._failure = True, self._failure or failure
            self._wake_all()

    def break_off(self, failure: BaseException) -> None:
        """Give up what has begun: a thread is gone that should have had a part in it."""
        with self.lock:
            self._batches.clear()
            self.end(failure)

    def take(self) -> Pending | None:
        """Wait for the next batch; None when there are no more."""
        with self.lock:
            try:
                while not self.stopped:
                    if self._batches and self._batches[0].is_ready:
                        return self._batches.popleft()
                    if self._ended and not self._batches:
                        if self._failure is not None:
                            raise self._failure
                        return None
                    self._arrived.wait()
                return None
            finally:
                self.work.notify()

    def stop(self) -> None:
        """Let everybody go home."""
        with self.lock:
            self.stopped = True
            self._batches.clear()
            self._wake_all()

    def _wake_all(self) -> None:
        for waiting in (self.work, self.space, self._arrived):
            waiting.notify_all()
