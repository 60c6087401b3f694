"""What the kernel counts of the whole machine: processor time and swap."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_SWAPPED = re.compile(r"^(pswpin|pswpout) (\d+)$", re.MULTILINE)
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCounters:
    """Since the machine started; times are added up over all processors."""

    total_s: float
    busy_s: float
    """Any process, the kernel and interrupts."""
    iowait_s: float
    """Idle, while a process that ran here waits for storage."""
    steal_s: float
    """Wanted, and given to another virtual machine."""
    swapped_in_bytes: int
    swapped_out_bytes: int


def machine_counters(*, proc: Path = _PROC) -> MachineCounters | None:
    """Return the counters now; None where the system hides them."""
    try:
        stat = (proc / "stat").read_text().split("\n", 1)[0].split()
        pages = dict(_SWAPPED.findall((proc / "vmstat").read_text()))
        ticks = [int(word) for word in stat[1:9]]
        user, nice, system, _, iowait, irq, softirq, steal = ticks
    except (OSError, ValueError):
        return None
    return MachineCounters(
        total_s=sum(ticks) / _TICKS,
        busy_s=(user + nice + system + irq + softirq) / _TICKS,
        iowait_s=iowait / _TICKS,
        steal_s=steal / _TICKS,
        swapped_in_bytes=int(pages.get("pswpin", 0)) * _PAGE,
        swapped_out_bytes=int(pages.get("pswpout", 0)) * _PAGE,
    )
