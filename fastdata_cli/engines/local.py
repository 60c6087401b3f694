"""The local engine: threads of this process. OpenCV, Pillow and the codecs release the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
        workers: threads that run ``function``.
        ahead: how many items may be drawn and not yet yielded.
    """
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
