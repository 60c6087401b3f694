"""What the kernel holds of an open file: counting its cached pages, and letting them go."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import defaultdict
from functools import cache
from pathlib import Path

from fastdata_cli.timing.cgroup import memory_limit

# The same number on every architecture that Python runs on, except alpha; kernel 6.5 and newer.
_CACHESTAT = 451

_MAP_FAILED = ctypes.c_void_p(-1).value
_WINDOW = 1 << 30
_MEMINFO = Path("/proc/meminfo")


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


def cached_bytes(descriptor: int, *, stacked: bool) -> tuple[int, str] | None:
    """Return how many bytes of an open file are in the page cache, and how that was found.

    Args:
        descriptor: a regular file, open for reading.
        stacked: whether it lies on an overlay, where cachestat asks the wrong inode and says 0.

    Returns:
        ``(bytes, "cachestat" | "mincore")``, or None where the kernel does not tell the truth.
    """
    status = os.fstat(descriptor)
    pages = None if stacked else cachestat(descriptor)
    method = "cachestat"
    if pages is None:
        pages, method = mincore(descriptor, status.st_size), "mincore"
    return None if pages is None else (min(pages * mmap.PAGESIZE, status.st_size), method)


def cachestat(descriptor: int) -> int | None:
    """Return the cached pages of a file, or None without the system call or the right to it."""
    counts = _Counts()
    failed = _libc().syscall(
        ctypes.c_long(_CACHESTAT),
        ctypes.c_int(descriptor),
        ctypes.byref(_Range(0, 0)),  # a length of 0: to the end
        ctypes.byref(counts),
        ctypes.c_uint(0),
    )
    return None if failed else int(counts.cached)


def mincore(descriptor: int, size: int) -> int | None:
    """Return the cached pages of the first ``size`` bytes, or None where the kernel would lie."""
    if not _may_know(descriptor) or _mincore_pretends():
        return None
    pages = 0
    for begin in range(0, size, _WINDOW):
        found = _pages_in_window(descriptor, begin, min(_WINDOW, size - begin))
        if found is None:
            return None
        pages += found
    return pages


def drop(descriptor: int) -> None:
    """Ask the kernel to forget the clean, unmapped pages of an open file."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def mapped_paths() -> dict[str, set[int]]:
    """Return the files mapped into memory now and the processes (as far as visible) that do so."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "maps").read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith(b"/"):
                found[os.fsdecode(fields[5])].add(int(folder.name))
    return dict(found)


def room() -> int:
    """Return how many bytes the page cache can take, here and in this process's control group."""
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) << 10
            return min(available, memory_limit() or available)
    return 0


def _pages_in_window(descriptor: int, begin: int, length: int) -> int | None:
    libc = _libc()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, begin)
    if address == _MAP_FAILED:
        return None
    try:
        states = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
        failed = libc.mincore(address, length, states)
        return None if failed else states.raw.count(b"\x01")
    finally:
        libc.munmap(address, length)


def _may_know(descriptor: int) -> bool:
    """Tell whether mincore answers truly: to others it reports every page as cached."""
    if os.fstat(descriptor).st_uid == os.geteuid():
        return True
    path = f"/proc/self/fd/{descriptor}"
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@cache
def _mincore_pretends() -> bool:
    """Tell whether this is a sandbox (gVisor is one) whose mincore reports every page as cached."""
    try:
        descriptor = os.memfd_create("fastdata-mincore", os.MFD_CLOEXEC)
    except OSError:
        return False
    try:
        os.ftruncate(descriptor, mmap.PAGESIZE)  # a hole: there is no page
        return _pages_in_window(descriptor, 0, mmap.PAGESIZE) != 0
    finally:
        os.close(descriptor)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    return libc
