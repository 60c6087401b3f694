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
from fastdata_cli.sample import UNLABELLED, Batch, Reject, Sample


class Subset:
    """The samples at ``indices`` of ``reader``, in that order."""

    manifest: Manifest | None = None
    rejects: tuple[Reject, ...] = ()
    notes: Mapping[str, int] = {}

    def __init__(self, reader: Reader, indices: Sequence[int] | NDArray[np.int64]) -> None:
        self.reader = reader
        self.indices = np.asarray(indices, np.int64)
        self.path: Path = reader.path
        self.schema = replace(reader.schema, num_samples=len(self.indices))
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
        return self.reader.read_many(self._of_whole(indices), out)

    def read_each(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return some images."""
        return self.reader.read_each(self._of_whole(indices))

    def locate(self, indices: Sequence[int] | NDArray[np.int64]) -> Extents:
        """Return where some samples are stored."""
        return self.reader.locate(self._of_whole(indices))

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
        for position, image in zip(np.asarray(indices).tolist(), images, strict=True):
            for found in self.reader.compare(self._of_whole([position]), [image]):
                yield replace(found, index=position)

    def verify(self, span: range | None = None) -> Iterator[Finding]:
        """Verify the chosen samples."""
        if span is None:
            yield from self.verify_whole()
        for position in range(len(self)) if span is None else span:
            index = int(self.indices[position])
            for found in self.reader.verify(range(index, index + 1)):
                yield replace(found, index=-1 if found.index < 0 else position)

    def verify_whole(self) -> Iterator[Finding]:
        """Verify what stands around the samples of the whole."""
        return self.reader.verify_whole()

    def close(self) -> None:
        """Release the handles of the whole."""
        self.reader.close()

    def _of_whole(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        chosen = np.asarray(indices, np.int64)
        if (chosen < 0).any():  # NumPy would count from the end
            raise IndexError(f"indices reach outside the {len(self)} samples of {self.path}")
        return self.indices[chosen]


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
        self.schema = replace(self.schema, class_names=tuple(class_names))

    def labels(self) -> NDArray[np.int64]:
        """Return the labels, in the new numbers."""
        labels = super().labels()
        return self._renumber(labels)

    def read(self, index: int) -> Sample:
        """Return one sample."""
        return self._renumbered(super().read(index))

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        """Return some samples."""
        batch = super().read_many(indices, out)
        return replace(batch, labels=self._renumber(batch.labels))

    def scan(self, span: range | None = None) -> Iterator[Sample | Reject]:
        """Yield the samples of a span."""
        for found in super().scan(span):
            yield found if isinstance(found, Reject) else self._renumbered(found)

    def _renumbered(self, sample: Sample) -> Sample:
        return replace(sample, label=int(self._renumber(np.array(sample.label))))

    def _renumber(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        # From the end NumPy counts more than one, and -1 alone is none.
        return labels if self._numbers is None else self._numbers[np.maximum(labels, UNLABELLED)]
