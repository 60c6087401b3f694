"""Page-cache honesty without root: how much of a dataset is cached, emptying it, filling it."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from fastdata_cli.timing.census import (
    COLD_AT_MOST,
    WARM_AT_LEAST,
    Census,
    Residency,
    State,
    by_reason,
    megabytes,
    named,
    size_of,
)
from fastdata_cli.timing.mounts import Mount, blind_spots, mount_of
from fastdata_cli.timing.page_cache import cached_bytes, drop, mapped_paths, room

__all__ = [
    "COLD_AT_MOST",
    "WARM_AT_LEAST",
    "Residency",
    "State",
    "blind_spots",
    "evict",
    "residency",
    "touch",
]

_BLOCK = 8 << 20
_FEW_FILES = 16


def residency(files: Iterable[Path], *, seconds: float = 5.0) -> Residency:
    """Measure how much of some files is in the page cache; reads none of them.

    Args:
        files: regular files; those that cannot be opened count as unmeasured.
        seconds: when they are over, the result is an estimate from the files seen until then.
    """
    paths = list(files)
    # What is seen in the time must be a fair sample: neighbours share their fate in the cache.
    random.Random(0).shuffle(paths)
    census = Census(_look)
    deadline = time.monotonic() + seconds
    for visited, path in enumerate(paths):
        if time.monotonic() > deadline:
            return census.estimate(paths[visited:], visited)
        census.visit(path)
    return census.result()


def evict(files: Iterable[Path]) -> Residency:
    """Drop files from the page cache, as far as the kernel allows, and measure what stayed.

    Close the readers of this process first: mapped pages stay. Needs no right to write; waits until
    dirty pages are on the device.

    Returns:
        what is resident afterwards; its notes say what stayed, and why.
    """
    paths = list(files)
    census = _dropped(paths)
    if census.resident:
        _sync(census.resident)
        census = _dropped(paths)
    return census.result(_why_stayed(census.resident))


def touch(files: Iterable[Path], *, memory: int | None = None) -> Residency:
    """Read files once from begin to end, so that they are in the page cache; then measure.

    Args:
        files: regular files.
        memory: bytes that the page cache may take; by default what is free for it here and in the
            control group. A larger set cannot be warm: it is not read, and a note says so.
    """
    paths = list(files)
    total = sum(size_of(path) for path in paths)
    limit = room() if memory is None else memory
    if total > limit:
        note = (
            f"the files ({megabytes(total)}) are larger than the memory free for the page cache"
            f" ({megabytes(limit)}): they cannot be warm, and were not read ahead"
        )
        return _with_notes(residency(paths), (note,))
    buffer = bytearray(_BLOCK)
    failed = [path for path in paths if not _read_through(path, buffer)]
    notes = (f"{named(failed)} could not be read to the end",) if failed else ()
    return _with_notes(residency(paths), notes)


def _look(descriptor: int, mount: Mount) -> tuple[int, str] | None:
    return cached_bytes(descriptor, stacked=mount.stacked)


def _drop_and_look(descriptor: int, mount: Mount) -> tuple[int, str] | None:
    drop(descriptor)
    return _look(descriptor, mount)


def _dropped(paths: list[Path]) -> Census:
    census = Census(_drop_and_look)
    for path in paths:
        census.visit(path)
    return census


def _sync(paths: list[Path]) -> None:
    """Wait until the dirty pages of files are on the device."""
    if len(paths) > _FEW_FILES:  # one by one, each costs a flush of the drive
        os.sync()
        return
    for path in paths:
        with contextlib.suppress(OSError), path.open("rb") as file:
            os.fdatasync(file.fileno())


def _why_stayed(paths: list[Path]) -> tuple[str, ...]:
    if not paths:
        return ()
    mapped = mapped_paths()

    def why(path: Path) -> str:
        if mount_of(path).in_memory:
            return "stayed in the page cache: its file system has no other place"
        users = mapped.get(os.path.realpath(path), set())
        if os.getpid() in users:
            return "stayed in the page cache: mapped by this process, close its readers first"
        if users:
            return f"stayed in the page cache: mapped by process {min(users)}"
        return (
            "stayed in the page cache: in use, unwritten, or mapped by a process not visible here"
        )

    return by_reason(paths, why)


def _read_through(path: Path, buffer: bytearray) -> bool:
    """Read a file to its end; return whether that was possible."""
    try:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    except OSError:
        return False
    return True


def _with_notes(found: Residency, notes: tuple[str, ...]) -> Residency:
    return replace(found, notes=(*notes, *found.notes))
