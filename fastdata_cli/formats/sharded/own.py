"""Owns what a reader needs of shards: schema, places and sample table; here of those of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Finding
from fastdata_cli.errors import DamagedDatasetError, UnsupportedError
from fastdata_cli.formats.base import not_as_opened
from fastdata_cli.formats.sharded.find import ShardSet
from fastdata_cli.formats.sharded.index import OwnShard
from fastdata_cli.formats.sharded.kind import ShardKind
from fastdata_cli.formats.sharded.set import ShardEntry
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Payload, Reject, Schema
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable


class Source(Protocol):
    """Some shards as one dataset."""

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
        """Return what a person may want to know of these shards."""
        ...


class OwnSource:
    """Shards that fastdata wrote."""

    rejects: tuple[Reject, ...] = ()

    def __init__(self, shards: ShardSet, manifest: Manifest, kind: ShardKind) -> None:
        self.shards = shards
        self.manifest: Manifest | None = manifest
        self.schema = manifest.schema
        self._kind = kind
        self._footers: Sequence[str] = ()
        missing = 0
        if shards.index is not None:
            self.counts: Sequence[int] = [entry.samples for entry in shards.index.shards]
        else:
            opened = list(self._opened())
            self.counts = [shard.samples for shard in opened]
            self._footers = [shard.digest for shard in opened]
            missing = _missing(opened)
        self.notes: Mapping[str, int] = {"missing-shard": missing} if missing else {}

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places that the indexes of the shards hold."""
        begins, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for shard, count in zip(self._opened(grown=True), self.counts, strict=True):
            ours = slice(count if shard.samples > count else None)
            for column, found in zip((begins, lengths), shard.places(), strict=True):
                column.append(found[ours])
        return np.concatenate(begins), np.concatenate(lengths)

    def table(self, maps: FileMaps | None = None) -> SampleTable:
        """Return the joined tables of the shards; they need no maps."""
        return SampleTable.concatenate([shard.table() for shard in self._opened()])

    def findings(self, span: range, maps: FileMaps) -> Iterator[Finding]:
        """Check what stands beside the images of every shard whose first sample is in the span."""
        first = 0
        for shard, count in zip(self._opened(), self.counts, strict=True):
            if first in span or (count == 0 and first == 0):
                yield from self._kind.check(shard, first)
            first += count

    def describe(self) -> Mapping[str, Any]:
        """Return the flavour that we write."""
        remarks = list(self.shards.remarks)
        if self.notes and not remarks:
            remarks = [f"{self.notes['missing-shard']} shards of the set are missing"]
        layout = dict(self._kind.layout)
        return {**layout, "notes": remarks} if remarks else layout

    def _opened(self, *, grown: bool = False) -> Iterator[OwnShard]:
        """Open the shards anew.

        Args:
            grown: the larger file that an append has put in the place of one will do.
        """
        entries = self.shards.index.shards if self.shards.index is not None else ()
        for number, path in enumerate(self.shards.paths):
            shard = self._kind.open_own(path)
            if entries and (shard is None or not _is_named(shard, entries[number])):
                raise DamagedDatasetError(
                    f"{path}: not the shard that its index names",
                    hint="it was changed or exchanged after the set was written",
                    path=str(path),
                )
            if shard is None or not self._is_as_before(shard, number, grown=grown):
                raise not_as_opened(path)
            yield shard

    def _is_as_before(self, shard: OwnShard, number: int, *, grown: bool) -> bool:
        if not self._footers or shard.digest == self._footers[number]:
            return True
        return grown and self.manifest is not None and shard.manifest.continues(self.manifest)


def open_own_source(shards: ShardSet, kind: ShardKind) -> OwnSource | None:
    """Open shards by their footers if all of them are ours; None if not.

    Raises:
        DamagedDatasetError: an index is broken.
        UnsupportedError: the shards hold different things.
    """
    if shards.index is not None:
        return OwnSource(shards, shards.index.manifest, kind)
    own = [kind.open_own(path) for path in shards.paths]
    if own and all(own):
        return OwnSource(shards, _merged([shard for shard in own if shard is not None]), kind)
    return None


def _is_named(shard: OwnShard, entry: ShardEntry) -> bool:
    return (shard.digest, shard.samples) == (entry.footer, entry.samples)


def _missing(shards: Sequence[OwnShard]) -> int:
    """Return how many shards of the set that these were written in are not among them."""
    if len(shards) < 2:  # one shard, asked for by name
        return 0
    return max(0, max(shard.set_size for shard in shards) - len(shards))


def _merged(shards: Sequence[OwnShard]) -> Manifest:
    """Return one manifest for shards without an index of their set."""
    newest = max((shard.manifest for shard in shards), key=lambda m: len(m.generations))
    common, names = _common(newest.schema), newest.schema.class_names
    for shard in shards:
        schema = shard.manifest.schema
        # Those of an earlier generation know the classes that there were then.
        named_alike = schema.class_names == names[: len(schema.class_names)]
        if _common(schema) != common or not named_alike:
            raise UnsupportedError(
                f"{shard.path} and {shards[0].path} hold different kinds of samples",
                hint="open them one by one",
            )
    largest = None
    if common.payload is Payload.ENCODED:
        largest = max(shard.manifest.schema.max_image_bytes or 0 for shard in shards)
    return newest.finished(sum(shard.samples for shard in shards), largest)


def _common(schema: Schema) -> Schema:
    """Return what all shards of a set have in common, but for the names of their classes."""
    return replace(schema, num_samples=None, max_image_bytes=None, class_names=())
