"""Writing that survives a power cut: sync, and renames that either happened or did not."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_SYNC_FILE_RANGE_WRITE = 2
# Bytes after which the system is told to write to the device.
_STRIDE = 8 << 20
# What one call of writev takes on Linux.
_MOST_PIECES = 1024

_FICLONE = 0x40049409  # ioctl of Linux: one file gets the blocks of another

# Syncing one by one costs a journal commit of the file system each; beyond this, one for all.
_FEW_FILES = 16


def write_all(descriptor: int, data: memoryview) -> None:
    """Write all of ``data``, however many calls the system makes of it."""
    while data:
        data = data[os.write(descriptor, data[: 1 << 30]) :]


def write_through(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all of ``data`` at an offset, the device at work from its first megabytes on."""
    for begin in range(0, len(data), _STRIDE):
        some = data[begin : begin + _STRIDE]
        os.lseek(descriptor, offset + begin, os.SEEK_SET)
        write_all(descriptor, some)
        start_writing(descriptor, offset + begin, len(some))


def write_pieces(descriptor: int, pieces: Sequence[Any]) -> None:
    """Write bytes-like pieces one after another, without joining them first."""
    for begin in range(0, len(pieces), _MOST_PIECES):
        some = [memoryview(piece).cast("B") for piece in pieces[begin : begin + _MOST_PIECES]]
        written = os.writev(descriptor, some)
        if written < sum(map(len, some)):
            write_all(descriptor, memoryview(b"".join(some))[written:])


def start_writing(descriptor: int, offset: int, size: int) -> None:
    """Have the system begin to write a range of a file to the device, and return at once.

    It would begin by itself only when much has piled up, and whoever syncs then waits for all.
    """
    call = _libc("sync_file_range")
    if call is not None:
        call(descriptor, ctypes.c_int64(offset), ctypes.c_int64(size), _SYNC_FILE_RANGE_WRITE)


def sync_file(descriptor: int) -> None:
    """Wait until the data of an open file is on the device."""
    os.fdatasync(descriptor)


def sync_path(path: Path) -> None:
    """Wait until a file's data, or a directory's entries, are on the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


sync_directory = sync_path


def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield as ``os.walk`` does, bottom up; nothing where there is no such folder.

    Raises:
        OSError: a folder cannot be read; ``os.walk`` would take it for empty.
    """

    def refused(problem: OSError) -> None:
        if not isinstance(problem, FileNotFoundError):
            raise problem

    return os.walk(root, topdown=False, onerror=refused)


def sync_tree(root: Path) -> None:
    """Wait until everything below ``root`` is on the device."""
    paths: list[Path] = []
    for folder, _, files in os.walk(root):
        paths.append(Path(folder))
        paths.extend(Path(folder, name) for name in files)
        if len(paths) > _FEW_FILES:
            sync_filesystem(root)
            return
    for path in paths:
        sync_path(path)


def sync_files(files: Sequence[Path], root: Path) -> None:
    """Wait until new files, and the folders down to them from ``root``, are on the device."""
    folders = {folder for file in files for folder in file.parents if folder.is_relative_to(root)}
    if len(files) + len(folders) > _FEW_FILES:
        sync_filesystem(root)
        return
    for path in (*files, *folders):
        sync_path(path)


def sync_filesystem(path: Path) -> None:
    """Wait until all pending writes of the file system that holds ``path`` are on the device."""
    syncfs = _libc("syncfs")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if syncfs is None or syncfs(descriptor) != 0:
            os.sync()
    finally:
        os.close(descriptor)


def rename_new(source: Path, target: Path) -> bool:
    """Rename unless the target exists; return whether it happened."""
    failed = _renameat2(source, target, _RENAME_NOREPLACE)
    if failed == 0:
        return True
    if failed == errno.EEXIST:
        return False
    if failed not in (errno.ENOSYS, errno.EINVAL):
        raise OSError(failed, os.strerror(failed), str(target))
    if os.path.lexists(target):  # a file system without the flag: a window of microseconds
        return False
    os.rename(source, target)
    return True


def replace(source: Path, target: Path) -> None:
    """Put ``source`` in place of ``target``, if any, in one step; the old content is removed."""
    exchange(source, target)
    remove(source)


def exchange(source: Path, target: Path) -> None:
    """As ``replace``, but an old folder, or what a folder replaces, is then where ``source`` was.

    It is removed where the file system cannot exchange.
    """
    aside = target.with_name(f".{target.name}.fastdata-old")
    if rename_new(source, target):
        remove(aside)  # left by a run that was killed between the two renames below
        return
    if not exchanges(source, target):
        os.replace(source, target)
        return
    failed = _renameat2(source, target, _RENAME_EXCHANGE)
    if failed == 0:
        return
    if failed not in (errno.ENOSYS, errno.EINVAL):
        raise OSError(failed, os.strerror(failed), str(target))
    remove(aside)
    os.rename(target, aside)
    os.rename(source, target)
    remove(aside)


def exchanges(source: Path, target: Path) -> bool:
    """Tell whether ``replace`` puts the old content where ``source`` was, before it removes it.

    A folder is in the way then, which no plain rename replaces.
    """
    if not os.path.lexists(target):
        return False
    return any(each.is_dir() and not each.is_symlink() for each in (source, target))


def copy(source: Path, target: Path) -> None:
    """Copy a file, sharing its blocks where the file system can.

    Raises:
        OSError: also when there is visibly no space for it, before anything is written.
    """
    with open(source, "rb") as old, open(target, "wb") as new:
        if _shares_blocks(old.fileno(), new.fileno()):
            return
        left = os.fstat(old.fileno()).st_size
        room = os.fstatvfs(new.fileno())
        if left > room.f_bavail * room.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
    shutil.copyfile(source, target)


def _shares_blocks(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _renameat2(source: Path, target: Path, flags: int) -> int:
    """Return 0, or the errno."""
    call = _libc("renameat2")
    if call is None:
        return errno.ENOSYS
    paths = (os.fsencode(source), os.fsencode(target))
    done = call(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(flags))
    return 0 if done == 0 else ctypes.get_errno()


@cache
def _libc(name: str) -> ctypes._NamedFuncPointer | None:
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name, None)
    except OSError:
        return None
