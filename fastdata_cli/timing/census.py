"""How much of a set of files the page cache holds: the value, and the sums it is made from.

Cold means that at most 1% of the bytes are in the page cache, warm that at least 95% are; both are
said only when shown, counting what could not be looked at against the claim.
"""

from __future__ import annotations

import math
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fastdata_cli.timing.mounts import Mount, mount_of

State = Literal["cold", "warm", "mixed", "unknown"]
Look = Callable[[int, Mount], tuple[int, str] | None]
"""Takes an open file and where it lies; returns its cached bytes and the method, if known."""

COLD_AT_MOST = 0.01
WARM_AT_LEAST = 0.95


@dataclass(frozen=True, kw_only=True)
class Residency:
    """How much of a set of files was in the page cache at one moment.

    Attributes:
        total_bytes: sum of the file sizes.
        resident_bytes: how many of them were found in the page cache.
        unmeasured: bytes of which it is not known.
        method: ``cachestat``, ``mincore``, both joined by ``+``, or ``none``.
        margin: 0.0 when every file was looked at; else the three figures above are estimated from
            a random part of the files, and the fraction lies within ± this, 19 times of 20.
        notes: what was not measured, what stayed and why, in sentences.
        state: ``cold`` (at most 1% resident), ``warm`` (at least 95%), ``mixed``, or ``unknown``
            where none of them is shown.
    """

    total_bytes: int
    resident_bytes: int
    method: str
    unmeasured: int = 0
    margin: float = 0.0
    notes: tuple[str, ...] = ()
    state: State = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", self._judge())  # a field, so that records carry it

    @property
    def fraction(self) -> float:
        """Resident bytes of all bytes, 0.0 to 1.0; what is unmeasured counts as not resident."""
        return self.resident_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def estimate(self) -> bool:
        """Whether only a random part of the files was looked at."""
        return self.margin > 0

    def _judge(self) -> State:
        if not self.total_bytes:
            return "unknown"
        low = self.fraction - self.margin
        high = self.fraction + self.margin + self.unmeasured / self.total_bytes
        if high <= COLD_AT_MOST:
            return "cold"
        if low >= WARM_AT_LEAST:
            return "warm"
        return "mixed" if low > COLD_AT_MOST and high < WARM_AT_LEAST else "unknown"


class Census:
    """Looks at files one by one and adds up what it finds.

    Attributes:
        resident: the files of which pages were found.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._size = self._cached = self._unmeasured = self._squares = 0
        self._methods: set[str] = set()
        self._unseen: defaultdict[str, list[Path]] = defaultdict(list)
        self._mounts: dict[int, Mount] = {}
        self.resident: list[Path] = []

    def visit(self, path: Path) -> None:
        """Open one file, look at it and count it."""
        try:
            # Without O_NONBLOCK the opening of a FIFO would wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as problem:
            self._miss(path, size_of(path), _words(problem))
            return
        try:
            self._count(path, descriptor, os.fstat(descriptor))
        finally:
            os.close(descriptor)

    def _count(self, path: Path, descriptor: int, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            self._miss(path, 0, "no regular file")
            return
        mount = self._mounts.get(status.st_dev)
        if mount is None:
            mount = self._mounts[status.st_dev] = mount_of(path)
        found = self._look(descriptor, mount)
        if found is None:
            self._miss(
                path, status.st_size, "the kernel tells only its owner, and who may write it"
            )
            return
        cached, method = found
        self._methods.add(method)
        self._add(status.st_size)
        self._cached += cached
        if cached:
            self.resident.append(path)
        if mount.caches_apart and cached < status.st_size:
            self._unmeasured += status.st_size - cached
            self._unseen[f"{mount.kind} caches beside the page cache"].append(path)

    def _miss(self, path: Path, size: int, why: str) -> None:
        self._add(size)
        self._unmeasured += size
        self._unseen[why].append(path)

    def _add(self, size: int) -> None:
        self._size += size
        self._squares += size * size

    def result(self, notes: Sequence[str] = ()) -> Residency:
        """Return what was found, of the files visited."""
        return self._scaled(1.0, 0.0, notes)

    def estimate(self, rest: Sequence[Path], visited: int) -> Residency:
        """Return what is likely for the files visited, a random part, and ``rest`` together."""
        total = self._size + sum(size_of(path) for path in rest)
        note = f"estimated from {visited:,} of {visited + len(rest):,} files: the time was over"
        if not self._size:
            return Residency(
                total_bytes=total, resident_bytes=0, unmeasured=total, method="none", notes=(note,)
            )
        part = self._cached / self._size
        files = self._size**2 / self._squares  # of equal size, that would tell as much
        margin = 1.96 * math.sqrt(part * (1 - part) / files) + 3 / files
        return self._scaled(total / self._size, margin, (note,))

    def _scaled(self, factor: float, margin: float, notes: Sequence[str]) -> Residency:
        unseen = (f"{named(paths)} not measured: {why}" for why, paths in self._unseen.items())
        return Residency(
            total_bytes=round(self._size * factor),
            resident_bytes=round(self._cached * factor),
            unmeasured=round(self._unmeasured * factor),
            method="+".join(sorted(self._methods)) or "none",
            margin=margin,
            notes=(*notes, *unseen),
        )


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def named(paths: Sequence[Path]) -> str:
    """Return a count of files and the first of them, for a sentence."""
    return str(paths[0]) if len(paths) == 1 else f"{len(paths):,} files (first {paths[0]})"


def megabytes(size: int) -> str:
    """Return a size for a sentence."""
    return f"{size / 1e6:,.1f} MB"


def by_reason(paths: Iterable[Path], why: Callable[[Path], str]) -> tuple[str, ...]:
    """Return one sentence for each reason, naming its files."""
    groups: defaultdict[str, list[Path]] = defaultdict(list)
    for path in paths:
        groups[why(path)].append(path)
    return tuple(f"{named(group)} {reason}" for reason, group in groups.items())


def _words(problem: OSError) -> str:
    return (problem.strerror or "it cannot be opened").lower()
