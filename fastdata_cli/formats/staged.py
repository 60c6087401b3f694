"""The writer that formats share: parts are staged, journalled and revealed at once."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastdata_cli.contract import Part, PartLimits, Receipt, Target
from fastdata_cli.errors import DamagedDatasetError, StaleStagingError
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload
from fastdata_cli.storage.refusals import storage_errors
from fastdata_cli.storage.staging import Staging
from fastdata_cli.storage.table import SampleTable


class StagedWriter(ABC):
    """A Writer whose parts are staged and journalled; a format says how to store them.

    Args:
        target: destination and manifest.
        options: the format's write options.
    """

    limits = PartLimits(samples=4096, bytes=32 << 20)
    resumable = True
    """False: an interrupted staging cannot be reopened, and a new run starts again."""

    def __init__(self, target: Target, options: Options) -> None:
        self.target = target
        self.schema = target.manifest.schema
        self.options = options
        self.staging = Staging(
            target.path,
            overwrite=target.overwrite,
            grows=target.standing is not None,
            settled=target.settled,
        )
        self.receipts: dict[int, Receipt] = {}

    @abstractmethod
    def _create(self) -> None:
        """Make an empty container at ``staging.item``."""

    def _holds(self, receipts: Sequence[Receipt]) -> bool:
        """Tell whether the container has all of these finished parts; changes nothing.

        It lacks some where somebody began to delete the staging place: the run then starts afresh.
        """
        return True

    @abstractmethod
    def _resume(self, receipts: Sequence[Receipt]) -> None:
        """Reopen the container and drop what lies beyond these finished parts."""

    @abstractmethod
    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        """Write and sync the part; return JSON-able facts for ``_finish`` and ``_resume``."""

    @abstractmethod
    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        """Write the final shape, the table and the manifest; close all files."""

    @abstractmethod
    def _release(self) -> None:
        """Close whatever is open; called on every way out, possibly twice."""

    def begin(self, fingerprint: str) -> Sequence[Receipt]:
        """Take the staging place; return the receipts of an interrupted equal run.

        Whatever goes wrong, such a run stays to be continued.
        """
        receipts = self.staging.begin(fingerprint, resumable=self.resumable)
        try:
            with storage_errors(self.staging.item):
                if receipts and not self._holds(receipts):
                    receipts = []
                    self.staging.restart(fingerprint)
            receipts = receipts or self._first()
            with storage_errors(self.staging.item):
                if receipts:
                    self._resume(receipts)
                else:
                    self._create()
        except BaseException:
            self.abort(keep=any(receipt.part.source_stop for receipt in receipts))
            raise
        self.receipts = {receipt.part.index: receipt for receipt in receipts}
        return receipts

    def _first(self) -> list[Receipt]:
        """Return what a run that continues no other has from the beginning."""
        return []

    @property
    def started(self) -> float:
        """When the run, or the one that it continues, began: seconds since the epoch."""
        return self.staging.started

    def write_part(self, part: Part, batch: Batch) -> Receipt:
        """Store a part, then journal it."""
        with storage_errors(self.staging.item):
            facts = self._store(part, batch)
        receipt = self.staging.commit(part, SampleTable.from_batch(batch), facts)
        self.receipts[part.index] = receipt
        return receipt

    def publish(self, manifest: Manifest) -> None:
        """Finish the container and rename it into place."""
        receipts = self.in_order()
        table = self.staging.side.table(receipts)
        largest = None
        if manifest.schema.payload is Payload.ENCODED:
            largest = int(table.lengths.max(initial=0))
        with storage_errors(self.staging.item):
            self._finish(manifest.finished(len(table), largest, table.digest()), table)
        self._release()
        self._reveal()

    def abort(self, *, keep: bool) -> None:
        """Release everything; ``keep`` leaves the staging place to be continued.

        So does a run that had begun to publish: what it was to replace may be gone already.
        """
        self._release()
        with contextlib.suppress(OSError):
            keep = keep or self.staging.is_publishing
        self.staging.abort(keep=keep and self.resumable)

    def in_order(self) -> list[Receipt]:
        """Return all receipts by part."""
        return [self.receipts[index] for index in sorted(self.receipts)]

    def _reveal(self) -> None:
        self.staging.publish()


class AppendingWriter(StagedWriter):
    """A StagedWriter of a format with APPEND: what stands at the destination can be part 0."""

    @abstractmethod
    def _standing(self) -> tuple[Manifest, SampleTable]:
        """Read what stands at the destination, but for its images."""

    @abstractmethod
    def _adopt(self, table: SampleTable) -> Mapping[str, Any]:
        """Stage what stands there, synced, as if it had been written as one part.

        Returns:
            The facts of that part, as of ``_store``: ``_resume`` is called with them next.
        """

    def _first(self) -> list[Receipt]:
        if self.target.standing is None:
            return []
        manifest, table = self._standing()
        if manifest != self.target.standing:
            raise StaleStagingError(
                f"{self.target.path} was changed by another run just now",
                hint="run the command again",
                path=str(self.target.path),
            )
        with storage_errors(self.staging.item):
            facts = self._adopt(table)
        size = int(table.lengths.sum())
        part = Part(index=0, start=0, samples=len(table), source_stop=0, bytes=size)
        adopted = [self.staging.commit(part, table, facts)]
        if not self._holds(adopted):
            raise DamagedDatasetError(
                f"{self.target.path}: it lacks samples that its table names",
                hint=f"see what is left of it: fastdata inspect {self.target.path} --verify",
                path=str(self.target.path),
            )
        return adopted


def has_bytes(path: Path | bytes, size: int) -> bool:
    """Tell whether a file is there, with at least so many bytes.

    Raises:
        OSError: the system does not say.
    """
    try:
        return os.stat(path).st_size >= size
    except (FileNotFoundError, NotADirectoryError):
        return False
