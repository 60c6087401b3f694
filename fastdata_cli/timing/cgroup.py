"""What the control groups of this process allow: processors and memory, in version 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

Number = TypeVar("Number", int, float)

_PROC = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    """A mounted hierarchy of control groups: which part of it is seen, and where."""

    controllers: frozenset[str]
    """Empty for version 2, where all share one hierarchy."""
    root: str
    point: str


def processor_quota(proc: Path = _PROC) -> float | None:
    """Return how many processors' time this process may use a second; None without a limit."""
    return _least("cpu", _quota, proc)


def memory_limit(proc: Path = _PROC) -> int | None:
    """Return the bytes of memory that this process and its group may use; None without a limit."""
    return _least("memory", _limit, proc)


def _least(controller: str, read: Callable[[Path], Number | None], proc: Path) -> Number | None:
    limits = [read(folder) for folder in _folders(controller, proc)]
    return min((limit for limit in limits if limit is not None), default=None)


def _quota(folder: Path) -> float | None:
    pair = _words(folder / "cpu.max") or (
        _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    )
    try:
        quota, period = (int(word) for word in pair)
    except ValueError:  # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


def _limit(folder: Path) -> int | None:
    found = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
    try:
        (limit,) = (int(word) for word in found)
    except ValueError:
        return None
    return limit


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (OSError, ValueError):
        return []


def _folders(controller: str, proc: Path) -> Iterator[Path]:
    """Yield the folders of this process's group and of those above it: each may set a limit."""
    groups = _groups(proc)
    for hierarchy in _hierarchies(proc):
        names = hierarchy.controllers
        if names and controller not in names:
            continue
        group = groups.get(controller if names else "")
        if group is None:
            continue
        point = Path(hierarchy.point)
        # In a container the group may be named as the host sees it, with only its part mounted.
        path = PurePosixPath(group)
        known = path.is_relative_to(hierarchy.root)
        below = path.relative_to(hierarchy.root) if known else PurePosixPath()
        yield from (point / part for part in (below, *below.parents))


def _groups(proc: Path) -> dict[str, str]:
    """Return the group of this process by controller; the one of version 2 has the name ""."""
    groups = {}
    for line in _lines(proc / "cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        groups.update(dict.fromkeys(controllers.split(","), group))
    return groups


def _hierarchies(proc: Path) -> Iterator[_Hierarchy]:
    for line in _lines(proc / "mountinfo"):
        head, _, tail = line.partition(" - ")
        fields, rest = head.split(" "), tail.split(" ")
        if len(fields) > 4 and rest[0] == "cgroup2":
            yield _Hierarchy(frozenset(), fields[3], fields[4])
        elif len(fields) > 4 and rest[0] == "cgroup":
            yield _Hierarchy(frozenset(rest[-1].split(",")), fields[3], fields[4])


def _lines(path: Path) -> list[str]:
    try:
        return os.fsdecode(path.read_bytes()).splitlines()
    except OSError:
        return []
