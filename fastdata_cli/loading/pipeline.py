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
