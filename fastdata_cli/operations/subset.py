"""A reader over some samples of another: positions are mapped, all else is handed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability, Finding, Reader
from fastdata_cli.extents import Extents
from fastdata_cli.key_table import KeyTable
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch, Reject, Sample


class Subset:
    """The samples at ``indices`` of ``reader``, in that order."""

    manifest: Manifest | None = None
    rejects: tuple[Reject, ...] = ()
    notes: Mapping[str, int] = {}

    def __init__(self, reader: Reader, indices: Sequence[int] | NDArray[np.int64]) -> None:
        self.reader = reader
        self.indices = np.asarray(indices, np.int64)
        self.path: Path = reader.path
        self.schema = reader.schema
        self.capabilities: Capability = reader.capabilities

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        return self.reader.read(int(self.indices[index]))

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        """Return some samples."""
        return self.reader.read_many(self.indices[np.asarray(indices, np.int64)], out)

    def read_each(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return some images."""
        return self.reader.read_each(self.indices[np.asarray(indices, np.int64)])

    def locate(self, indices: Sequence[int] | NDArray[np.int64]) -> Extents:
        """Return where some samples are stored."""
        return self.reader.locate(self.indices[np.asarray(indices, np.int64)])

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one encoded image."""
        return self.reader.head(int(self.indices[index]), size)

    def scan(self, span: range | None = None) -> Iterator[Sample | Reject]:
        """Yield the samples of a span; those that lie side by side as a scan of the whole does."""
        span = range(len(self)) if span is None else span
        chosen = self.indices[span.start : span.stop]
        cuts = np.flatnonzero(np.diff(chosen) != 1) + 1
        index = span.start
        for run in np.split(chosen, cuts) if len(chosen) else ():
            for found in self.reader.scan(range(int(run[0]), int(run[-1]) + 1)):
                yield replace(found, index=index) if isinstance(found, Reject) else found
                index += 1

    def spans(self, at_most: int) -> Sequence[range]:
        """Return one span."""
        return [range(len(self))][:at_most]

    def keys(self) -> Sequence[str]:
        """Return the keys."""
        keys = self.reader.keys()
        if isinstance(keys, KeyTable):
            return keys.take(self.indices)
        return [keys[index] for index in self.indices.tolist()]

    def labels(self) -> NDArray[np.int64]:
        """Return the labels."""
        return self.reader.labels()[self.indices]

    def describe(self) -> Mapping[str, Any]:
        """Return the layout of the whole."""
        return self.reader.describe()

    def files(self) -> Iterator[Path]:
        """Yield the files of the whole."""
        return self.reader.files()

    def check_table(self) -> Finding | None:
        """Check the table of the whole."""
        return self.reader.check_table()

    def compare(
        self, indices: Sequence[int] | NDArray[np.int64], images: Sequence[NDArray[Any]]
    ) -> Iterator[Finding]:
        """Compare images of some samples."""
        return self.reader.compare(self.indices[np.asarray(indices, np.int64)], images)

    def verify(self, span: range | None = None) -> Iterator[Finding]:
        """Verify the chosen samples."""
        for index in self.indices[span.start : span.stop] if span is not None else self.indices:
            yield from self.reader.verify(range(int(index), int(index) + 1))

    def verify_whole(self) -> Iterator[Finding]:
        """Verify what stands around the samples of the whole."""
        return self.reader.verify_whole()

    def close(self) -> None:
        """Release the handles of the whole."""
        self.reader.close()


class Renumbered(Subset):
    """Some samples of a reader, with the class numbers of another dataset.

    Args:
        numbers: int64[C + 1], the new number of each label; the last is that of -1. None keeps all.
        class_names: in the order of the new numbers.
    """

    def __init__(
        self,
        reader: Reader,
        indices: Sequence[int] | NDArray[np.int64],
        numbers: NDArray[np.int64] | None,
        class_names: Sequence[str],
    ) -> None:
        super().__init__(reader, indices)
        self._numbers = numbers
        self.schema = replace(reader.schema, class_names=tuple(class_names))

    def labels(self) -> NDArray[np.int64]:
        """Return the labels, in the new numbers."""
        labels = super().labels()
        return labels if self._numbers is None else self._numbers[labels]

    def read(self, index: int) -> Sample:
        """Return one sample."""
        return self._renumbered(super().read(index))

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        """Return some samples."""
        batch = super().read_many(indices, out)
        return (
            batch if self._numbers is None else replace(batch, labels=self._numbers[batch.labels])
        )

    def scan(self, span: range | None = None) -> Iterator[Sample | Reject]:
        """Yield the samples of a span."""
        for found in super().scan(span):
            yield found if isinstance(found, Reject) else self._renumbered(found)

    def _renumbered(self, sample: Sample) -> Sample:
        if self._numbers is None:
            return sample
        return replace(sample, label=int(self._numbers[sample.label]))
