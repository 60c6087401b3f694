"""Which file system a path lies on, and what of its caching cannot be seen or emptied from here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_MOUNTINFO = Path("/proc/self/mountinfo")

_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "afs", "9p", "virtiofs"}
_MEMORY = {"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"}

# Their data is cached a second time where neither mincore nor posix_fadvise reaches: in the ARC, in
# a daemon, or in the page cache of the block device or image file below.
_OWN_CACHE = {"zfs", "gpfs", "fuseblk", "ecryptfs", "squashfs", "erofs", "iso9660", "cramfs"}


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: where, of what kind (``ext4``), and from what (``/dev/sda1``)."""

    point: str
    kind: str
    source: str
    options: tuple[str, ...] = ()
    device: str = ""
    """Major and minor number, ``254:0``; the major is 0 where no block device is below."""

    @property
    def remote(self) -> bool:
        """Whether a server or a host answers the reads."""
        return self.kind in _REMOTE

    @property
    def in_memory(self) -> bool:
        """Whether the page cache is the only place where the files are."""
        return self.kind in _MEMORY

    @property
    def stacked(self) -> bool:
        """Whether the pages belong to files of another file system below."""
        return self.kind == "overlay"

    @property
    def caches_apart(self) -> bool:
        """Whether a page that is not in the page cache may be cached elsewhere in this machine."""
        named = self.kind in _OWN_CACHE or self.kind.startswith("fuse.") or self.kind == "fuse"
        return named or self.source.startswith("/dev/loop")


def mount_of(path: Path) -> Mount:
    """Return the mount that ``path`` lies on; its kind is ``unknown`` without ``/proc``."""
    real = os.path.realpath(path)
    best = Mount("", "unknown", "")
    for mount in _mounts():
        below = real == mount.point or real.startswith(mount.point.rstrip("/") + "/")
        if below and len(mount.point) >= len(best.point):  # of two on one point, the later one
            best = mount
    return best


def blind_spots(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return, in sentences, which caches of these paths cannot be seen or emptied.

    Args:
        paths: a few representative paths, such as the roots of the datasets.
    """
    mounts = dict.fromkeys(mount_of(path) for path in paths)
    return tuple(dict.fromkeys(_blind_spot(mount) for mount in mounts))


def _blind_spot(mount: Mount) -> str:
    where = f"{mount.point or 'the path'} ({mount.kind})"
    if mount.in_memory:
        return f"{where} lives in memory: there is no device behind it, and it is always warm"
    if mount.remote:
        return (
            f"{where} is served from {mount.source}: the server's own cache cannot be seen or"
            " emptied, and cold means that this machine holds no page of it"
        )
    if mount.caches_apart:
        return (
            f"{where} keeps data in a cache beside the page cache, which cannot be seen or emptied:"
            " its files are never called cold"
        )
    if mount.stacked:
        return (
            f"{where} shares its pages with the layers below: another container that reads the same"
            " layer warms them, and the drive's own cache cannot be seen or emptied"
        )
    return (
        f"{where}: caches of the drive, its controller and, in a virtual machine, the host cannot"
        " be seen or emptied; folders and inodes stay cached"
    )


def _mounts() -> list[Mount]:
    try:
        lines = os.fsdecode(_MOUNTINFO.read_bytes()).splitlines()
    except OSError:
        return []
    mounts = []
    for line in lines:
        head, separator, tail = line.partition(" - ")
        fields, rest = head.split(" "), tail.split(" ")
        if separator and len(fields) > 5 and len(rest) > 2:
            options = tuple(dict.fromkeys(fields[5].split(",") + rest[2].split(",")))
            point, source = _unescaped(fields[4]), _unescaped(rest[1])
            mounts.append(Mount(point, rest[0], source, options, fields[2]))
    return mounts


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
