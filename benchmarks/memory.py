"""Owns the peak memory of a command that runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fastdata_cli.errors import StorageError
from fastdata_cli.timing.process_tree import ProcessTree

_LOOK_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Of one process and those below it."""

    rss_bytes: int
    """The kernel's own high-water mark: exact, and pages of mapped files count."""
    pss_bytes: int
    """The largest of looks 20 times a second; pages shared with others count in part."""
    seconds: float


def peak_of(command: Sequence[str]) -> Peak:
    """Run a command and return what it took.

    Raises:
        StorageError: it failed.
    """
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tree = ProcessTree(process.pid)
    largest = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        largest = max(largest, tree.memory().total)
        time.sleep(_LOOK_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise StorageError(f"the command ended with exit code {process.returncode}")
    return Peak(
        rss_bytes=usage.ru_maxrss << 10,
        pss_bytes=largest,
        seconds=time.perf_counter() - begin,
    )
