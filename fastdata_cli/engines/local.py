"""The local engine: threads of this process. OpenCV, Pillow and the codecs release the GIL."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, Queue
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ordered_map(
    function: Callable[[T], R], items: Iterable[T], *, workers: int, ahead: int
) -> Iterator[R]:
    """Yield ``function(item)`` for every item, in order, with a bounded look-ahead.

    The caller's thread draws from ``items``, so that small files are read by one thread while
    others decode: two Python threads that open files hand the interpreter lock back and forth.

    Args:
        workers: threads that run ``function``; 0 for the caller's own.
        ahead: how many items may be drawn and not yet yielded.
    """
    if not workers:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="fastdata")
    pending: deque[Future[R]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def ordered_stream(
    function: Callable[[T], R], items: Iterable[T], *, workers: int, ahead: int
) -> Iterator[R]:
    """As ``ordered_map``, for items that come slowly: what is done never waits for the next one.

    A thread of its own draws from ``items``. Where the caller stops early it may still be waiting
    for an item: it ends with the next one, or with the process.

    Args:
        workers: threads that run ``function``.
        ahead: how many items may be drawn and not yet yielded, but for the one in hand.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="fastdata")
    pending: Queue[Future[R] | None] = Queue(ahead)
    stopped = threading.Event()

    def feed() -> None:
        try:
            for item in items:
                pending.put(pool.submit(function, item))
                if stopped.is_set():
                    return
        except BaseException as problem:  # noqa: BLE001 - handed to the caller
            failed: Future[R] = Future()
            failed.set_exception(problem)
            pending.put(failed)
        pending.put(None)

    feeder = threading.Thread(target=feed, name="fastdata-feed", daemon=True)
    feeder.start()
    try:
        while (future := pending.get()) is not None:
            yield future.result()
    finally:
        stopped.set()
        with contextlib.suppress(Empty):
            while True:  # make room for what the feeder still holds
                pending.get_nowait()
        pool.shutdown(wait=True, cancel_futures=True)
