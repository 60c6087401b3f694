"""Staging: a dataset grows beside its destination, is journalled part by part, appears at once.

    .NAME.fastdata-partial/
        lock            held (flock) by the live run; a dead one holds nothing
        journal.jsonl   first line: what is being made; then one receipt a line
        side/000000.npz the sample table of each part
        data/…          what will be renamed to the destination

A part counts once its receipt is in the journal and its sample table has the digest that the
receipt tells; its data is synced before both. Only the contiguous prefix of receipts is continued
from, so a kill at any moment costs at most the unfinished parts. A journal never outlives data that
we remove: it goes first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

from fastdata_cli.contract import Part, Receipt
from fastdata_cli.errors import BusyError, DestinationExistsError, StaleStagingError
from fastdata_cli.storage import durable, journal
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.storage.side_tables import SideTables
from fastdata_cli.storage.table import SampleTable

_PUBLISHING = "publishing"
_EXCHANGING = "exchanging"
_LOCK = "lock"


def staging_root(destination: Path) -> Path:
    """Return the one place that an interrupted run leaves behind."""
    return destination.parent / f".{destination.name}.fastdata-partial"


def is_exchanging(destination: Path) -> bool:
    """Tell whether what stands there, in several pieces, may be partly old and partly new.

    A run is replacing it, or was killed while it did.
    """
    return (staging_root(destination) / _EXCHANGING).exists()


class Staging:
    """The staging place of one destination.

    Args:
        destination: where the dataset will appear.
        overwrite: replace what stands there (the caller has checked that it may be).
        grows: add to what stands there: only the last of what is published replaces anything.
        settled: what the run depends on, by name; kept in the journal for those who ask.
    """

    def __init__(
        self,
        destination: Path,
        *,
        overwrite: bool = False,
        grows: bool = False,
        settled: Mapping[str, Any] | None = None,
    ) -> None:
        self.destination = destination
        self.overwrite = overwrite
        self.grows = grows
        self.settled = settled or {}
        self.root = staging_root(destination)
        self.data = self.root / "data"
        self.item = self.data / destination.name
        """What ``publish`` renames to the destination, unless told otherwise."""
        self.started = time.time()
        """When the run began, or the one that it continues: seconds since the epoch."""
        self.side = SideTables(self.root)
        """What is known of the parts that are finished."""
        self._replaced: tuple[int, int] | None = None
        self._lock: int | None = None
        self._journal: int | None = None

    def begin(self, fingerprint: str, *, resumable: bool = True) -> list[Receipt]:
        """Take the place and return the contiguous receipts of an equal, interrupted run.

        Args:
            fingerprint: what the run depends on; only an equal one may be continued.
            resumable: False starts afresh even if a journal is there.

        Whatever goes wrong, what can be continued stays.
        """
        if self.root.is_symlink():  # what it leads to would be emptied
            raise DestinationExistsError(
                f"{self.root}: a link stands where this run keeps its parts",
                hint="remove it",
                path=str(self.root),
            )
        with storage_errors(self.root):
            while self._lock is None:
                self._take_lock()
        keep = True
        try:
            with storage_errors(self.root):
                self._replaced = self._identity()
                receipts = self._read_journal(fingerprint)
                keep = bool(receipts) and resumable and not self._is_bare()
                if keep:
                    self._write_journal(fingerprint, receipts)
                    return receipts
                self.restart(fingerprint)
        except BaseException:
            self.abort(keep=keep)
            raise
        return []

    def restart(self, fingerprint: str) -> None:
        """Drop all that is in the place, which is held, and begin it anew."""
        with storage_errors(self.root):
            self.started = time.time()
            self._empty()
            self.data.mkdir()
            self.side.create()
            self._write_journal(fingerprint, [])

    def commit(self, part: Part, table: SampleTable, facts: Mapping[str, Any]) -> Receipt:
        """Record a part whose data is synced already: its sample table, then its receipt.

        Neither is synced: a power cut that loses one of them only has the part written again.

        Args:
            facts: of the writer. Arrays among them are kept beside the sample table, for
                ``side.column``; the receipt has the others.
        """
        with storage_errors(self.root):
            receipt = self.side.keep(part, table, facts)
            assert self._journal is not None, "begin() comes first"
            durable.write_all(self._journal, memoryview(journal.line(asdict(receipt)).encode()))
        return receipt

    def publish(self, items: Sequence[tuple[Path, Path]] | None = None) -> None:
        """Sync and rename each (staged, final) pair in the order given; then clear the place.

        The last pair is the one that makes the dataset readable. Default: ``item`` to the
        destination.

        Raises:
            DestinationExistsError: something appeared there meanwhile.
        """
        pairs = items if items is not None else [(self.item, self.destination)]
        with storage_errors(self.destination):
            durable.sync_tree(self.data)
            if self.overwrite and self._identity() != self._replaced:
                raise self._appeared(self.destination)
            (self.root / _PUBLISHING).touch()
            if self.overwrite and len(pairs) > 1:
                (self.root / _EXCHANGING).touch()
            for staged, final in pairs:
                last = staged == pairs[-1][0]
                if self.overwrite or (self.grows and last):
                    if last and durable.exchanges(staged, final):
                        self._forget_journal()
                    durable.exchange(staged, final)
                elif not durable.rename_new(staged, final):
                    raise self._appeared(final)
                durable.sync_directory(final.parent)
            (self.root / _EXCHANGING).unlink(missing_ok=True)
        self.abort(keep=False)

    def abort(self, *, keep: bool) -> None:
        """Release the place; unless ``keep``, remove it. What another run holds stays."""
        self._close_journal()
        if not keep and self._lock is not None:
            with contextlib.suppress(OSError):
                self._empty()
                # The lock goes last: whoever comes meanwhile finds it held, or finds nothing.
                (self.root / _LOCK).unlink()
                self.root.rmdir()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def has_published(self, fingerprint: str) -> bool:
        """Tell whether an equal run published all and was killed before it cleared this place.

        Whether its dataset is still there, it does not tell.
        """
        found = journal.read(self.root)
        return found is not None and journal.is_of(found[0], fingerprint) and self._is_bare()

    @property
    def is_publishing(self) -> bool:
        """Whether a run has begun to rename what is here to its final places."""
        return (self.root / _PUBLISHING).exists()

    @property
    def is_remnant(self) -> bool:
        """Whether nothing can be continued here: the place of a run that died while it left."""
        return self.root.is_dir() and (journal.read(self.root) is None or self._is_bare())

    def clear(self) -> None:
        """Remove the place of a run that is dead, whatever it was for.

        Raises:
            BusyError: it lives.
        """
        with storage_errors(self.root):
            while self._lock is None:
                self._take_lock()
        self.abort(keep=False)

    def _identity(self) -> tuple[int, int] | None:
        """Return what tells the thing at the destination from another; None where there is none."""
        try:
            found = self.destination.lstat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _appeared(self, final: Path) -> DestinationExistsError:
        return DestinationExistsError(
            f"{final} appeared while this run was working",
            hint=f"move it away and repeat the command: {self.root} is complete",
            path=str(final),
        )

    def _is_bare(self) -> bool:
        """Return whether a run was killed between publishing its data and clearing the place."""
        return self.is_publishing and not any(files for _, _, files in durable.walk(self.data))

    def _forget_journal(self) -> None:
        """Make the place worthless, durably: its data goes, or is the old dataset from here on."""
        (self.root / journal.JOURNAL).unlink(missing_ok=True)
        durable.sync_directory(self.root)

    def _take_lock(self) -> None:
        self.root.mkdir(exist_ok=True)
        lock = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise BusyError(
                f"another run is writing {self.destination}",
                hint="wait for it, or choose another destination",
            ) from None
        if os.fstat(lock).st_nlink:
            self._lock = lock
        else:  # the run that held it removed the place meanwhile: it guards nothing
            os.close(lock)

    def _read_journal(self, fingerprint: str) -> list[Receipt]:
        found = journal.read(self.root)
        if found is None:
            return []
        head, lines = found
        if not journal.is_of(head, fingerprint):
            self.abort(keep=True)
            raise StaleStagingError(
                f"{self.root} holds an unfinished run of another command or source",
                hint="run that command again to finish it, or delete this folder to start over",
                path=str(self.root),
            )
        self.started = float(head.get("started", 0))
        return list(takewhile(self.side.has, journal.contiguous(lines)))

    def _empty(self) -> None:
        """Remove all but the lock; last what says that nothing was lost with the rest.

        Where something is lost, the journal goes first: who is killed in between must not leave
        receipts of parts that are not there. What says that pieces are mixed stays: only a run that
        publishes mends that.
        """
        if not self._is_bare():
            self._forget_journal()
        last = (journal.JOURNAL, _PUBLISHING)
        kept = (*last, _LOCK, _EXCHANGING)
        entries = [entry for entry in self.root.iterdir() if entry.name not in kept]
        for entry in (*entries, *(self.root / name for name in last)):
            durable.remove(entry)

    def _write_journal(self, fingerprint: str, receipts: Sequence[Receipt]) -> None:
        """Begin the journal anew: a cut line, or a part that is redone, must not stay in it."""
        self._close_journal()
        fresh = self.root / "journal.new"
        head = {"fingerprint": fingerprint, "started": self.started, "settled": self.settled}
        fresh.write_text(journal.whole(head, receipts))
        durable.sync_path(fresh)
        fresh.replace(self.root / journal.JOURNAL)
        durable.sync_directory(self.root)
        self._journal = os.open(self.root / journal.JOURNAL, os.O_WRONLY | os.O_APPEND)

    def _close_journal(self) -> None:
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None
