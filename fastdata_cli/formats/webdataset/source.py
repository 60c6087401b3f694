"""Owns what a reader needs of some tars, whoever wrote them: schema, places and sample table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Finding
from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.webdataset.check import check_members
from fastdata_cli.formats.webdataset.foreign import DAMAGED, SampleBuilder
from fastdata_cli.formats.webdataset.index import OwnShard, open_own
from fastdata_cli.formats.webdataset.members import collect
from fastdata_cli.formats.webdataset.shards import COMPRESSED, ShardSet
from fastdata_cli.formats.webdataset.side import ForeignTable
from fastdata_cli.formats.webdataset.walk import Bytes
from fastdata_cli.keys import to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import UNLABELLED, Payload, Reject, Schema
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable


class Source(Protocol):
    """Some tars as one dataset."""

    shards: ShardSet
    counts: Sequence[int]
    """Samples of each shard."""
    schema: Schema
    manifest: Manifest | None
    rejects: tuple[Reject, ...]
    notes: Mapping[str, int]

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where each image begins in its shard, and its bytes: int64[N] each."""
        ...

    def table(self, maps: FileMaps) -> SampleTable:
        """Return the sample table."""
        ...

    def findings(self, span: range, maps: FileMaps) -> Iterator[Finding]:
        """Yield what is wrong beside the images, for samples of the span."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Return what a person may want to know of these tars."""
        ...


def open_source(shards: ShardSet, field: str | None) -> Source:
    """Open tars by their footers if all are ours, else by scanning their headers.

    Raises:
        DamagedDatasetError: not one whole sample, or an index that is broken.
        UnsupportedError: compressed tars, or shards that hold different things.
    """
    if shards.index is not None:
        return OwnSource(shards, shards.index.manifest)
    own = [open_own(path) for path in shards.paths]
    if own and all(own):
        return OwnSource(shards, _merged([shard for shard in own if shard is not None]))
    return ForeignSource(shards, field)


