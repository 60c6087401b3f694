"""How much of the processors others took while something was measured.

No repetition within a run shows that a neighbour was at work throughout; the kernel's counters do.
Time that the hypervisor gave to another virtual machine counts as a neighbour's. Interrupts do not:
they serve the measured work as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.timing.process_tree import ProcessTree

_STAT = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST = 0.95  # beyond it, the share of what is left says nothing any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Processor seconds taken so far on the processors that this process may run on."""

    when: float
    """Seconds of a clock that never goes back."""
    taken_s: float
    """By anyone."""
    own_s: float
    """By this process and all below it."""


def load_now() -> Load | None:
    """Return the load so far; None where the system hides it."""
    taken = _taken_s(os.sched_getaffinity(0))
    if taken is None:
        return None
    return Load(when=time.monotonic(), taken_s=taken, own_s=ProcessTree().counters().cpu_s)


def share_of_others(before: Load, after: Load, *, allowed: int, usable: float) -> float:
    """Return which share of this process's processors others took, 0 to 0.95.

    Work that took ``t`` seconds may have been held up so that it would have taken ``(1 - share) t``
    alone; it need not have been, for it may have wanted less than what was left.

    Args:
        before: when it began.
        after: when it ended.
        allowed: processors that this process may run on.
        usable: how many of them it may use at a time; what others take of the rest is not missed.
    """
    seconds = after.when - before.when
    if seconds <= 0:
        return 0.0
    others = (after.taken_s - before.taken_s) - (after.own_s - before.own_s)
    missed = others / seconds - (allowed - usable)
    return min(_MOST, max(0.0, missed / usable))


def _taken_s(processors: Collection[int]) -> float | None:
    names = {f"cpu{number}" for number in processors}
    try:
        lines = [line.split() for line in _STAT.read_text().splitlines()]
        found = [[int(word) for word in line[1:9]] for line in lines if line[0] in names]
        ticks = sum(user + nice + system + steal for user, nice, system, _, _, _, _, steal in found)
    except (OSError, ValueError, IndexError):
        return None
    return ticks / _TICKS if found else None
