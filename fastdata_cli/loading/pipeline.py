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
from typing import Protocol

from fastdata_cli.imaging.resize import opencv_threads
from fastdata_cli.loading.flight import Filler, Flight, Pending, Place, Task
from fastdata_cli.loading.samplers import Positions


class Tasks(Protocol):
    """What there is to do."""

    def start(self) -> Sequence[threading.Thread]:
        """Start threads of its own, if it has any, and return them."""
        ...

    def take(self) -> Task | None:
        """Wait for a task; None when there are no more."""
        ...

    def take_of_first(self) -> Task | None:
        """Return the next task if it is of the batch that is due. The lock is held; no waiting."""
        ...


class RowTasks:
    """Batches are cut into tasks, and begin with nothing read.

    Several threads are at one batch rather than each at one of its own: the fewer batches are
    being written at a time, the more of what is written stays in the processor's cache.

    Args:
        plan: places and positions of the batches to come.
        flight: where they are on their way.
        rows: of a task, at most.
    """

    def __init__(self, plan: Iterator[tuple[Place, Positions]], flight: Flight, rows: int) -> None:
        self._plan = plan
        self._flight = flight
        self._rows = rows
        self._cut: deque[Task] = deque()

    def start(self) -> Sequence[threading.Thread]:
        """Return nothing: there are no threads but those that fill."""
        return ()

    def take(self) -> Task | None:
        """Return the next rows; those of a new batch when there is room for one."""
        flight = self._flight
        with flight.lock:
            while not (self._cut or flight.is_over):
                if flight.has_room:
                    self._begin()
                else:
                    flight.work.wait()
            return self._next() if self._cut else None

    def take_of_first(self) -> Task | None:
        """Return the next rows, if they are of the batch that is due."""
        flight = self._flight
        if flight.first is None and not (self._cut or flight.is_over):
            self._begin()
        return self._next() if self._cut and self._cut[0].pending is flight.first else None

    def _next(self) -> Task:
        task = self._cut.popleft()
        if self._cut or self._flight.has_room:
            self._flight.work.notify()
        return task

    def _begin(self) -> None:
        try:
            planned = next(self._plan, None)
        except Exception as problem:  # noqa: BLE001 - handed to the consumer, after what has begun
            self._flight.end(problem)
            return
        if planned is None:
            self._flight.end()
            return
        pending = self._flight.begin(*planned)
        rows = range(len(pending.positions))
        for at in range(0, len(rows), self._rows):
            self._cut.append(Task(pending, rows[at : at + self._rows]))


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
        """Wait for the next batch, and help with it meanwhile; None when there are no more."""
        flight = self._flight
        while True:
            with flight.lock:
                is_ready = flight.first is not None and flight.first.is_ready
                task = None if is_ready else self._tasks.take_of_first()
                if task is None:
                    return flight.take()
            self._do(task)

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
            self._flight.break_off(problem)
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
        except Exception as problem:  # noqa: BLE001 - handed to the consumer
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