class OwnSource:
    """Tars that fastdata wrote."""

    rejects: tuple[Reject, ...] = ()

    def __init__(self, shards: ShardSet, manifest: Manifest) -> None:
        self.shards = shards
        self.manifest: Manifest | None = manifest
        self.schema = manifest.schema
        missing = 0
        if shards.index is not None:
            self.counts: Sequence[int] = [entry.samples for entry in shards.index.shards]
        else:
            self.counts = [shard.samples for shard in self._opened()]
            missing = _missing(list(self._opened()))
        self.notes: Mapping[str, int] = {"missing-shard": missing} if missing else {}

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places that the indexes of the shards hold."""
        pairs = [shard.places() for shard in self._opened()]
        empty = np.empty(0, np.int64)
        begins = np.concatenate([empty, *(begins for begins, _ in pairs)])
        return begins, np.concatenate([empty, *(lengths for _, lengths in pairs)])

    def table(self, maps: FileMaps) -> SampleTable:
        """Return the joined tables of the shards."""
        return SampleTable.concatenate([shard.table() for shard in self._opened()])

    def findings(self, span: range, maps: FileMaps) -> Iterator[Finding]:
        """Check the members of every shard whose first sample is in the span."""
        first = 0
        for shard, count in zip(self._opened(), self.counts, strict=True):
            if first in span or (count == 0 and first == 0):
                yield from check_members(shard, map_file(shard.path), first)
            first += count

    def describe(self) -> Mapping[str, Any]:
        """Return the flavour that we write."""
        remarks = list(self.shards.remarks)
        if self.notes and not remarks:
            remarks = [f"{self.notes['missing-shard']} shards of the set are missing"]
        layout = {"tar": "ustar, pax where a name needs it", "index": "in the tars"}
        return {**layout, "notes": remarks} if remarks else layout

    def _opened(self) -> Iterator[OwnShard]:
        entries = self.shards.index.shards if self.shards.index is not None else ()
        for number, path in enumerate(self.shards.paths):
            shard = open_own(path)
            if shard is None or (entries and shard.digest != entries[number].footer):
                raise DamagedDatasetError(
                    f"{path}: not the shard that its index names",
                    hint="it was changed or exchanged after the set was written",
                    path=str(path),
                )
            yield shard


class ForeignSource:
    """Tars that others made, scanned when opened."""

    manifest: Manifest | None = None

    def __init__(self, shards: ShardSet, field: str | None) -> None:
        self.shards = shards
        builder = SampleBuilder(field)
        for number, path in enumerate(shards.paths):
            data = map_file(path)
            builder.add(shards.name(number), data, collect(data))
        self._rows = rows = builder.finished()
        self.counts: Sequence[int] = rows.counts
        self.rejects = rows.rejects
        damage = next((each for each in rows.rejects if each.reason == DAMAGED), None)
        if damage is not None and not len(rows.labels):
            raise DamagedDatasetError(damage.detail, path=str(shards.root))
        self._unlabelled = rows.labels == UNLABELLED
        self.schema = self._schema()
        self.notes: Mapping[str, int] = self._notes()

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places that the scan found."""
        return self._rows.begins, self._rows.lengths

    def table(self, maps: FileMaps) -> SampleTable:
        """Return the table that the scan gave; it has no checksums."""
        rows = self._rows
        return ForeignTable(
            rows.keys,
            rows.labels,
            np.empty(0, np.uint64),
            rows.lengths,
            side=rows.side,
            content=maps.read,
        )

    def findings(self, span: range, maps: FileMaps) -> Iterator[Finding]:
        """Yield what is odd beside the images of the span."""
        keys = self._rows.keys
        odd = set(self._rows.odd_labels.tolist())
        some_labels = not bool(self._unlabelled.all())
        for index in span:
            if index in odd:
                yield Finding(index, keys[index], "unreadable", "its .cls is no whole number")
            elif some_labels and self._unlabelled[index]:
                yield Finding(index, keys[index], "missing", "no label (.cls)")
            for name in self._rows.side.read(index, maps.read)[1]:
                yield Finding(index, keys[index], "unreadable", f"its .{name} is no JSON")

    def describe(self) -> Mapping[str, Any]:
        """Return the flavours met, and what is odd about the labels."""
        remarks = []
        for indices, what in (
            (self._rows.odd_labels, "with a .cls that is no whole number"),
            (np.flatnonzero(self._unlabelled), "without a label (.cls)"),
        ):
            if 0 < len(indices) < len(self._unlabelled):
                first = to_text(self._rows.keys[int(indices[0])])
                remarks.append(f"{len(indices)} {what}, the first is {first}")
        remarks = [*self.shards.remarks, *remarks]
        layout = {"tar": ", ".join(self._rows.flavours) or "empty", "index": "none: scanned"}
        return {**layout, "notes": remarks} if remarks else layout

    def _schema(self) -> Schema:
        rows = self._rows
        if rows.layout is None:
            return Schema(
                payload=Payload.ENCODED,
                num_samples=len(rows.labels),
                max_image_bytes=int(rows.lengths.max(initial=0)),
            )
        return Schema(
            payload=Payload.PIXELS,
            num_samples=len(rows.labels),
            image_shape=rows.layout.shape,
            dtype=rows.layout.dtype,
        )

    def _notes(self) -> Mapping[str, int]:
        notes = Counter(self._rows.ignored)
        odd, unlabelled = len(self._rows.odd_labels), int(self._unlabelled.sum())
        notes["label-not-a-number"] = odd
        if unlabelled < len(self._unlabelled):
            notes["unlabelled"] = unlabelled - odd
        notes["missing-shard"] = self.shards.missing
        return {name: count for name, count in sorted(notes.items()) if count}


def map_file(path: Path) -> Bytes:
    """Map a tar for reading; an empty file gives no bytes.

    Raises:
        UnsupportedError: it is compressed.
    """
    with open(path, "rb") as file:
        head = file.read(8)
        for magic, name in COMPRESSED.items():
            if head.startswith(magic):
                program = {"gzip": "gunzip", "zstd": "unzstd"}.get(name, f"un{name}")
                raise UnsupportedError(
                    f"{path}: {name}-compressed, not supported",
                    hint=f"unpack it first: {program} {path.name}",
                    path=str(path),
                )
        return mmap(file.fileno(), 0, access=ACCESS_READ) if head else b""


def _missing(shards: Sequence[OwnShard]) -> int:
    """Return how many shards of the set that these were written in are not among them."""
    if len(shards) < 2:  # one shard, asked for by name
        return 0
    return max(0, max(shard.set_size for shard in shards) - len(shards))


def _merged(shards: Sequence[OwnShard]) -> Manifest:
    """Return one manifest for shards without an index of their set."""
    first = shards[0].manifest
    common = replace(first.schema, num_samples=None, max_image_bytes=None)
    for shard in shards:
        schema = shard.manifest.schema
        if replace(schema, num_samples=None, max_image_bytes=None) != common:
            raise UnsupportedError(
                f"{shard.path} and {shards[0].path} hold different kinds of samples",
                hint="open them one by one",
            )
    largest = None
    if common.payload is Payload.ENCODED:
        largest = max(shard.manifest.schema.max_image_bytes or 0 for shard in shards)
    return first.finished(sum(shard.samples for shard in shards), largest)
