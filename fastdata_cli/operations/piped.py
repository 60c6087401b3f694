"""A source that a command prints, ``pipe:COMMAND``: how scripts for WebDataset read their shards.

The command may do anything that the user may, so it is run only where ``--allow-pipe`` says so.
What it prints is spooled to a file, because shards are read at random; the file goes with the
process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

from fastdata_cli.errors import DamagedDatasetError, UsageError
from fastdata_cli.registry import PIPE

_LAST_WORDS = 4096


def spooled(spec: str, *, allowed: bool) -> Path:
    """Run the command of a ``pipe:`` source, and return a file with what it printed.

    Raises:
        UsageError: commands are not to be run.
        DamagedDatasetError: it failed; what it printed until then is thrown away.
    """
    if not allowed:
        raise UsageError(
            f"{spec}: this would run a command",
            hint="if you trust it: --allow-pipe",
        )
    descriptor, name = tempfile.mkstemp(prefix="fastdata-pipe-", suffix=".tar")
    atexit.register(_remove, name)
    with os.fdopen(descriptor, "wb") as out, tempfile.TemporaryFile() as talk:
        command = ["/bin/sh", "-c", spec.removeprefix(PIPE)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=talk, check=False
        )
        talk.seek(-min(talk.tell(), _LAST_WORDS), os.SEEK_END)
        words = talk.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
    if done.returncode != 0:
        why = f": {words}" if words else ""
        raise DamagedDatasetError(f"{spec}: the command ended with status {done.returncode}{why}")
    return Path(name)


def _remove(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
