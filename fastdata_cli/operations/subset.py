"""A reader over some samples of another: positions are mapped, all else is handed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability, Finding, Reader
from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Extents
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch, Reject, Sample


class Subset:
    """The samples at ``indices`` of ``reader``, in that order."""

    manifest: Manifest | None = None
    rejects: tuple[Reject, ...] = ()
    notes: Mapping[str, int] = {}

    def __init__(self, reader: Reader, indices: Sequence[int]) -> None:
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
        """Yield the samples of a span, one by one: they do not lie side by side."""
        for index in range(len(self)) if span is None else span:
            try:
                yield self.read(index)
            except BadSampleError as problem:
                yield Reject(problem.key, problem.reason, problem.detail, index)

    def spans(self, at_most: int) -> Sequence[range]:
        """Return one span."""
        return [range(len(self))][:at_most]

    def keys(self) -> Sequence[str]:
        """Return the keys."""
        keys = self.reader.keys()
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
