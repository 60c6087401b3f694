"""Opens HDF5 files for reading, and says in a line why HDF5 refuses one."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastdata_cli.errors import (
    BusyError,
    DamagedDatasetError,
    FastdataError,
    SourceNotFoundError,
    StorageError,
)

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_TRUNCATED = re.compile(r"truncated file: eof = (\d+).*stored_eof = (\d+)")
_NO_LOCK = re.compile(r"unable to lock file, errno = (\d+)")
_MARKED = "already open for write"


def is_hdf5(path: Path) -> bool:
    """Return whether a file carries HDF5's signature: at 0, or at 512, 1024, 2048 … bytes."""
    try:
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            offset, size = 0, path.stat().st_size
            while offset + len(_SIGNATURE) <= size:
                file.seek(offset)
                if file.read(len(_SIGNATURE)) == _SIGNATURE:
                    return True
                offset = offset * 2 or 512
    except OSError:
        return False
    return False


def open_file(path: Path) -> Any:
    """Open ``path`` for reading as an ``h5py.File``.

    HDF5 locks the file while it is open, unless HDF5_USE_FILE_LOCKING says otherwise; where the
    file system has no locks it is opened without.

    Raises:
        SourceNotFoundError: there is nothing at the path.
        StorageError: the system does not let us read it.
        BusyError: another process has it open for writing.
        DamagedDatasetError: it is cut short, or no HDF5 file inside.
    """
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as problem:
        if not _has_no_locks(problem):
            raise _explained(path, problem) from problem
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as problem:
        raise _explained(path, problem) from problem


@contextlib.contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what HDF5 says about a broken file into a DamagedDatasetError that names it."""
    try:
        yield
    except FastdataError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        raise DamagedDatasetError(
            f"{path}: HDF5 cannot read it: {reason(problem)}", path=str(path)
        ) from problem


def reason(problem: BaseException) -> str:
    """Return the innermost reason of an HDF5 error: what its message has in brackets."""
    text = str(problem)
    inner = re.search(r"\((.*)\)$", text, re.DOTALL)
    return " ".join((inner[1] if inner else text).split())


def _has_no_locks(problem: OSError) -> bool:
    refused = _NO_LOCK.search(str(problem))
    return refused is not None and int(refused[1]) not in (errno.EAGAIN, errno.EACCES)


def _explained(path: Path, problem: OSError) -> FastdataError:
    text = str(problem)
    if isinstance(problem, FileNotFoundError):
        return SourceNotFoundError(f"{path}: there is nothing here", path=str(path))
    if isinstance(problem, PermissionError):
        return StorageError(f"{path}: no permission to read it", path=str(path))
    if _NO_LOCK.search(text):
        return BusyError(
            f"{path}: another process has it open for writing",
            hint="wait until it is closed",
            path=str(path),
        )
    if _MARKED in text:
        return BusyError(
            f"{path}: marked as open for writing, by a live process or by one that was killed",
            hint=f"wait until it is closed; if its writer was killed: h5clear -s {path}",
            path=str(path),
        )
    cut = _TRUNCATED.search(text)
    if cut:
        real, expected = int(cut[1]), int(cut[2])
        return DamagedDatasetError(
            f"{path}: cut short: {real} bytes, and {expected} are expected",
            hint="copy it again from where it is whole",
            path=str(path),
            found=real,
            expected=expected,
        )
    return DamagedDatasetError(f"{path}: HDF5 cannot open it: {reason(problem)}", path=str(path))
