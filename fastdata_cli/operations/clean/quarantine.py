"""Moves rejected files into a quarantine folder, and puts them back.

QUARANTINE/
    fastdata-quarantine.jsonl    the list of moves
    photos/cat/1.jpg             a moved file, under its path from the working directory
    data/set/dog/2.jpg           or under its absolute one, where it lay elsewhere

The line of a move stands, synced, before its file moves: whatever kills a run, every moved file is
on the list.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from fastdata_cli.errors import UsageError
from fastdata_cli.keys import from_bytes, to_bytes, to_text
from fastdata_cli.operations.clean.move_list import Move, MoveList
from fastdata_cli.operations.clean.moves import clear_partial, move, same_content
from fastdata_cli.operations.destination import why_unwritable
from fastdata_cli.quality.verdict import Verdict
from fastdata_cli.storage.refusals import storage_errors

UNJUDGED = frozenset(
    {"missing", "unreadable", "unsupported-format", "unsupported-depth", "too-large"}
)
"""Reasons that only say that an image could not be judged: it may be a good one, and stays."""

_MOST_TROUBLES = 10

# Bytes, of every file system that Linux has.
_LONGEST_NAME = 255


class Quarantine:
    """A quarantine folder that files are moved into.

    Args:
        folder: made when it is not there.

    Attributes:
        failed: how many files could not be moved.
        left: how many rejects stayed on purpose.
        troubles: what kept files from being moved, one line each, the first few.

    Raises:
        UsageError: it is no folder, or its list of moves is something else.
        BusyError: another run uses it.
        StorageError: it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed = 0
        self.left = 0
        self.troubles: list[str] = []
        above = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if not above.is_dir():
            raise UsageError(f"--quarantine {folder}: {above} is no folder")
        if not os.access(above, os.W_OK | os.X_OK):
            raise UsageError(f"--quarantine {folder}: {why_unwritable(above)}")
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._list = MoveList(folder, new=True)
        self._root = os.path.realpath(os.fsencode(folder))
        self._here = os.getcwdb()

    def close(self) -> None:
        """Release the folder; one that nothing was ever moved into goes."""
        if self._list.is_empty():
            with contextlib.suppress(OSError):
                self._list.replace([])
                self.folder.rmdir()
        self._list.close()

    def take(self, path: bytes, verdict: Verdict) -> str | None:
        """Move a rejected file; return its new path, or None where it stayed."""
        try:
            place = _entry(path)
            if self._stays(path, place, verdict):
                self.left += 1
                return None
            return from_bytes(self._move(path, place, verdict))
        except OSError as problem:
            self.failed += 1
            if len(self.troubles) < _MOST_TROUBLES:
                why = problem.strerror or str(problem)
                self.troubles.append(f"{to_text(from_bytes(path))}: {why}")
            return None

    def _move(self, path: bytes, place: bytes, verdict: Verdict) -> bytes:
        below = self._below(path)
        for again in count():
            target = below if not again else _numbered(below, again)
            full = os.path.join(self._root, target)
            if os.path.lexists(full):
                continue
            reasons = tuple(reason.name for reason in verdict.reasons)
            self._list.append(Move(place, target, reasons, verdict.duplicate_of))
            if move(place, full):
                break
        return os.path.join(os.fsencode(self.folder), target)

    def _stays(self, path: bytes, place: bytes, verdict: Verdict) -> bool:
        """Tell whether a reject is not to be moved."""
        if not UNJUDGED.isdisjoint(reason.name for reason in verdict.reasons):
            return True
        if not os.path.lexists(place):  # moved already: a linked folder leads to it twice
            return True
        mode = os.lstat(place).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            return True
        if place.startswith(self._root + b"/"):
            return True
        # The one that is kept may be a link to this file, or this file under another name.
        return place in _places_of_first(path, verdict)

    def _below(self, path: bytes) -> bytes:
        """Return where a file goes, below the folder."""
        full = os.path.abspath(path)
        if full.startswith(self._here.rstrip(b"/") + b"/"):
            return os.path.relpath(full, self._here)
        return full.lstrip(b"/")


@dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """What became of the files of a quarantine folder."""

    restored: int
    refused: tuple[str, ...]
    """Files that stay in quarantine, with the reason, one line each."""
    gone: int
    """Files that somebody took out of the folder."""
    unread: int
    """Lines of the list that cannot be read."""


def restore(folder: Path, emit: Callable[[bytes], None]) -> RestoreReport:
    """Put back what a quarantine folder holds, never over anything; the last moved goes first.

    What was put back leaves the list, and empty folders go. A restore that was interrupted is
    finished by the next.

    Args:
        folder: the quarantine folder.
        emit: gets the place of each restored file.

    Raises:
        SourceNotFoundError, UsageError, BusyError: there is no list, or none to be had.
    """
    moves = MoveList(folder, new=False)
    root = os.path.realpath(os.fsencode(folder))
    staying: list[Move] = []
    refused: list[str] = []
    restored = gone = 0
    try:
        listed, unread = moves.moves()
        for each in reversed(listed):
            try:
                came_back = _put_back(each, root)
            except OSError as problem:
                why = problem.strerror or str(problem)
                refused.append(f"{to_text(from_bytes(each.place))}: {why}")
                staying.insert(0, each)
                continue
            if came_back:
                restored += 1
                emit(each.place)
            elif not os.path.lexists(each.place):
                gone += 1
        if not unread:
            with storage_errors(folder):
                moves.replace(staying)
        _remove_empty(root)
    finally:
        moves.close()
    return RestoreReport(restored=restored, refused=tuple(refused), gone=gone, unread=unread)


def _put_back(each: Move, root: bytes) -> bool:
    """Return whether a file came back; False where it is not in quarantine."""
    full = os.path.join(root, each.target)
    if os.path.relpath(os.path.normpath(full), root).split(os.sep.encode())[0] == b"..":
        raise OSError(None, "its line leads out of the quarantine folder")
    clear_partial(full)
    if not os.path.lexists(full):
        return False
    if move(full, each.place):
        return True
    if not same_content(full, each.place):
        raise FileExistsError(None, "another file is there now; it is not overwritten")
    os.unlink(full)  # a kill came between its copy and its removal
    return True


def _remove_empty(root: bytes) -> None:
    for folder, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _places_of_first(path: bytes, verdict: Verdict) -> set[bytes]:
    """Return where the first image of a duplicate's group may lie, every link followed.

    Keys are paths as they were given: in a list they may be relative to where the list lies, and
    end in the carriage return of its lines. Those of an index are relative to what another run
    looked at, wherever that lies.
    """
    if verdict.duplicate_of is None or (
        verdict.against and not os.path.isabs(verdict.duplicate_of)
    ):
        return set()
    first, own = to_bytes(verdict.duplicate_of), to_bytes(verdict.key).removesuffix(b"\r")
    start = path.removesuffix(b"\r").removesuffix(own) if own else b""
    names = (first, first.removesuffix(b"\r"))
    return {os.path.realpath(os.path.join(start, name)) for name in names}


def _entry(path: bytes) -> bytes:
    """Return the absolute path of the directory entry: links on the way followed, not the last."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder or b"."), name)


def _numbered(path: bytes, again: int) -> bytes:
    """Return the path with a number in its name, cut where names may not be longer."""
    folder, name = os.path.split(path)
    stem, suffix = os.path.splitext(name)
    ending = b"~%d" % again + suffix
    cut = max(_LONGEST_NAME - len(ending), 0)
    while 0 < cut < len(stem) and stem[cut] & 0xC0 == 0x80:  # within a letter of UTF-8
        cut -= 1
    return os.path.join(folder, stem[:cut] + ending)
