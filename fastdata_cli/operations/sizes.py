"""How much room a dataset takes, in bounded time; and sizes in words."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.contract import Reader

_MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """Bytes on disk; a lower bound when there were too many files to look at all."""

    bytes: int
    exact: bool
    absent: tuple[Path, ...] = ()
    """Files that belong to the dataset and cannot be looked at."""


def stored_bytes(reader: Reader) -> StoredBytes:
    """Add up the sizes of a dataset's files, at most 20,000 of them."""
    files = reader.files()
    total, absent = 0, []
    for file in itertools.islice(files, _MOST_FILES):
        try:
            total += file.stat().st_size
        except OSError:
            absent.append(file)
    return StoredBytes(total, next(files, None) is None, tuple(absent))


def size_text(count: float) -> str:
    """Return bytes in a unit that people read, powers of 1000."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
