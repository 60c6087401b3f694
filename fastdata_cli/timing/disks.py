"""The block device below a path: what it is, and what the kernel counts of its work."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.timing.mounts import Mount

_SYS = Path("/sys")
_DISKSTATS = Path("/proc/diskstats")
_SECTOR = 512  # of the kernel's counters, whatever the device's own sector is


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A whole block device: the disk of a partition, or the volume on several disks."""

    name: str
    """As in ``/sys/block``: ``nvme0n1``, ``dm-0``."""
    model: str | None
    """Of the first disk below a volume; None where the device does not say, as virtual ones."""
    rotational: bool | None
    """As the kernel believes; virtual disks often claim to rotate."""
    read_ahead_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """What one device has done since the machine started."""

    reads: int
    read_bytes: int
    busy_s: float
    """Seconds during which at least one request was under way."""
    queued_s: float
    """Seconds that requests were under way, added up over all of them."""


def disk_of(mount: Mount, *, sys: Path = _SYS) -> Disk | None:
    """Return the disk that ``mount`` lies on; None for file systems without one."""
    folder = _device_folder(mount, sys)
    if folder is None:
        return None
    if (folder / "partition").exists():
        folder = folder.parent
    rotational, ahead = _text(folder / "queue/rotational"), _text(folder / "queue/read_ahead_kb")
    return Disk(
        name=folder.name,
        model=_model(folder),
        rotational=None if rotational is None else rotational != "0",
        read_ahead_bytes=int(ahead) << 10 if ahead and ahead.isdigit() else None,
    )


def disk_counters(
    names: Collection[str], *, diskstats: Path = _DISKSTATS
) -> dict[str, DiskCounters]:
    """Return the counters of these disks; those that the kernel does not list are left out."""
    try:
        lines = diskstats.read_text().splitlines() if names else []
    except OSError:
        return {}
    found = {}
    for line in lines:
        fields = line.split()
        if len(fields) > 13 and fields[2] in names:
            found[fields[2]] = DiskCounters(
                reads=int(fields[3]),
                read_bytes=int(fields[5]) * _SECTOR,
                busy_s=int(fields[12]) / 1000,
                queued_s=int(fields[13]) / 1000,
            )
    return found


def _device_folder(mount: Mount, sys: Path) -> Path | None:
    for device in (mount.device, _device_of_source(mount.source)):
        link = sys / "dev/block" / device
        if device and link.exists():
            return link.resolve()
    return None


def _device_of_source(source: str) -> str:
    # btrfs and others give their mounts a number that is no device's; the source is one.
    if not source.startswith("/dev/"):
        return ""
    try:
        status = os.stat(source)
    except OSError:
        return ""
    if not stat.S_ISBLK(status.st_mode):
        return ""
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def _model(folder: Path) -> str | None:
    below = sorted((folder / "slaves").iterdir()) if (folder / "slaves").is_dir() else []
    if below:
        first = below[0].resolve()
        return _model(first.parent if (first / "partition").exists() else first)
    return _text(folder / "device/model")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None
