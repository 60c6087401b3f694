"""The list of moves in a quarantine folder: written ahead of each, read back to undo them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fastdata_cli.errors import BusyError, DamagedDatasetError, SourceNotFoundError, UsageError
from fastdata_cli.json_text import parse
from fastdata_cli.keys import from_bytes, from_text, to_bytes, to_text
from fastdata_cli.storage import durable
from fastdata_cli.whole_file import write_whole

NAME = "fastdata-quarantine.jsonl"
VERSION = 1
_HEAD = "fastdata_quarantine"
_FIRST_LINE = json.dumps({_HEAD: VERSION}).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Move:
    """One file that was to be moved."""

    place: bytes
    """Where it lay, absolute."""
    target: bytes
    """Where it went, below the quarantine folder."""
    reasons: tuple[str, ...] = ()
    duplicate_of: str | None = None

    def line(self) -> bytes:
        """Return the line that stands for it."""
        record = {
            "from": to_text(from_bytes(self.place)),
            "to": to_text(from_bytes(self.target)),
            "reasons": list(self.reasons),
            "duplicate_of": None if self.duplicate_of is None else to_text(self.duplicate_of),
        }
        return json.dumps(record).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> Self:
        """Return the move of a line. Raises ValueError, KeyError, TypeError or AttributeError."""
        record = parse(line)
        return cls(
            to_bytes(from_text(record["from"])),
            to_bytes(from_text(record["to"])),
            tuple(record["reasons"]),
        )


class MoveList:
    """The list of one quarantine folder, held by this run alone.

    Args:
        folder: the quarantine folder, which is there.
        new: make the list when it is not there.

    Raises:
        SourceNotFoundError: there is no list, and ``new`` is false.
        UsageError: another file has its name.
        BusyError: another run holds it.
    """

    def __init__(self, folder: Path, *, new: bool) -> None:
        self.path = folder / NAME
        self._file = self._hold(new)
        head = os.pread(self._file, 1 << 16, 0)
        if head:
            self._require_ours(head.partition(b"\n")[0])
        else:
            self._append(_FIRST_LINE)
            durable.sync_directory(folder)
        size = os.fstat(self._file).st_size
        if new and os.pread(self._file, 1, size - 1) != b"\n":
            self._append(b"\n")  # ends the line that a kill cut short

    def append(self, move: Move) -> None:
        """Write a line and wait until it is on the device."""
        self._append(move.line())

    def moves(self) -> tuple[list[Move], int]:
        """Return all moves in order, and how many lines are no moves: a kill cuts one short."""
        moves, unread = [], 0
        with open(self.path, "rb") as file:
            for line in list(file)[1:]:
                try:
                    moves.append(Move.of_line(line))
                except (ValueError, KeyError, TypeError, AttributeError):
                    unread += bool(line.strip())
        return moves, unread

    def is_empty(self) -> bool:
        """Return whether nothing but the first line stands in it."""
        return os.fstat(self._file).st_size == len(_FIRST_LINE)

    def replace(self, moves: Sequence[Move]) -> None:
        """Let these moves stand alone; without any the list goes away."""
        if not moves:
            self.path.unlink()
            return
        lines = [move.line() for move in moves]
        write_whole(self.path, _FIRST_LINE + b"".join(lines), sync=True)

    def close(self) -> None:
        """Let others have it."""
        os.close(self._file)

    def _hold(self, new: bool) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if new else 0)
        while True:
            try:
                file = os.open(self.path, flags, 0o644)
            except FileNotFoundError:
                raise SourceNotFoundError(
                    f"{self.path.parent}: no quarantine folder of fastdata (it lacks {NAME})"
                ) from None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise BusyError(f"another run is using {self.path.parent}") from None
            if os.fstat(file).st_nlink:
                return file
            os.close(file)  # a restore removed it meanwhile

    def _require_ours(self, line: bytes) -> None:
        try:
            version = parse(line)[_HEAD]
        except (ValueError, KeyError, TypeError):
            self.close()
            raise UsageError(f"{self.path}: this is no list of fastdata; not touched") from None
        if version != VERSION:
            self.close()
            raise DamagedDatasetError(f"{self.path}: version {version} is not known here")

    def _append(self, line: bytes) -> None:
        durable.write_all(self._file, memoryview(line))
        durable.sync_file(self._file)
