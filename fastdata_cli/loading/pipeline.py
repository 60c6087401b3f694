"""Threads that fill batches ahead of the one who takes them. NumPy alone.

    plan       which positions the next batch has
    tasks      what a thread does next: a batch, or some rows of one
    filler     puts images into their rows
    pipeline   hands batches out in the order of the plan, whoever was done first

Nothing here depends on how many threads there are but the time it takes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError
from fastdata_cli.imaging.resize import opencv_threads
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


@dataclass(frozen=True, slots=True)
class Task:
    """Some rows of a batch, for one thread."""

    pending: Pending
    rows: range
    stored: Sequence[Stored] | None = None
    """The encoded image of each row, or why there is none; None: not read yet."""


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

    def take(self) -> Pending | None:
        """Wait for the next batch; None when there are no more."""
        with self.lock:
            while not self.stopped:
                if self._batches and self._batches[0].missing < 0:
                    self.work.notify()
                    return self._batches.popleft()
                if self._ended and not self._batches:
                    if self._failure is not None:
                        raise self._failure
                    return None
                self._arrived.wait()
            return None

    def stop(self) -> None:
        """Let everybody go home."""
        with self.lock:
            self.stopped = True
            self._batches.clear()
            self._wake_all()

    def _wake_all(self) -> None:
        for waiting in (self.work, self.space, self._arrived):
            waiting.notify_all()


class Tasks(Protocol):
    """What there is to do."""

    def start(self) -> Sequence[threading.Thread]:
        """Start threads of its own, if it has any, and return them."""
        ...

    def take(self) -> Task | None:
        """Wait for a task; None when there are no more."""
        ...


class WholeBatches:
    """A batch is a task: what reads it has one call for all of it.

    Args:
        plan: places and positions of the batches to come.
        flight: where they are on their way.
    """

    def __init__(self, plan: Iterator[tuple[Place, Positions]], flight: Flight) -> None:
        self._plan = plan
        self._flight = flight

    def start(self) -> Sequence[threading.Thread]:
        """Return nothing: there are no threads but those that fill."""
        return ()

    def take(self) -> Task | None:
        """Begin the next batch, when there is room for one."""
        flight = self._flight
        with flight.lock:
            while not (flight.is_over or flight.has_room):
                flight.work.wait()
            planned = None if flight.is_over else next(self._plan, None)
            if planned is None:
                flight.end()
                return None
            pending = flight.begin(*planned)
            return Task(pending, range(len(pending.positions)))


class Pipeline:
    """Threads at work on tasks, and the batches that they complete, in order.

    Args:
        flight: where batches are on their way.
        tasks: what there is to do.
        filler: how it is done.
        threads: how many do it.
    """

    def __init__(self, flight: Flight, tasks: Tasks, filler: Filler, threads: int) -> None:
        self._flight = flight
        self._tasks = tasks
        self._filler = filler
        self._pid = os.getpid()
        self._working = threads
        self._threads = [
            threading.Thread(target=self._work, name=f"fastdata-load-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        opencv_threads.hold()
        _running.add(self)
        for thread in self._threads:
            thread.start()
        self._threads += self._tasks.start()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that has the threads, and not one forked off."""
        return self._pid == os.getpid()

    def take(self) -> Pending | None:
        """Wait for the next batch; None when there are no more."""
        return self._flight.take()

    def stop(self, *, wait: bool) -> None:
        """End the threads, when they are done with what they are at.

        Args:
            wait: return after they have ended. Not from a destructor, which any thread may run.
        """
        if not self.is_ours:
            return
        self._flight.stop()
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        try:
            while (task := self._tasks.take()) is not None:
                self._do(task)
                del task  # not to be held while waiting for the next
        except BaseException as problem:  # noqa: BLE001 - handed to the consumer
            self._flight.end(problem)
        finally:
            with self._flight.lock:
                self._working -= 1
                last = not self._working
            if last:
                opencv_threads.release()

    def _do(self, task: Task) -> None:
        try:
            if not self._flight.stopped:
                self._filler.fill(task)
        except BaseException as problem:  # noqa: BLE001 - handed to the consumer
            task.pending.failures[task.rows.start] = problem
        self._flight.done(task)


_running: weakref.WeakSet[Pipeline] = weakref.WeakSet()


def _stop_all() -> None:
    # A thread that comes back from C code into an interpreter that is going down takes the
    # process with it.
    for pipeline in list(_running):
        with contextlib.suppress(RuntimeError):
            pipeline.stop(wait=True)


atexit.register(_stop_all)
