"""Room for what may not fit in memory: arrays and texts that move to unnamed files as they grow.

The files are in the folder for temporary files (``TMPDIR``) and vanish with the process. Their
pages are the system's to write out and take back.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastdata_cli.errors import StorageError
from fastdata_cli.storage.durable import write_all

IN_MEMORY = 4 << 20
"""Bytes of one array, or of unwritten texts, that stay in memory."""


def scratch_array(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return a new array of undefined content: in memory while small, else mapped from a file.

    Raises:
        StorageError: there is no room for the file.
    """
    wanted = count * np.dtype(dtype).itemsize
    if wanted <= IN_MEMORY:
        return np.empty(count, dtype)
    try:
        with _unnamed_file() as file:
            # Taken now: a full disk met on writing to a mapping would kill the process.
            os.posix_fallocate(file.fileno(), 0, wanted)
            room = mmap.mmap(file.fileno(), wanted)
    except OSError as problem:
        raise _no_room(problem) from problem
    return np.frombuffer(room, dtype)


class Column:
    """A one-dimensional array that grows.

    Args:
        dtype: of its elements.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._room = scratch_array(1024, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> NDArray[Any]:
        """What was added so far; later additions do not show."""
        return self._room[: self._length]

    def append(self, value: Any) -> None:
        """Add one element."""
        if self._length == len(self._room):
            self._grow(self._length + 1)
        self._room[self._length] = value
        self._length += 1

    def extend(self, values: NDArray[Any]) -> None:
        """Add many elements."""
        end = self._length + len(values)
        if end > len(self._room):
            self._grow(end)
        self._room[self._length : end] = values
        self._length = end

    def _grow(self, least: int) -> None:
        room = scratch_array(max(least, 2 * len(self._room)), self._room.dtype)
        room[: self._length] = self.values
        self._room = room


class Texts:
    """Strings of bytes, added one after another and read back by number."""

    def __init__(self) -> None:
        self._ends = Column("<i8")
        self._pending = bytearray()
        self._written = 0
        self._file: BinaryIO | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        begin = int(self.ends[number - 1]) if number else 0
        return self._read(begin, int(self.ends[number]) - begin)

    @property
    def num_bytes(self) -> int:
        """Length of all texts joined."""
        return self._written + len(self._pending)

    @property
    def ends(self) -> NDArray[np.int64]:
        """int64[N], where each text ends when all are joined."""
        return self._ends.values

    def append(self, text: bytes) -> None:
        """Add one text.

        Raises:
            StorageError: there is no room for it.
        """
        self._take(text)
        self._ends.append(self.num_bytes)

    def extend(self, ends: Iterable[NDArray[np.int64]], joined: Iterable[bytes]) -> None:
        """Add many texts: where each ends when they are joined, and them joined; all in pieces."""
        before = self.num_bytes
        for piece in ends:
            self._ends.extend(piece + before)
        for part in joined:
            self._take(part)

    def joined(self) -> Iterator[bytes]:
        """Yield all texts joined, in pieces."""
        for begin in range(0, self.num_bytes, IN_MEMORY):
            yield self._read(begin, min(IN_MEMORY, self.num_bytes - begin))

    def close(self) -> None:
        """Release the file; what was in it cannot be read any more."""
        if self._file is not None:
            self._file.close()

    def _take(self, piece: bytes) -> None:
        self._pending += piece
        if len(self._pending) <= IN_MEMORY:
            return
        try:
            if self._file is None:
                self._file = _unnamed_file()
            write_all(self._file.fileno(), memoryview(bytes(self._pending)))
        except OSError as problem:
            raise _no_room(problem) from problem
        self._written += len(self._pending)
        self._pending.clear()

    def _read(self, begin: int, length: int) -> bytes:
        written = b""
        if begin < self._written and self._file is not None:
            written = os.pread(self._file.fileno(), min(length, self._written - begin), begin)
        start = max(begin - self._written, 0)
        return written + bytes(self._pending[start : start + length - len(written)])


def _unnamed_file() -> BinaryIO:
    return tempfile.TemporaryFile(prefix="fastdata-", buffering=0)


def _no_room(problem: OSError) -> StorageError:
    folder = tempfile.tempdir or "the folder for temporary files"
    return StorageError(
        f"no room for the duplicate index in {folder}: {problem.strerror}",
        hint="set TMPDIR to a folder with more space",
        path=folder,
    )
