"""A folder for a trial, which goes with the block, however the process is told to end."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

# What ends a process without a word to Python: kill, a closed terminal, a batch system's limit.
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL = 128


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield an empty folder in ``TMPDIR``; nothing of it stays but after SIGKILL."""
    with (
        _endings_raise(),
        tempfile.TemporaryDirectory(prefix="fastdata-dry-run-") as folder,
    ):
        yield Path(folder)


@contextlib.contextmanager
def _endings_raise() -> Iterator[None]:
    """Have the signals that end a process raise SystemExit; those that somebody handles stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [each for each in _ENDINGS if signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, _end)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_BY_SIGNAL + number)
