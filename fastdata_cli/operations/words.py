"""Counts, sizes, names and labels in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

_NAMED = 3


def count_text(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: ``1 sample``, ``2,000 samples``.

    Args:
        one: what stands after 1.
        many: what stands after all else; by default the same with an s.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size_text(count: float) -> str:
    """Return bytes in a unit that people read, powers of 1000."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def some(names: Iterable[str], total: int) -> str:
    """Return the first few of so many names on one line."""
    more = f" and {total - _NAMED:,} more" if total > _NAMED else ""
    return ", ".join(islice(names, _NAMED)) + more


def label_of(label: int, names: Sequence[str]) -> str:
    """Return what a label is called."""
    return names[label] if 0 <= label < len(names) else str(label)
