"""Standard output and standard error: results must arrive, talk need not."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

from fastdata_cli.errors import StorageError


def prepare_streams() -> None:
    """Give the process streams that take any name under any locale: what they cannot is escaped.

    Standard output raises StorageError for what cannot be written, once, and BrokenPipeError when
    its reader went away. Standard error drops what cannot be written: no work fails for that.
    """
    for name, number, kind in (("stdout", 1, _Results), ("stderr", 2, _Talk)):
        before = getattr(sys, name)
        if before is None:  # closed by whoever started this
            _occupy(number)
        raw = kind(number, "w", closefd=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding="utf-8" if before is None else before.encoding,
            errors="backslashreplace",
            line_buffering=name == "stderr" or raw.isatty(),
        )
        setattr(sys, name, stream)


def _occupy(number: int) -> None:
    """Keep a closed stream's number from a file that is opened later; it still takes nothing."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)


class _Results(io.FileIO):
    """Standard output."""

    _failed = False

    def write(self, content: Any) -> int:
        if self._failed:  # and that was said
            return memoryview(content).nbytes
        try:
            return super().write(content)
        except OSError as problem:
            self._failed = True
            if isinstance(problem, BrokenPipeError):
                raise
            why = "it is closed" if problem.errno == errno.EBADF else problem.strerror
            raise StorageError(f"standard output cannot be written: {why}") from problem


class _Talk(io.FileIO):
    """Standard error."""

    def write(self, content: Any) -> int:
        try:
            written = super().write(content)
        except OSError:
            written = None
        return memoryview(content).nbytes if written is None else written
