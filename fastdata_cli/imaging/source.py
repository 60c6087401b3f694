"""Owns random access to a file's bytes, whether they are in memory or behind a descriptor."""

from __future__ import annotations

import os
from typing import Protocol

from fastdata_cli.errors import BadSampleError

HEAD_BYTES = 64 * 1024
MOST_READS = 1 << 20
"""No header is that long: the walk through a GB of blocks of two bytes would take minutes. The
smallest blocks that are in use are the 255 bytes of GIF, so a frame may have 267 MB."""


class Source(Protocol):
    """Bytes that can be read at any offset."""

    size: int

    def read(self, start: int, count: int) -> bytes:
        """Up to ``count`` bytes from offset ``start``; fewer, or none, at the end."""
        ...


class MemorySource:
    """A whole file in memory."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self._reads = 0

    def read(self, start: int, count: int) -> bytes:
        """Up to ``count`` bytes from offset ``start``; fewer, or none, at the end.

        Errors:
            BadSampleError: it was asked more often than any sound file needs.
        """
        self._reads = _one_more(self._reads)
        return bytes(self.data[start : start + count])


class FileSource:
    """An open file that stays open elsewhere; its first 64 KiB are read once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._start = self._reads = 0
        self._window = os.pread(descriptor, HEAD_BYTES, 0)

    def read(self, start: int, count: int) -> bytes:
        """Up to ``count`` bytes from offset ``start``; fewer, or none, at the end.

        Errors:
            BadSampleError: it was asked more often than any sound file needs.
            OSError: the operating system cannot read the file.
        """
        self._reads = _one_more(self._reads)
        at = start - self._start
        if at < 0 or at + count > len(self._window):
            if start >= self.size:
                return b""
            # Walks go forward in small steps: one larger read serves many of them.
            self._start, at = start, 0
            self._window = os.pread(self._descriptor, max(count, 4096), start)
        return self._window[at : at + count]


def _one_more(reads: int) -> int:
    if reads == MOST_READS:
        raise BadSampleError(reason="corrupt", detail=f"more than {reads:,} blocks")
    return reads + 1
