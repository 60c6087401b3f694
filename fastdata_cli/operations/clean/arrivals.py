"""Reads lists of paths as they arrive: what is there is handed on before more is waited for."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator

from fastdata_cli.storage.listing_paths import PathLines

_READ_BYTES = 1 << 18
# How soon a reader that waits for a path notices that nobody wants one any more.
_LOOK_UP_MS = 200


class PathStream:
    """The lines of a list on a file descriptor, in blocks of those that came at once.

    Args:
        descriptor: a file, pipe or socket; it stays the caller's.
        nul: paths end in NUL instead of a newline.
    """

    def __init__(self, descriptor: int, *, nul: bool) -> None:
        self._descriptor = descriptor
        self._nul = nul
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yield blocks of lines, byte for byte as they came, without their ends.

        Raises:
            UsageError: see ``PathLines``.
        """
        lines = PathLines(nul=self._nul)
        while chunk := self._read():
            if block := lines.feed(chunk):
                yield block
        if not self._closed.is_set() and (block := lines.finish()):
            yield block

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
