"""Moving one file for good, never over another, also onto another file system."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
import stat
from pathlib import Path

from fastdata_cli.storage import durable

_PARTIAL = b".fastdata-partial"


def move(source: bytes, target: bytes) -> bool:
    """Move a file, or a link as a link, unless something stands at the target.

    Onto another file system it is copied beside the target, synced and renamed, and only then
    removed here: a kill leaves it in one place, or whole in both.

    Returns:
        Whether it was moved.

    Raises:
        OSError: the system refuses, or the file changed while it was copied.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        return durable.rename_new(Path(os.fsdecode(source)), Path(os.fsdecode(target)))
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise
    return _copy_over(source, target)


def same_content(one: bytes, other: bytes) -> bool:
    """Tell whether two files, or two links, are alike: what a kill between copies leaves."""
    first, second = os.lstat(one), os.lstat(other)
    if stat.S_ISLNK(first.st_mode) or stat.S_ISLNK(second.st_mode):
        both = stat.S_ISLNK(first.st_mode) and stat.S_ISLNK(second.st_mode)
        return both and os.readlink(one) == os.readlink(other)
    regular = stat.S_ISREG(first.st_mode) and stat.S_ISREG(second.st_mode)
    return regular and filecmp.cmp(one, other, shallow=False)


def clear_partial(target: bytes) -> None:
    """Remove what a kill left of a copy to this target."""
    with contextlib.suppress(OSError):
        os.unlink(_partial(target))


def _partial(target: bytes) -> bytes:
    folder, name = os.path.split(target)
    # A name may be as long as names can be.
    return os.path.join(folder, b"." + name[: 254 - len(_PARTIAL)] + _PARTIAL)


def _copy_over(source: bytes, target: bytes) -> bool:
    before = os.lstat(source)
    partial = _partial(target)
    clear_partial(target)
    try:
        if stat.S_ISLNK(before.st_mode):
            os.symlink(os.readlink(source), partial)
        else:
            _copy(source, partial)
        if not durable.rename_new(Path(os.fsdecode(partial)), Path(os.fsdecode(target))):
            return False
    finally:
        clear_partial(target)
    durable.sync_directory(Path(os.fsdecode(os.path.dirname(target))))
    after = os.lstat(source)
    if (after.st_ino, after.st_size, after.st_mtime_ns) != (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    ):
        os.unlink(target)
        raise OSError(errno.EBUSY, "it changed while it was copied", os.fsdecode(source))
    os.unlink(source)
    return True


def _copy(source: bytes, target: bytes) -> None:
    with (
        open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as reading,
        open(target, "xb") as writing,
    ):
        shutil.copyfileobj(reading, writing, 1 << 20)
        writing.flush()
        os.fsync(writing.fileno())
    shutil.copystat(source, target, follow_symlinks=False)
