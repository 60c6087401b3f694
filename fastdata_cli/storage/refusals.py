"""Turns what the operating system refuses into an error that names the path."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from fastdata_cli.errors import FastdataError, StorageError

_REASONS = {
    errno.ENOSPC: "no space left on the device",
    errno.EDQUOT: "disk quota exceeded",
    errno.EFBIG: "file too large",
    errno.EACCES: "no permission to write here",
    errno.EPERM: "no permission to write here",
    errno.EROFS: "read-only file system",
    errno.EIO: "input/output error",
}

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FREE_HINT = "free some space or choose another destination, then run the same command again"


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into a StorageError that names the path."""
    try:
        yield
    except FastdataError:
        raise
    except OSError as problem:
        why = _REASONS.get(problem.errno or 0, problem.strerror or str(problem))
        raise StorageError(
            f"cannot write {problem.filename or path}: {why}",
            hint=_FREE_HINT if problem.errno in _FULL else "choose another destination",
            path=str(path),
        ) from problem
