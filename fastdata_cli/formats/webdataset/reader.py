"""Owns reading samples out of mapped tars, in any order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability, Finding
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.base import Images, IndexedReader
from fastdata_cli.formats.webdataset.shards import find_shards
from fastdata_cli.formats.webdataset.source import ShardMaps, open_source
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Batch, Payload, Sample
from fastdata_cli.storage.gather import take_ranges_of
from fastdata_cli.storage.table import SampleTable


@dataclass(frozen=True, kw_only=True)
class WebDatasetReadOptions(Options):
    """How tars are read."""

    field: str | None = option(None, "image field of foreign tars with several, such as left.jpg")


@dataclass(frozen=True, slots=True)
class _Places:
    """Where every image lies."""

    maps: ShardMaps
    starts: NDArray[np.int64]
    """int64[S], the position of each shard's first sample."""
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def shards(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the shard in which each sample lies."""
        return np.searchsorted(self.starts, indices, "right") - 1


class WebDatasetReader(IndexedReader[_Places]):
    """Reads one tar or a set of shards through memory maps."""

    capabilities = Capability.RANDOM_ACCESS | Capability.ZERO_COPY

    def __init__(self, path: Path, options: WebDatasetReadOptions) -> None:
        self._field = options.field
        super().__init__(path, options)

    def _start(self) -> None:
        self._source = source = open_source(find_shards(self.path), self._field)
        self.schema, self.manifest = source.schema, source.manifest
        self.rejects, self.notes = source.rejects, source.notes

    def _open(self) -> _Places:
        begins, lengths = self._source.places()
        if len(begins) != len(self):
            raise DamagedDatasetError(
                f"{self.path}: the shards hold {len(begins)} samples, and {len(self)} are expected"
            )
        counts = np.asarray(self._source.counts, np.int64)
        starts = np.cumsum(counts) - counts
        ends = begins + lengths
        reaches = [
            int(ends[start : start + count].max(initial=0))
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
        ]
        return _Places(ShardMaps(self._source.shards.paths, reaches), starts, begins, lengths)

    def _close(self, handle: _Places) -> None:
        handle.maps.get.cache_clear()

    def _load_table(self) -> SampleTable:
        return self._source.table(self._handle.get().maps)

    def _fetch(
        self, handle: _Places, indices: NDArray[np.int64], out: NDArray[Any] | None
    ) -> Images:
        arena, offsets = take_ranges_of(
            handle.maps.get,
            handle.shards(indices),
            handle.begins[indices],
            handle.lengths[indices],
            None if out is None else out.reshape(-1).view(np.uint8),
        )
        if self.schema.payload is Payload.ENCODED:
            return Images(arena, offsets)
        return Images(self._pixels(arena, len(indices)) if out is None else out)

    def read(self, index: int) -> Sample:
        """Return one sample; its image is a read-only view of the mapped file."""
        if not -len(self) <= index < len(self):
            return super().read(index)
        handle, table, at = self._handle.get(), self._table.get(), np.array([index % len(self)])
        begin, length = int(handle.begins[at[0]]), int(handle.lengths[at[0]])
        image = handle.maps.get(int(handle.shards(at)[0]))[begin : begin + length]
        encoded = self.schema.payload is Payload.ENCODED
        batch = Batch(
            table.keys.take(at),
            np.asarray(table.labels[at], np.int64),
            image if encoded else self._pixels(image, 1),
            np.array([0, length]) if encoded else None,
            table.metadata_texts(at),
        )
        return batch.sample(0)

    def files(self) -> Iterator[Path]:
        """Yield the shards, and the index of their set."""
        shards = self._source.shards
        yield from shards.paths
        if shards.index_path is not None:
            yield shards.index_path

    def check_table(self) -> Finding | None:
        """Return None: each column of an index is checked when it is read."""
        return None

    def verify(self, span: range | None = None) -> Iterator[Finding]:
        """Compare images with their checksums, and what stands beside them with the index.

        Foreign tars have no checksums: what their scan found is yielded.
        """
        if span is None:
            yield from self.verify_whole()
            span = range(len(self))
        if self.manifest is not None:
            yield from super().verify(span)
        yield from self._source.findings(span, self._handle.get().maps)

    def describe(self) -> Mapping[str, Any]:
        """Return the shards, their sizes and what is odd about them."""
        shards, counts = self._source.shards, self._source.counts
        sizes = [path.stat().st_size for path in shards.paths]
        return {
            "shards": len(shards.paths),
            "samples_per_shard": [min(counts, default=0), max(counts, default=0)],
            "bytes_per_shard": [min(sizes, default=0), max(sizes, default=0)],
            **self._source.describe(),
        }

    def _pixels(self, data: NDArray[np.uint8], count: int) -> NDArray[Any]:
        assert self.schema.image_shape is not None
        return data.view(self.schema.dtype).reshape(count, *self.schema.image_shape)
