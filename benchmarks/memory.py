"""Owns the peak memory of a command that runs in a process of its own."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.errors import StorageError
from fastdata_cli.timing.process_tree import ProcessTree

_LOOK_S = 0.02
_HIGH_WATER = re.compile(rb"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Of one process, in looks 50 times a second."""

    rss_bytes: int
    """The kernel's own high-water mark at the last look; pages of mapped files count."""
    pss_bytes: int
    """The largest sum seen, with those below it; pages shared with others count in part."""


def peak_of(command: Sequence[str]) -> Peak:
    """Run a command and return what it took.

    Raises:
        StorageError: it failed.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tree = ProcessTree(process.pid)
    rss = pss = 0
    while process.poll() is None:
        rss = max(rss, _high_water(process.pid))
        pss = max(pss, tree.memory().total)
        time.sleep(_LOOK_S)
    if process.returncode:
        raise StorageError(f"the command ended with exit code {process.returncode}")
    return Peak(rss_bytes=rss, pss_bytes=pss)


def _high_water(pid: int) -> int:
    # Not what wait4 tells: that begins with the memory of the process which started the command.
    with contextlib.suppress(OSError):
        found = _HIGH_WATER.search(Path(f"/proc/{pid}/status").read_bytes())
        return int(found[1]) << 10 if found else 0
    return 0
