"""Owns reading samples out of mapped tars, in any order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Capability, Finding
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.located import LocatedReader, StoredRanges
from fastdata_cli.formats.webdataset.library import TarLibrary
from fastdata_cli.formats.webdataset.shards import find_shards
from fastdata_cli.formats.webdataset.source import open_source
from fastdata_cli.options import Options, option
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable


@dataclass(frozen=True, kw_only=True)
class WebDatasetReadOptions(Options):
    """How tars are read."""

    field: str | None = option(None, "image field of foreign tars with several, such as left.jpg")


class WebDatasetReader(LocatedReader):
    """Reads one tar or a set of shards through memory maps."""

    capabilities = LocatedReader.capabilities | Capability.ZERO_COPY

    def __init__(self, path: Path, options: WebDatasetReadOptions) -> None:
        self._field = options.field
        super().__init__(path, options)

    def _start(self) -> None:
        self._source = source = open_source(find_shards(self.path), self._field)
        self.schema, self.manifest = source.schema, source.manifest
        self.rejects, self.notes = source.rejects, source.notes

    def _open_locator(self) -> StoredRanges:
        begins, lengths = self._source.places()
        if len(begins) != len(self):
            raise DamagedDatasetError(
                f"{self.path}: the shards hold {len(begins)} samples, and {len(self)} are expected"
            )
        counts = np.asarray(self._source.counts, np.int64)
        firsts = np.cumsum(counts) - counts
        ends = begins + lengths
        reaches = [
            int(ends[first : first + count].max(initial=0))
            for first, count in zip(firsts.tolist(), counts.tolist(), strict=True)
        ]
        return StoredRanges(self._maps(reaches), begins, lengths, firsts)

    def _open_library(self) -> TarLibrary:
        return TarLibrary(self._open_locator(), self.schema)

    def _load_table(self) -> SampleTable:
        return self._source.table(self._maps())

    def _maps(self, reaches: Sequence[int] | None = None) -> FileMaps:
        paths = self._source.shards.paths
        return FileMaps(lambda shard: str(paths[shard]), reaches)

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
        yield from self._source.findings(span, self._maps())

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
