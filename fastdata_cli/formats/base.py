"""What the readers of formats share: all but how images are fetched by their index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability, Finding
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, UnsupportedError
from fastdata_cli.extents import Extents
from fastdata_cli.formats.foreign import usable_labels
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload, Reject, Sample, Schema
from fastdata_cli.storage.disk_files import files_below
from fastdata_cli.storage.process_local import Inherited, ProcessLocal
from fastdata_cli.storage.table import SampleTable, checksum

H = TypeVar("H")
T = TypeVar("T")

TABLE_CHANGED = Finding(-1, "", "corrupt", "keys, labels or metadata are not what was written")

_ANOTHER_CHECKSUM = "its checksum does not match"

# A scan reads blocks of about this many bytes: long enough to be sequential, short enough to hold.
_SCAN_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Images:
    """What a reader fetched: pixels N×H×W×C, or a 1-D arena with int64[N + 1] offsets."""

    data: NDArray[Any]
    offsets: NDArray[np.int64] | None = None


class IndexedReader(ABC, Generic[H]):
    """A Reader over a handle ``H`` that can fetch any images by index.

    A format sets ``schema`` (and ``manifest``) in ``_start``, from metadata alone, and implements
    the methods below; all else follows. Handles are opened on first use, per process.
    """

    capabilities = Capability.RANDOM_ACCESS
    manifest: Manifest | None = None
    rejects: tuple[Reject, ...] = ()
    notes: Mapping[str, int] = MappingProxyType({})
    schema: Schema

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.options = options
        self._handle: ProcessLocal[H] = ProcessLocal(self._open, self._close)
        self._table = Inherited(self._make_table)
        self._start()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.options)

    @abstractmethod
    def _start(self) -> None:
        """Read the metadata: set ``schema``, ``manifest``, and ``capabilities`` if fewer."""

    @abstractmethod
    def _open(self) -> H:
        """Open the handle of this process."""

    @abstractmethod
    def _close(self, handle: H) -> None:
        """Release it."""

    @abstractmethod
    def _load_table(self) -> SampleTable:
        """Load keys, labels and checksums: plain arrays, which forked children inherit."""

    @abstractmethod
    def _fetch(self, handle: H, indices: NDArray[np.int64], out: NDArray[Any] | None) -> Images:
        """Return the images at checked ``indices``, in their order, in ``out`` when given.

        For encoded images ``out`` is a 1-D uint8 arena that may be larger than needed.
        """

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Return the layout for a person."""

    def __len__(self) -> int:
        return self.schema.num_samples or 0

    def read(self, index: int) -> Sample:
        """Return one sample."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)} in {self.path}")
        position = index % len(self)
        try:
            return self.read_many([position]).sample(0)
        except BadSampleError as problem:
            if problem.key:
                raise
            key = self._table.get().keys[position]
            raise BadSampleError(key=key, reason=problem.reason, detail=problem.detail) from problem

    def read_many(
        self, indices: Sequence[int] | NDArray[np.int64], out: NDArray[Any] | None = None
    ) -> Batch:
        """Return the samples at ``indices``, order and repeats kept."""
        chosen = self._checked(indices)
        if out is not None:
            self._check_out(out, len(chosen))
        images = self._fetch(self._handle.get(), chosen, out)
        table = self._table.get()
        return Batch(
            table.keys.take(chosen),
            np.asarray(table.labels[chosen], np.int64),
            images.data,
            images.offsets,
            table.metadata_texts(chosen),
        )

    def read_each(self, indices: Sequence[int] | NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return the images at ``indices`` one by one."""
        return [sample.image for sample in self.read_many(indices)]

    def locate(self, indices: Sequence[int] | NDArray[np.int64]) -> Extents:
        """Refuse: formats that can say where samples are are ``LocatedReader``s."""
        raise UnsupportedError(f"{self.path}: where its samples are stored is not known")

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one encoded image."""
        return self.read(index).image[:size]

    def scan(self, span: range | None = None) -> Iterator[Sample | Reject]:
        """Yield the samples of a span in order, against their checksums; bad ones as rejects."""
        span = range(len(self)) if span is None else span
        step = self._scan_step()
        for begin in range(span.start, span.stop, step):
            block = range(begin, min(begin + step, span.stop))
            self._expect(range(block.stop, min(block.stop + step, span.stop)))
            try:
                batch = self.read_many(list(block))
            except BadSampleError:
                yield from (self._read_or_reject(i, self.read, i) for i in block)
            else:
                pairs = enumerate(block)
                yield from (self._read_or_reject(i, batch.sample, at) for at, i in pairs)

    def spans(self, at_most: int) -> Sequence[range]:
        """Cut into nearly equal spans."""
        count = max(1, min(at_most, len(self)))
        cuts = [len(self) * cut // count for cut in range(count + 1)]
        return [range(begin, end) for begin, end in pairwise(cuts)]

    def keys(self) -> Sequence[str]:
        """Return all keys as a compact table."""
        return self._table.get().keys

    def labels(self) -> NDArray[np.int64]:
        """Return all labels."""
        return np.asarray(self._table.get().labels, np.int64)

    def table(self) -> SampleTable:
        """Return keys, labels, checksums, lengths and metadata of all samples."""
        return self._table.get()

    def files(self) -> Iterator[Path]:
        """Yield the path itself, or every file below it."""
        return files_below(self.path)

    def check_table(self) -> Finding | None:
        """Compare keys, labels and metadata with the digest in the manifest."""
        wanted = self.manifest.table if self.manifest is not None else ""
        if not wanted or self._table.get().digest() == wanted:
            return None
        return TABLE_CHANGED

    def compare(
        self, indices: Sequence[int] | NDArray[np.int64], images: Sequence[NDArray[Any]]
    ) -> Iterator[Finding]:
        """Yield which of the images that were read from ``indices`` are not what was written."""
        chosen = self._checked(indices)
        table = self._table.get()
        if self._has_checksums():
            found = np.fromiter(map(checksum, images), np.uint64, len(chosen))
            for index in chosen[found != table.checksums[chosen]].tolist():
                yield Finding(index, table.keys[index], "corrupt", _ANOTHER_CHECKSUM)
        elif self.schema.payload is Payload.ENCODED:
            for index, image in zip(chosen.tolist(), images, strict=True):
                yield from _structural_findings(index, table.keys[index], image)

    def verify(self, span: range | None = None) -> Iterator[Finding]:
        """Read the span and compare; encoded images without checksums are judged by structure."""
        if span is None:
            yield from self.verify_whole()
        where = range(len(self)) if span is None else span
        by_structure = self.schema.payload is Payload.ENCODED and not self._has_checksums()
        for index, found in zip(where, self.scan(where), strict=True):
            if isinstance(found, Reject):
                yield Finding(index, found.key, found.reason, found.detail)
            elif by_structure:
                yield from _structural_findings(index, found.key, found.image)

    def verify_whole(self) -> Iterator[Finding]:
        """Yield what is wrong with the table, and what opening could not use."""
        changed = self.check_table()
        if changed is not None:
            yield changed
        for reject in self.rejects:
            yield Finding(-1, reject.key, reject.reason, reject.detail)

    def close(self) -> None:
        """Release the handles of this process."""
        self._handle.close()
        self._table.close()

    def _make_table(self) -> SampleTable:
        table = self._load_table()
        if self.manifest is not None:
            return table
        labels, notes = usable_labels(table.labels)
        if notes:
            self.notes = {**self.notes, **notes}
            table = replace(table, labels=labels)
        return table

    def _expect(self, span: range) -> None:
        """Be told which samples a scan asks for next: to have them fetched from disk, say."""
        return

    def _read_or_reject(self, index: int, read: Callable[[T], Sample], of: T) -> Sample | Reject:
        """Return what ``read`` makes of ``of``, or what is wrong with it."""
        try:
            return self._judged(index, read(of))
        except BadSampleError as problem:
            return Reject(problem.key, problem.reason, problem.detail, index)

    def _judged(self, index: int, sample: Sample) -> Sample | Reject:
        """Return the sample if it has its checksum, or none is stored."""
        if not self._has_checksums():
            return sample
        if checksum(sample.image) == self._table.get().checksums[index]:
            return sample
        return Reject(sample.key, "corrupt", _ANOTHER_CHECKSUM, index)

    def _has_checksums(self) -> bool:
        return len(self._table.get().checksums) > 0

    def _checked(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        chosen = np.asarray(indices, np.int64).reshape(-1)
        # As unsigned numbers, negative ones are the largest: one pass serves both bounds.
        if len(chosen) and chosen.view(np.uint64).max() >= len(self):
            raise IndexError(f"indices reach outside the {len(self)} samples of {self.path}")
        return chosen

    def _check_out(self, out: NDArray[Any], count: int) -> None:
        if self.schema.payload is Payload.ENCODED:
            wanted: tuple[int, ...] = (out.size,)
        else:
            assert self.schema.image_shape is not None
            wanted = (count, *self.schema.image_shape)
        if out.shape != wanted or out.dtype != self.schema.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"out is {out.dtype}{list(out.shape)}; "
                f"this batch needs a C-contiguous {self.schema.dtype}{list(wanted)}"
            )

    def _scan_step(self) -> int:
        each = self.schema.pixel_bytes or (self.schema.max_image_bytes or _SCAN_BYTES // 64)
        return max(1, min(1024, _SCAN_BYTES // max(each, 1)))


def _structural_findings(index: int, key: str, image: NDArray[Any]) -> Iterator[Finding]:
    from fastdata_cli.imaging.check import check

    try:
        check(image.data)
    except BadSampleError as problem:
        yield Finding(index, key, problem.reason, problem.detail)


def not_as_opened(path: Path) -> DamagedDatasetError:
    """Return the error of a reader that finds another dataset than the one that it opened."""
    message = f"{path}: not what was opened: it was added to, replaced or damaged since"
    return DamagedDatasetError(message, hint="open it again", path=str(path))


def manifest_text(manifest: Manifest, layout: Mapping[str, Any]) -> str:
    """Return the manifest's JSON with the format's layout in it."""
    return replace(manifest, layout=dict(layout)).to_json()
