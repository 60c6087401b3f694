"""Handles that belong to one process: opened on first use, dropped in a forked child.

A file handle of LMDB or HDF5 that two processes share gives wrong data without an error. A reader
therefore holds its handles only in a ``ProcessLocal`` and pickles without it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_instances: weakref.WeakSet[ProcessLocal[Any]] = weakref.WeakSet()


class ProcessLocal(Generic[T]):
    """One lazily opened value per process.

    Args:
        opener: makes the value; called once per process, however many threads ask at once.
        closer: releases it; also called in a forked child on the value it inherited, because some
            libraries refuse to open a file again while an inherited handle exists.
    """

    def __init__(self, opener: Callable[[], T], closer: Callable[[T], None]) -> None:
        self._open = opener
        self._close = closer
        self._value: T | None = None
        self._pid = -1
        self._lock = threading.Lock()
        _instances.add(self)

    def get(self) -> T:
        """Return this process's value, opening it if need be."""
        value = self._value
        if value is not None and self._pid == os.getpid():
            return value
        with self._lock:
            if self._value is None:
                self._value = self._open()
                self._pid = os.getpid()
            return self._value

    def close(self) -> None:
        """Release the value; the next ``get`` opens it anew."""
        with self._lock:
            value, self._value = self._value, None
        if value is not None:
            self._close(value)

    def _forget_after_fork(self) -> None:
        # The lock may have been held by a thread that does not exist in this child.
        self._lock = threading.Lock()
        value, self._value = self._value, None
        if value is not None:
            with contextlib.suppress(Exception):
                self._close(value)


class Inherited(Generic[T]):
    """One lazily made value of plain arrays, which forked children share with their parent.

    There is no lock that a fork could leave held: two threads that ask first may both make it.
    """

    def __init__(self, maker: Callable[[], T]) -> None:
        self._make = maker
        self._value: T | None = None

    def get(self) -> T:
        """Return the value, making it if need be."""
        if self._value is None:
            self._value = self._make()
        return self._value

    def close(self) -> None:
        """Forget the value; the next ``get`` makes it anew."""
        self._value = None


def _after_fork_in_child() -> None:
    for instance in list(_instances):
        instance._forget_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
