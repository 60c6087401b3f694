"""Owns what a reader needs of files of records that others made: schema, places, sample table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Finding
from fastdata_cli.errors import BadSampleError, DamagedDatasetError, UnsupportedError
from fastdata_cli.extents import Column, Extents, Packing, Window
from fastdata_cli.formats.located import Locator
from fastdata_cli.formats.sharded.compressed import refuse_compressed
from fastdata_cli.formats.sharded.find import ShardSet
from fastdata_cli.formats.tfrecord import framing
from fastdata_cli.formats.tfrecord.example import Place
from fastdata_cli.formats.tfrecord.foreign import (
    ForeignRows,
    SampleBuilder,
    is_derived,
    metadata_of,
)
from fastdata_cli.formats.tfrecord.index import open_own
from fastdata_cli.imaging.policy import DAMAGED_CONTAINER
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Payload, Schema, metadata_text
from fastdata_cli.storage.mapping import FileMaps, MappedFile
from fastdata_cli.storage.table import SampleTable


class ForeignSource:
    """Files of records that others made, scanned when opened: lengths and names, not images."""

    manifest: Manifest | None = None

    def __init__(self, shards: ShardSet, field: str | None) -> None:
        self.shards = shards
        builder = SampleBuilder(field)
        for number, path in enumerate(shards.paths):
            file = MappedFile(str(path))
            refuse_compressed(path, file.data[:8].tobytes())
            data = file.data.data
            builder.add(shards.name(number), data, has_index=open_own(path) is not None)
        self.rows = rows = builder.finished()
        self.counts: Sequence[int] = rows.counts
        self.rejects = rows.rejects
        if not len(rows.labels):
            raise self._nothing_usable()
        self.schema = Schema(
            payload=Payload.ENCODED,
            num_samples=len(rows.labels),
            max_image_bytes=int(rows.images[:, 1].max()),
            class_names=rows.class_names,
        )
        missing = {"missing-shard": shards.missing} if shards.missing else {}
        self.notes: Mapping[str, int] = {**rows.notes, **missing}

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of the images that the scan found."""
        return self.rows.images[:, 0], self.rows.images[:, 1]

    def table(self, maps: FileMaps) -> SampleTable:
        """Return the table that the scan gave; it has no checksums of images."""
        rows = self.rows
        firsts = np.cumsum(rows.counts) - np.array(rows.counts, np.int64)
        return ForeignTable(
            rows.keys,
            rows.labels,
            np.empty(0, np.uint64),
            rows.images[:, 1],
            rows=rows,
            maps=maps,
            firsts=firsts,
        )

    def findings(self, span: range, maps: FileMaps) -> Iterator[Finding]:
        """Yield nothing: what a scan finds are rejects, and reading compares checksums."""
        yield from ()

    def describe(self) -> Mapping[str, Any]:
        """Return which feature holds the image, and what else there is."""
        others = sorted(self.rows.features - {self.rows.image})
        facts = {
            "records": "tf.train.Example",
            "index": "none: scanned",
            "image": self.rows.image,
            "features": others,
        }
        return {**facts, "notes": list(self.shards.remarks)} if self.shards.remarks else facts

    def _nothing_usable(self) -> DamagedDatasetError | UnsupportedError:
        """Return the error for files that hold not one sample."""
        root, rows = str(self.shards.root), self.rows
        damage = next((each for each in rows.rejects if each.reason == DAMAGED_CONTAINER), None)
        if damage is not None:
            return DamagedDatasetError(damage.detail, path=root)
        names = ", ".join(sorted(rows.features)) or "no features at all"
        first = self.shards.paths[0] if self.shards.paths else root
        return UnsupportedError(
            f"{first}: no record holds an image file, only {names}",
            hint="tf.train.Example with image/encoded is read; --field names another feature",
            path=root,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable(SampleTable):
    """A sample table whose metadata stay in the records."""

    rows: ForeignRows
    maps: FileMaps
    firsts: NDArray[np.int64]
    """int64[F], the first sample of each file."""

    def metadata_texts(self, indices: NDArray[np.int64]) -> list[str | None]:
        """Return the JSON texts of some rows, read from the records."""
        rows = self.rows
        if all(is_derived(name) or name == rows.image for name in rows.features):
            return []
        return [self._metadata_text(index) for index in indices.tolist()]

    def _metadata_text(self, index: int) -> str | None:
        file = int(np.searchsorted(self.firsts, index, "right")) - 1
        begin, size = self.rows.records[index].tolist()
        data = self.maps.get(file).data.data
        named = bool(self.rows.class_names)
        try:
            found = metadata_of(
                data, Place(begin, begin + size), self.rows.image, named_classes=named
            )
        except ValueError as problem:
            raise BadSampleError(reason="corrupt", detail=str(problem)) from problem
        return metadata_text(found)


class RecordCodec:
    """Undoes nothing, but compares the checksum of a record while it is copied."""

    keeps = False

    def decode(self, stored: Window, out: Window) -> None:
        """Fill ``out`` with the data of a record; ``stored`` is data and checksum.

        Raises:
            ValueError: the checksum does not match.
        """
        data = stored.array
        record = framing.Record(0, stored.size - framing.FOOTER_BYTES)
        if not framing.is_sound(data.data, record):
            raise ValueError("the checksum of a record does not match")
        out.array[:] = data[: record.size]


class CheckedImages(Locator):
    """A Locator of images inside records whose checksums are compared as they are read.

    Args:
        places: of the images; says in which file each of them is.
        rows: what the scan found.
    """

    def __init__(self, places: Locator, rows: ForeignRows) -> None:
        self.files = places.files
        self._places, self._records = places, rows.records

    def locate(self, indices: Column) -> Extents:
        """Return where the images are in what their records are decoded to."""
        images = self._places.locate(indices)
        begins, sizes = self._records[indices].T
        codec = np.zeros(len(indices), np.int8)
        inside = images.offset - begins
        packing = Packing((RecordCodec(),), codec, sizes, inside, images.length)
        return Extents(images.path_of, images.file, begins, sizes + framing.FOOTER_BYTES, packing)
