"""Files that are there whole or not at all: written beside their place, then put there at once."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal


@contextlib.contextmanager
def whole_file(path: Path, *, sync: bool, fresh: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when the block ends without an exception.

    Until then, and after an exception, ``path`` is as it was. Runs that write the same file do not
    meet; the last one to end wins.

    Args:
        path: a link stays a link. What is no file, such as a pipe, is written to as it is.
        sync: the content, then the name, are on the device before this returns: it survives a
            power cut, not only a kill.
        fresh: where it is written, in the same folder; by default under a name that nothing has.
            A fixed one, where no two runs can write, is written anew after a kill, not left.

    Raises:
        OSError: the system refuses; it names ``path``.
    """
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))
    mode: Literal["xb", "wb"] = "xb" if fresh is None else "wb"
    fresh = fresh or name_beside(target)
    try:
        with open(fresh, mode) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(fresh, target)
    except OSError as problem:
        if problem.filename == str(fresh):
            problem.filename = str(path)
        raise
    finally:
        fresh.unlink(missing_ok=True)
    if sync:
        _sync_folder(target.parent)


def write_whole(path: Path, content: bytes, *, sync: bool) -> None:
    """Let ``content`` take the place of ``path``; see ``whole_file``."""
    with whole_file(path, sync=sync) as file:
        file.write(content)


def name_beside(target: Path) -> Path:
    """Return a hidden name in the same folder that nothing has yet, short enough anywhere."""
    return target.with_name(f".{secrets.token_hex(8)}.fastdata-new")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
