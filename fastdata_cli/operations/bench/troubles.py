"""What went wrong with the machine while loaders ran, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from fastdata_cli.timing.measurement import Measurement
from fastdata_cli.timing.resource_use import Resources
from fastdata_cli.timing.symptoms import (
    DISK_BUSY,
    DISK_QUEUE,
    OTHERS_SHARE,
    SWAPPED_BYTES,
)


def swapped_bytes(resources: Resources) -> int:
    """Return what the machine swapped, in and out."""
    return (resources.swapped_in_bytes or 0) + (resources.swapped_out_bytes or 0)


def troubles(name: str, measurement: Measurement, resources: Resources) -> Iterator[str]:
    """Yield a sentence for swapping, a full disk queue, and processors that others took."""
    swapped = swapped_bytes(resources)
    if swapped >= SWAPPED_BYTES:
        yield f"{name}: the machine swapped {swapped / 1e6:,.0f} MB meanwhile: memory is short"
    for disk in resources.disks:
        if disk.utilisation_mean >= DISK_BUSY and disk.queue_mean >= DISK_QUEUE:
            yield (
                f"{name}: the queue of disk {disk.device} was full: busy"
                f" {disk.utilisation_mean:.0%} of the time, {disk.queue_mean:.0f} requests waiting"
            )
    if measurement.others >= OTHERS_SHARE:
        yield (
            f"{name}: starved of processors: others took {measurement.others:.0%} of them meanwhile"
        )
