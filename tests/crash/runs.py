"""Runs ``fastdata convert`` in a process of its own, and ends it at a moment."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.storage.staging import staging_root

# How often the destination is looked at, to know when publishing begins.
_LOOK_SECONDS = 0.0002
_PATIENCE_SECONDS = 120.0

JOURNAL, PUBLISHING = "journal.jsonl", "publishing"
"""What stands in the staging place from its first part on, and from the first rename on."""


@dataclass(frozen=True, kw_only=True)
class Life:
    """How long an undisturbed run took."""

    seconds: float
    parts: float
    """Seconds from the beginning of its journal to that of its publishing."""
    publishing: float
    """Seconds from there until the staging place is gone."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a run is disturbed: so many seconds after its start, or after a file of its staging."""

    seconds: float
    mark: str = ""
    """``JOURNAL`` or ``PUBLISHING``; empty for the start."""

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s after {self.mark or 'the start'}"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended."""

    code: int
    """As ``subprocess`` has it: negative for a signal."""
    output: str
    phase: str
    """``start-up``, ``parts``, ``publishing`` or ``after``: where it was when it was disturbed."""
    landed: bool
    """It was disturbed while it ran."""


class Run:
    """One process that converts.

    Args:
        source: what is converted.
        destination: where to.
        flags: further words of the command.
    """

    def __init__(self, source: Path, destination: Path, flags: tuple[str, ...]) -> None:
        self.destination = destination
        self._before = self._visible()
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "fastdata_cli",
                "convert",
                str(source),
                str(destination),
                *flags,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "1000"},
        )

    def finish(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and what was said."""
        _, said = self._process.communicate(timeout=_PATIENCE_SECONDS)
        return self._process.returncode, said

    def ended_at(self, moment: Moment, disturb: Callable[[], None]) -> Ended:
        """Wait for the moment, call ``disturb``, and wait for the end."""
        landed = self._wait_for(moment)
        phase = self.phase()
        if landed:
            disturb()
        code, said = self.finish()
        return Ended(code=code, output=said, phase=phase, landed=landed)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def limit_files(self, most_bytes: int) -> None:
        """Let no file grow beyond this size from now on: writing fails with EFBIG."""
        limits = (most_bytes, most_bytes)
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, limits)

    def phase(self) -> str:
        """Return where the run is, by what it has left on disk."""
        place = staging_root(self.destination)
        if (place / PUBLISHING).exists():
            return "publishing"
        if (place / JOURNAL).exists():
            return "parts"
        return "start-up" if self._visible() == self._before else "after"

    def _wait_for(self, moment: Moment) -> bool:
        """Return whether the process still runs at the moment."""
        if moment.mark:
            self.wait_for(moment.mark)
            time.sleep(moment.seconds)
        else:
            time.sleep(max(0.0, self.started + moment.seconds - time.monotonic()))
        return self._process.poll() is None

    def _visible(self) -> set[tuple[str, int]]:
        """Return what lies in the folder to be seen, each with its inode."""
        entries = os.scandir(self.destination.parent)
        return {(each.name, each.inode()) for each in entries if not each.name.startswith(".")}

    def wait_for(self, mark: str, *, gone: bool = False) -> float:
        """Wait until the staging place has this file (or not any more); return the time.

        The end of the run ends the waiting too.
        """
        file = staging_root(self.destination) / mark
        while file.exists() is gone and self._process.poll() is None:
            time.sleep(_LOOK_SECONDS)
        return time.monotonic()


def undisturbed(source: Path, destination: Path, flags: tuple[str, ...]) -> Life:
    """Convert to the end and return how long it took.

    Raises:
        RuntimeError: it failed.
    """
    run = Run(source, destination, flags)
    begun, published = run.wait_for(JOURNAL), run.wait_for(PUBLISHING)
    cleared = run.wait_for(PUBLISHING, gone=True)
    code, said = run.finish()
    if code:
        raise RuntimeError(f"an undisturbed run ended with {code}: {said}")
    ended = time.monotonic()
    return Life(
        seconds=ended - run.started, parts=published - begun, publishing=cleared - published
    )
