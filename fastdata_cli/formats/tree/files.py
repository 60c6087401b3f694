"""Reads image files: one whole or its first bytes, or many in order with the next on their way."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, StorageError
from fastdata_cli.keys import from_bytes

# Without NONBLOCK, opening a pipe that somebody put in the file's place would wait for ever.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# No decoder takes more, and a sparse file may claim any size.
_MAX_FILE_BYTES = 1 << 31
# From a cold disk 32 files ahead read 4 to 6 times as fast as none; more gained little.
_FILES_AHEAD = 32
_BYTES_AHEAD = 1 << 20
_MISSING = (errno.ENOENT, errno.ENOTDIR)
_NO_FAULT_OF_THE_FILE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def read_file(path: bytes, key: str, limit: int | None = None) -> NDArray[np.uint8]:
    """Return the bytes of a file, 1-D uint8 of its exact size; the caller owns them.

    Args:
        path: the file.
        key: the sample's key, for errors.
        limit: read no more than this many bytes.

    Raises:
        BadSampleError: ``missing``, ``unreadable`` or ``too-large``.
        StorageError: this process may open no more files, or has no memory.
    """
    return _read(_open(path, key), key, limit)


def read_files(
    files: Iterable[tuple[bytes, str]],
) -> Iterator[NDArray[np.uint8] | BadSampleError]:
    """Yield what ``read_file`` returns for each (path, key), or the BadSampleError it raises.

    The system is asked for the next files early, so that a disk always has something to do.
    """
    opened: deque[tuple[int | BadSampleError, str]] = deque()
    try:
        for path, key in files:
            opened.append((_open_ahead(path, key), key))
            if len(opened) > _FILES_AHEAD:
                yield _finish(*opened.popleft())
        while opened:
            yield _finish(*opened.popleft())
    finally:
        for descriptor, _ in opened:
            if isinstance(descriptor, int):
                os.close(descriptor)


def _open_ahead(path: bytes, key: str) -> int | BadSampleError:
    try:
        descriptor = _open(path, key)
    except BadSampleError as problem:
        return problem
    with contextlib.suppress(OSError):  # only advice, and a pipe takes none
        os.posix_fadvise(descriptor, 0, _BYTES_AHEAD, os.POSIX_FADV_WILLNEED)
    return descriptor


def _finish(descriptor: int | BadSampleError, key: str) -> NDArray[np.uint8] | BadSampleError:
    if isinstance(descriptor, BadSampleError):
        return descriptor
    try:
        return _read(descriptor, key, None)
    except BadSampleError as problem:
        return problem


def _open(path: bytes, key: str) -> int:
    try:
        return os.open(path, _FLAGS)
    except OSError as problem:
        raise _explained(problem, key, path) from problem
    except ValueError as problem:  # a NUL, from a damaged sidecar
        detail = "no file can have its name"
        raise BadSampleError(key=key, reason="missing", detail=detail) from problem


def _read(descriptor: int, key: str, limit: int | None) -> NDArray[np.uint8]:
    """Read and close an open file."""
    try:
        size = _size(descriptor, key, limit)
        buffer = np.empty(size, np.uint8)
        filled = os.readv(descriptor, [buffer.data]) if size else 0
        while filled < size:
            more = os.readv(descriptor, [buffer[filled:].data])
            if not more:  # cut while it was open
                return buffer[:filled].copy()
            filled += more
    except OSError as problem:
        raise _explained(problem, key) from problem
    finally:
        os.close(descriptor)
    return buffer


def _size(descriptor: int, key: str, limit: int | None) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise BadSampleError(key=key, reason="unreadable", detail=what)
    size = status.st_size if limit is None else min(status.st_size, limit)
    if size > _MAX_FILE_BYTES:
        raise BadSampleError(key=key, reason="too-large", detail=f"{size} bytes")
    return size


def _explained(problem: OSError, key: str, path: bytes = b"") -> BadSampleError | StorageError:
    detail = problem.strerror or str(problem)
    if problem.errno in _NO_FAULT_OF_THE_FILE:
        return StorageError(
            f"cannot read {from_bytes(path) or key}: {detail}",
            hint="raise the limit of open files (ulimit -n), or use fewer workers",
            path=from_bytes(path),
        )
    reason = "missing" if problem.errno in _MISSING else "unreadable"
    return BadSampleError(key=key, reason=reason, detail=detail)
