"""Owns writing LMDB environments: one transaction a part, in a map that grows when it is full."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastdata_cli.contract import Part, PartLimits, Receipt
from fastdata_cli.errors import DamagedDatasetError, UsageError
from fastdata_cli.formats.base import manifest_text
from fastdata_cli.formats.lmdb.file import DataFile
from fastdata_cli.formats.lmdb.records import (
    MANIFEST,
    column_layout,
    column_records,
    read_columns,
    sample_key,
)
from fastdata_cli.formats.staged import AppendingWriter
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch
from fastdata_cli.storage import durable
from fastdata_cli.storage.table import SampleTable

# A transaction is held in memory until it is committed.
_COMMIT_BYTES = 32 << 20
_FIRST_MAP_SIZE = 64 << 20
_DATA_NAME = "data.mdb"


class LmdbWriter(AppendingWriter):
    """Appends parts, in order; each is committed and synced before its receipt.

    What is added to a file goes into a copy of it, which takes its place in one rename: the folder,
    and who has the old file open, keep what they have.
    """

    limits = PartLimits(samples=4096, bytes=_COMMIT_BYTES)
    _environment: Any = None
    _map_size = _FIRST_MAP_SIZE

    def _create(self) -> None:
        self.staging.item.mkdir()
        self._open()

    def _standing(self) -> tuple[Manifest, SampleTable]:
        path = self._final
        if not path.is_file():
            raise UsageError(f"{self.target.path}: give the folder in which data.mdb lies")
        file = DataFile(path)
        manifest = Manifest.from_json(file.get(MANIFEST) or b"", where=str(path))
        columns = read_columns(file, manifest.layout.get("columns", {}))
        return manifest, SampleTable.from_columns(columns, where=str(path))

    def _adopt(self, table: SampleTable) -> Mapping[str, Any]:
        self.staging.item.mkdir()
        durable.copy(self._final, self._data)
        durable.sync_path(self._data)
        return {}

    def _holds(self, receipts: Sequence[Receipt]) -> bool:
        last = receipts[-1].part
        try:
            entries = DataFile(self._data).meta.tree.entries
        except DamagedDatasetError as problem:
            refused = problem.__cause__
            if isinstance(refused, OSError) and not isinstance(refused, FileNotFoundError):
                raise refused from None  # it may be readable another time
            return False
        return entries >= last.start + last.samples

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        self._open()
        last = receipts[-1].part
        self._commit(lambda transaction: _drop(transaction, sample_key(last.start + last.samples)))

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        images = (batch.image(index) for index in range(len(batch)))
        self._append([(sample_key(at), image) for at, image in enumerate(images, part.start)])
        return {}

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        columns = table.columns()
        layout = column_layout(columns)
        pieces = sum(facts["pieces"] for facts in layout.values())
        facts = {"key": "%010d", "columns": layout, "entries": len(table) + pieces + 1}
        for records in _batches(column_records(columns)):
            self._append(records)
        text = manifest_text(manifest, facts).encode()
        # There are two meta pages, for the last two commits: after this each has all there is.
        for _ in range(2):
            self._commit(lambda transaction: transaction.put(MANIFEST, text))
        used = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
        self._release()
        # What a commit that failed for want of room has left behind the last page.
        os.truncate(self._data, used)

    def _release(self) -> None:
        if self._environment is not None:
            self._environment.close()
            self._environment = None

    def _reveal(self) -> None:
        added_to = self.target.standing is not None
        self.staging.publish([(self._data, self._final)] if added_to else None)

    @property
    def _final(self) -> Path:
        return self.target.path / _DATA_NAME

    @property
    def _data(self) -> Path:
        return self.staging.item / _DATA_NAME

    def _open(self) -> None:
        import lmdb

        # Files of format 1.0 are for lmdb 3 alone, and earlier versions know no other than 0.9.
        later = int(lmdb.__version__.partition(".")[0]) >= 3
        version: dict[str, Any] = {"lib_version": 0} if later else {}
        with self._system_errors():
            # No other process knows this place, so there is nothing to lock.
            self._environment = lmdb.open(
                os.fsencode(self.staging.item), map_size=self._map_size, lock=False, **version
            )
        self._map_size = self._environment.info()["map_size"]

    def _append(self, records: Sequence[tuple[bytes, Any]]) -> None:
        """Put records, in order of their keys, in place of all from the first of them on."""

        def change(transaction: Any) -> None:
            _drop(transaction, records[0][0])
            for key, value in records:
                if not transaction.put(key, value, append=True):
                    raise DamagedDatasetError(f"{self._data}: record {key!r} cannot be the last")

        self._commit(change)

    def _commit(self, change: Callable[[Any], object]) -> None:
        """Make a change in one transaction, synced on return, with a larger map if need be."""
        import lmdb

        while True:
            try:
                with self._system_errors(), self._environment.begin(write=True) as transaction:
                    change(transaction)
            except lmdb.MapFullError:
                self._map_size *= 2
                self._environment.set_mapsize(self._map_size)
            else:
                return

    @contextlib.contextmanager
    def _system_errors(self) -> Iterator[None]:
        """Raise what the operating system refused as OSError."""
        import lmdb

        try:
            yield
        except lmdb.MapFullError:
            raise
        except lmdb.Error as problem:
            code = getattr(problem, "code", 0)
            if code in (0, errno.EIO):
                _write_beyond(self._data)
            reason = os.strerror(code) if code > 0 else str(problem)
            raise OSError(max(code, 0) or errno.EIO, reason, str(self._data)) from problem


def _drop(transaction: Any, first: bytes) -> None:
    """Delete all records from this key on."""
    cursor = transaction.cursor()
    if cursor.set_range(first):
        while cursor.delete():
            pass


def _batches(records: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield records in lists that are small enough for a transaction."""
    batch: list[tuple[bytes, bytes]] = []
    size = 0
    for record in records:
        if batch and size + len(record[1]) > _COMMIT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record[1])
    yield batch


def _write_beyond(path: Path) -> None:
    """Write behind the end of a file, for the error that it meets.

    LMDB reports a write that was cut short, by a full disk or a limit, as an input/output error.
    """
    size = path.stat().st_size
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(descriptor, bytes(1 << 16), size)
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)
