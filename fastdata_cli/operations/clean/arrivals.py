"""Reads lists of paths as they arrive: what is there is handed on before more is waited for."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator

from fastdata_cli.errors import UsageError
from fastdata_cli.storage.listing_paths import BYTE_ORDER_MARK

_READ_BYTES = 1 << 18
# No system takes longer paths; a list without separators is no list.
_LONGEST = 1 << 20
# How soon a reader that waits for a path notices that nobody wants one any more.
_LOOK_UP_MS = 200


class PathStream:
    """The paths on a file descriptor, in blocks of those that came at once.

    Args:
        descriptor: a file, pipe or socket; it stays the caller's.
        nul: paths end in NUL instead of a newline. The last one may lack its end.
    """

    def __init__(self, descriptor: int, *, nul: bool) -> None:
        self._descriptor = descriptor
        self._separator = b"\0" if nul else b"\n"
        self._nul = nul
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yield blocks of paths, byte for byte as they came, without their ends; empty ones not.

        Nor is a byte-order mark before the first line part of a path.

        Raises:
            UsageError: the list has the other kind of separator.
        """
        rest = b""
        first = True
        while chunk := self._read():
            self._check(rest, chunk, first=first)
            text = rest + chunk
            if first and not self._nul:
                text = text.removeprefix(BYTE_ORDER_MARK)
            *lines, rest = text.split(self._separator)
            first = first and not lines
            if paths := list(filter(None, lines)):
                yield paths
        if rest:
            if first:
                self._check_alone(rest)
            yield [rest]

    def close(self) -> None:
        """End the iteration of another thread, which may be waiting for more."""
        self._closed.set()

    def _read(self) -> bytes:
        """Return what has arrived, waiting for the first byte; nothing at the end."""
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        while not self._closed.is_set():
            if not waiting.poll(_LOOK_UP_MS):
                continue
            try:
                return os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:  # whoever shares the pipe made it so, and was faster
                continue
        return b""

    def _check(self, rest: bytes, chunk: bytes, *, first: bool) -> None:
        if not self._nul and b"\0" in chunk:
            raise UsageError(
                "the list of paths holds NUL bytes", hint="add -0 if NUL ends each of its paths"
            )
        if len(rest) > _LONGEST:
            if self._nul and first:
                self._check_alone(rest)
            raise UsageError("a path of the list is longer than 1 MiB: this is no list of paths")

    def _check_alone(self, rest: bytes) -> None:
        if self._nul and b"\n" in rest:
            raise UsageError(
                "the list has lines, and no NUL ends a path in it", hint="leave out -0"
            )
