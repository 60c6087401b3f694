"""A small disk that fills up: a tmpfs of its own where that may be mounted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


class SmallDisk:
    """A mounted file system of a few megabytes.

    Args:
        folder: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Take all the room there is, as another program would."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while room := _room(self.folder):
                size = os.fstat(descriptor).st_size
                with contextlib.suppress(OSError):
                    os.posix_fallocate(descriptor, size, room)
                if os.fstat(descriptor).st_size == size:
                    return
        finally:
            os.close(descriptor)

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """Mount a tmpfs of ``size`` bytes at a new folder below ``folder``."""
    place = Path(tempfile.mkdtemp(dir=folder, prefix="disk-"))
    _call("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(place))
    try:
        yield SmallDisk(place)
    finally:
        _call("umount", "--lazy", str(place))
        place.rmdir()


def can_mount(folder: Path) -> bool:
    """Return whether this user may mount a tmpfs."""
    if os.geteuid():
        return False
    try:
        with small_disk(folder, 1 << 16):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _room(folder: Path) -> int:
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
