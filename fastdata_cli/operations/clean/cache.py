"""Scores of earlier runs, by path and state of the file, in one SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import xxhash

from fastdata_cli._version import __version__
from fastdata_cli.errors import UsageError
from fastdata_cli.json_text import parse
from fastdata_cli.operations.clean.candidate import FileState, Finding
from fastdata_cli.operations.events import Listener
from fastdata_cli.quality.fingerprints import Fingerprint
from fastdata_cli.quality.judge import Examined, Judge
from fastdata_cli.sample import Reject
from fastdata_cli.storage import durable
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.whole_file import name_beside

_APPLICATION = 0x66646331  # "fdc1": tells our files from all other SQLite files
_MAGIC = b"SQLite format 3\0"
_SCHEMA = """
    CREATE TABLE scores (
        path BLOB, setting TEXT, state TEXT, finding TEXT, PRIMARY KEY (path, setting)
    ) WITHOUT ROWID
"""
_BATCH = 512
_SECONDS = 5.0
# A file that changed this short a time ago may change again within one tick of its clock.
_SETTLED_NS = 2 * 10**9
# The state of the system when it was asked, not of the file.
_FLEETING = ("missing", "unreadable")


class ScoreCache:
    """Remembers what was measured. Losing it costs time and nothing else.

    Rows are written in short transactions, so that a kill loses the last few at most and runs may
    share a file. What goes wrong with it while a run lasts is said once, and the run goes on
    without.

    Args:
        path: the file; made when it is not there.
        judge: what is measured decides which rows are enough.
        listener: hears of a damaged file.

    Raises:
        UsageError: the file is something else; it is not touched.
        StorageError: it cannot be made.
    """

    def __init__(self, path: Path, judge: Judge, listener: Listener) -> None:
        self._path = path
        self._listener = listener
        self._judge = judge
        settled = json.dumps([__version__, asdict(judge.policy)], sort_keys=True)
        self._setting = xxhash.xxh3_64_hexdigest(settled.encode())
        self._lock = threading.Lock()
        self._pending: dict[bytes, tuple[FileState, Finding]] = {}
        self._working = True
        self._flushed = time.monotonic()
        _require_ours(path)
        with storage_errors(path):
            if not path.exists() or not path.stat().st_size:
                _create(path)
        self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)

    def find(self, path: bytes) -> tuple[FileState | None, Finding | None]:
        """Return the state of a file now, and what is known of it in that state, if enough."""
        state = _state(path)
        if state is None or not self._working:
            return state, None
        found = self._row(path, state)
        return state, self._judge.narrowed(found) if isinstance(found, Examined) else found

    def store(self, path: bytes, state: FileState, finding: Finding) -> None:
        """Remember a finding about a file in the state that it had before it was read."""
        fleeting = isinstance(finding, Reject) and finding.reason in _FLEETING
        changing = time.time_ns() - state.mtime_ns < _SETTLED_NS
        if fleeting or changing or not self._working:
            return
        self._pending[path] = state, finding
        if len(self._pending) >= _BATCH or time.monotonic() - self._flushed > _SECONDS:
            self._flush(final=False)

    def close(self) -> None:
        """Write what is left."""
        self._flush(final=True)
        self._base.close()

    def _row(self, path: bytes, state: FileState) -> Finding | None:
        try:
            with self._lock:
                row = self._base.execute(
                    "SELECT finding FROM scores WHERE path = ? AND setting = ? AND state = ?",
                    (os.path.abspath(path), self._setting, _text(state)),
                ).fetchone()
            return None if row is None else _read(parse(row[0]))
        except sqlite3.OperationalError:  # another process writes: measuring is the other way
            return None
        except (sqlite3.Error, ValueError, LookupError, TypeError) as problem:
            self._give_up(problem)
            return None

    def _flush(self, *, final: bool) -> None:
        if not self._pending or not self._working:
            return
        self._flushed = time.monotonic()
        rows = [
            (os.path.abspath(path), self._setting, _text(state), self._merged(path, state, finding))
            for path, (state, finding) in self._pending.items()
        ]
        try:
            with self._lock:
                self._base.execute("BEGIN IMMEDIATE")
                self._base.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?)", rows)
                self._base.execute("COMMIT")
        except sqlite3.Error as problem:
            with self._lock:
                if self._base.in_transaction:
                    self._base.rollback()
            locked = "locked" in str(problem)
            if final or not locked or len(self._pending) > 64 * _BATCH:
                self._give_up(problem)
            return
        self._pending.clear()

    def _merged(self, path: bytes, state: FileState, finding: Finding) -> str:
        """Return a finding as text, with what other checks measured on the same file."""
        if isinstance(finding, Reject):
            return json.dumps({"reject": [finding.reason, finding.detail]})
        earlier = self._row(path, state)
        if not isinstance(earlier, Examined):
            earlier = Examined()
        prints = {each.kind: each for each in (*earlier.prints, *finding.prints)}
        return json.dumps(
            {
                "scores": {**earlier.scores, **finding.scores},
                "notes": list(dict.fromkeys((*earlier.notes, *finding.notes))),
                "prints": [asdict(each) for each in prints.values()],
            }
        )

    def _give_up(self, problem: Exception) -> None:
        if self._working:
            self._working = False
            self._listener.notice(
                f"{self._path}: the cache is not used any more ({problem}); "
                "if it is damaged, delete it"
            )


def _state(path: bytes) -> FileState | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return FileState(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def _text(state: FileState) -> str:
    # Not asdict, which costs more than the query.
    return f"{state.device} {state.inode} {state.size} {state.mtime_ns} {state.ctime_ns}"


def _read(record: Mapping[str, Any]) -> Finding:
    if "reject" in record:
        reason, detail = record["reject"]
        return Reject("", str(reason), str(detail))
    prints = tuple(Fingerprint(**each) for each in record["prints"])
    return Examined(dict(record["scores"]), tuple(record["notes"]), prints)


def _require_ours(path: Path) -> None:
    """Raise unless there is nothing yet, or a cache; SQLite itself would change what it opens."""
    if path.exists() and not path.is_file():
        raise UsageError(f"--cache {path}: this is no file", hint="choose another name")
    try:
        with open(path, "rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise UsageError(f"--cache {path}: cannot be read ({problem.strerror})") from problem
    ours = head[:16] == _MAGIC and head[68:72] == _APPLICATION.to_bytes(4, "big")
    if head and not ours:
        raise UsageError(
            f"--cache {path}: this is no cache of fastdata; it was not touched",
            hint="choose another file, or delete this one if it is not needed",
        )


def _create(path: Path) -> None:
    """Make an empty cache beside its place and put it there whole: a kill leaves no half of one."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise UsageError(
            f"{path} is no file of its own: it is not made a cache",
            hint="give the place of a file, not a link or a device",
        )
    fresh = name_beside(path)
    try:
        base = sqlite3.connect(fresh)
        try:
            base.execute(f"PRAGMA application_id = {_APPLICATION}")
            base.execute(_SCHEMA)
            base.commit()
        finally:
            base.close()
        if path.exists():  # empty, or of a run that was faster
            if not path.stat().st_size:
                fresh.replace(path)
        else:
            durable.rename_new(fresh, path)
    except sqlite3.Error as problem:
        raise OSError(None, str(problem), str(path)) from problem
    finally:
        fresh.unlink(missing_ok=True)
