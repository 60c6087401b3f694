"""An HDF5 file that grows by sessions: each is kept whole, or leaves the file as it was.

HDF5 changes its metadata in place, so a file that was being written when its process died may not
open again. Here HDF5 writes through a Python file object instead. What it appends goes straight to
the file; what it would change in place is held back until the session ends. Then the old content
of those pages goes to a rollback file, that is synced, and only then do the new pages replace the
old ones. ``roll_back`` undoes a session that was cut short at any point.

A refusal of the system (no space, file too large) never reaches HDF5, which may hang or raise at
interpreter exit after one: the session goes on in memory and is then given up.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.storage import durable

LIBVER = "v110"
"""The file format version that all sessions write: HDF5 1.10, of 2016, and later read it."""

_PAGE = 4096

# Whole chunks are copied out of the mapped file, which from odd addresses takes twice as long.
_ALIGNMENT = {"alignment_threshold": 4096, "alignment_interval": 64}


class StagedFile(io.RawIOBase):
    """The file object that HDF5 writes one session through.

    Args:
        descriptor: the open file.
        size: bytes of it that earlier sessions left; what lies beyond is discarded.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._size = size
        # Pages from here on hold nothing of earlier sessions, and need not be held back.
        self._fresh = -(-size // _PAGE) * _PAGE
        self._pages: dict[int, bytearray] = {}
        self._at = 0
        self._failure: OSError | None = None
        os.ftruncate(descriptor, size)

    def readable(self) -> bool:
        """HDF5 reads its metadata back."""
        return True

    def writable(self) -> bool:
        """HDF5 writes."""
        return True

    def seekable(self) -> bool:
        """HDF5 seeks before each call."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = origin + offset
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Note the new size; the file itself gets it at the end of the session."""
        self._size = self._at if size is None else size
        return self._size

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` with what the session sees here."""
        view = memoryview(buffer).cast("B")
        data = os.pread(self._descriptor, len(view), self._at)
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        for number, inner, outer in _cut(self._at, len(view)):
            if number in self._pages:
                view[outer] = self._pages[number][inner]
        self._at += len(view)
        return len(view)

    def write(self, buffer: Any) -> int:
        """Append to the file, or hold back what would change it."""
        view = memoryview(buffer).cast("B")
        old = min(max(self._fresh - self._at, 0), len(view))
        self._hold(self._at, view[:old])
        self._append(self._at + old, view[old:])
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def check(self) -> None:
        """Raise the OSError that the system answered a write with, if it did."""
        if self._failure is not None:
            raise self._failure

    def commit(self, rollback: Path, part: int) -> int:
        """Make the session part of the file, durably, and return the file's size.

        Args:
            rollback: where the old content of the changed pages is kept.
            part: the last part that the old content holds.

        Raises:
            OSError: the system refused a write, now or in the session.
        """
        self.check()
        if self._pages:
            self._save_old_pages(rollback, part)
        for number, page in self._pages.items():
            _write_at(self._descriptor, number * _PAGE, memoryview(page))
        os.ftruncate(self._descriptor, self._size)
        durable.sync_file(self._descriptor)
        return self._size

    def _append(self, offset: int, view: memoryview) -> None:
        if self._failure is None:
            try:
                _write_at(self._descriptor, offset, view)
            except OSError as problem:
                self._failure = problem
            else:
                return
        self._hold(offset, view)

    def _hold(self, offset: int, view: memoryview) -> None:
        for number, inner, outer in _cut(offset, len(view)):
            if number not in self._pages:
                self._pages[number] = bytearray(self._page_on_disk(number))
            self._pages[number][inner] = view[outer]

    def _page_on_disk(self, number: int) -> bytes:
        return os.pread(self._descriptor, _PAGE, number * _PAGE).ljust(_PAGE, b"\0")

    def _save_old_pages(self, rollback: Path, part: int) -> None:
        numbers = sorted(self._pages)
        content = b"".join(map(self._page_on_disk, numbers))
        beside = rollback.with_suffix(".new")
        with open(beside, "wb") as file:
            np.savez(
                file,
                part=np.int64(part),
                numbers=np.array(numbers, np.int64),
                content=np.frombuffer(content, np.uint8).reshape(-1, _PAGE),
            )
            durable.sync_file(file.fileno())
        os.replace(beside, rollback)
        durable.sync_directory(rollback.parent)


@contextlib.contextmanager
def session(path: Path, size: int, rollback: Path, part: int) -> Iterator[Any]:
    """Open the staged file for one session; yields ``(h5py.File, StagedFile)``.

    The session counts if the block ends without exception; see ``StagedFile.commit``.

    Args:
        path: the staged file; made when ``size`` is 0.
        size: its size after the last session.
        rollback: where what the session replaces is kept.
        part: the last part written before this session; -1 for none.
    """
    import h5py

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        staged = StagedFile(descriptor, size)
        # Whole chunks are written: a chunk cache would only copy them once more.
        with h5py.File(
            staged, "r+" if size else "w", libver=(LIBVER, LIBVER), rdcc_nbytes=0, **_ALIGNMENT
        ) as file:
            yield file, staged
        staged.commit(rollback, part)
    finally:
        os.close(descriptor)


def roll_back(path: Path, size: int, rollback: Path, part: int) -> None:
    """Bring the staged file back to what it was, of ``size`` bytes, after ``part``.

    Raises:
        OSError: the system refuses.
        ValueError: the rollback file is broken.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        if rollback.exists():
            with np.load(rollback, allow_pickle=False) as saved:
                if int(saved["part"]) == part:
                    for number, page in zip(saved["numbers"], saved["content"], strict=True):
                        _write_at(descriptor, int(number) * _PAGE, page.data)
        os.ftruncate(descriptor, size)
        durable.sync_file(descriptor)
    finally:
        os.close(descriptor)


def _cut(offset: int, length: int) -> Iterator[tuple[int, slice, slice]]:
    """Yield page number, place in the page and place in the range, page by page."""
    at = offset
    while at < offset + length:
        number, inner = divmod(at, _PAGE)
        count = min(_PAGE - inner, offset + length - at)
        yield number, slice(inner, inner + count), slice(at - offset, at - offset + count)
        at += count


def _write_at(descriptor: int, offset: int, view: memoryview) -> None:
    while view:
        count = os.pwrite(descriptor, view[: 1 << 30], offset)
        view, offset = view[count:], offset + count
