"""What went wrong with the machine while loaders ran, one sentence for each kind of trouble.

That others took processors is said of every case beside its times (timing/doubts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from fastdata_cli.timing.resource_use import Resources
from fastdata_cli.timing.symptoms import DISK_BUSY, DISK_QUEUE, SWAPPED_BYTES


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One kind of trouble that one loader met."""

    kind: str
    """``swap``, or ``queue`` and the disk."""
    where: str
    """Which loader."""
    value: float
    """How bad it was, among those of its kind."""
    text: str


def swapped_bytes(resources: Resources) -> int:
    """Return what the machine swapped, in and out."""
    return (resources.swapped_in_bytes or 0) + (resources.swapped_out_bytes or 0)


def troubles(where: str, resources: Resources) -> Iterator[Trouble]:
    """Yield swapping and full disk queues."""
    swapped = swapped_bytes(resources)
    if swapped >= SWAPPED_BYTES:
        text = f"the machine swapped {swapped / 1e6:,.0f} MB meanwhile: memory is short"
        yield Trouble(kind="swap", where=where, value=swapped, text=text)
    for disk in resources.disks:
        if disk.utilisation_mean >= DISK_BUSY and disk.queue_mean >= DISK_QUEUE:
            text = (
                f"the queue of disk {disk.device} was full: busy {disk.utilisation_mean:.0%} of"
                f" the time, {disk.queue_mean:.0f} requests waiting"
            )
            kind = f"queue {disk.device}"
            yield Trouble(kind=kind, where=where, value=disk.queue_mean, text=text)


def sentences(found: Iterable[Trouble]) -> Iterator[str]:
    """Yield one sentence for each kind, in the words of the worst, naming how many met it."""
    by_kind = attrgetter("kind")
    for _, each in groupby(sorted(found, key=by_kind), key=by_kind):
        alike = list(each)
        worst = max(alike, key=attrgetter("value"))
        others = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        yield f"{worst.where}{others}: {worst.text}"
