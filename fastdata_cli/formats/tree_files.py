"""Reads one image file whole, or its first bytes, in as few system calls as that takes."""

from __future__ import annotations

import errno
import os
import stat

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.errors import BadSampleError, StorageError
from fastdata_cli.keys import from_bytes

# Without NONBLOCK, opening a pipe that somebody put in the file's place would wait for ever.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# No decoder takes more, and a sparse file may claim any size.
_MAX_FILE_BYTES = 1 << 31
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
    try:
        descriptor = os.open(path, _FLAGS)
        try:
            return _read(descriptor, key, limit)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise _explained(problem, path, key) from problem


def _read(descriptor: int, key: str, limit: int | None) -> NDArray[np.uint8]:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise BadSampleError(key=key, reason="unreadable", detail=what)
    size = status.st_size if limit is None else min(status.st_size, limit)
    if size > _MAX_FILE_BYTES:
        raise BadSampleError(key=key, reason="too-large", detail=f"{size} bytes")
    buffer = np.empty(size, np.uint8)
    filled = os.readv(descriptor, [buffer.data]) if size else 0
    while filled < size:
        more = os.readv(descriptor, [buffer[filled:].data])
        if not more:  # cut while it was open
            return buffer[:filled].copy()
        filled += more
    return buffer


def _explained(problem: OSError, path: bytes, key: str) -> BadSampleError | StorageError:
    detail = problem.strerror or str(problem)
    if problem.errno in _NO_FAULT_OF_THE_FILE:
        return StorageError(
            f"cannot open {from_bytes(path)}: {detail}",
            hint="raise the limit of open files (ulimit -n), or use fewer workers",
            path=from_bytes(path),
        )
    reason = "missing" if problem.errno in _MISSING else "unreadable"
    return BadSampleError(key=key, reason=reason, detail=detail)
