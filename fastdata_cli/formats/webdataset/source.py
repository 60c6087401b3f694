"""Owns what a reader needs of tars that others made: schema, places and sample table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Finding
from fastdata_cli.errors import DamagedDatasetError, UsageError
from fastdata_cli.formats.sharded.find import ShardSet
from fastdata_cli.formats.sharded.own import Source, open_own_source
from fastdata_cli.formats.webdataset.foreign import SampleBuilder
from fastdata_cli.formats.webdataset.members import STALE_INDEX, collect
from fastdata_cli.formats.webdataset.shards import TARS
from fastdata_cli.formats.webdataset.side import ForeignTable
from fastdata_cli.formats.webdataset.walk import map_file
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.keys import to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import UNLABELLED, Payload, Schema
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable

_MOST_NAMED = 20


def open_source(shards: ShardSet, field: str | None) -> Source:
    """Open tars by their footers if all are ours, else by scanning their headers.

    Raises:
        DamagedDatasetError: not one whole sample, or an index that is broken.
        UnsupportedError: compressed tars, or shards that hold different things.
        UsageError: no sample has the field.
    """
    return open_own_source(shards, TARS) or ForeignSource(shards, field)


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
        if field is not None and rows.fields and builder.field not in rows.fields:
            raise UsageError(
                f"{shards.root}: --field {field}: no sample has it",
                hint=f"its fields: {', '.join(rows.fields[:_MOST_NAMED])}",
            )
        self.counts: Sequence[int] = rows.counts
        self.rejects = rows.rejects
        damage = next((each for each in rows.rejects if each.reason == DAMAGED_CONTAINER), None)
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
        if span.start == 0 and STALE_INDEX in self.notes:
            yield Finding(-1, "", "corrupt", "its index is not used: the file has another end")
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
        if self._rows.several:
            named = ", ".join(self._rows.several[:_MOST_NAMED])
            remarks.append(
                f"several images a sample ({named}): each is a sample of its own; "
                "choose one with --field"
            )
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
