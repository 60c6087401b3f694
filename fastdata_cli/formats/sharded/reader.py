"""Owns reading samples out of mapped shards, in any order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Capability, Finding
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.located import LocatedReader, Locator, StoredRanges
from fastdata_cli.formats.sharded.own import Source
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable


class ShardedReader(LocatedReader):
    """Reads one file or a set of shards through memory maps."""

    capabilities = LocatedReader.capabilities | Capability.ZERO_COPY
    _source: Source

    @abstractmethod
    def _open_source(self) -> Source:
        """Open the shards at ``path``."""

    def _start(self) -> None:
        self._source = source = self._open_source()
        self.schema, self.manifest = source.schema, source.manifest
        self.rejects, self.notes = source.rejects, source.notes

    def _open_locator(self) -> Locator:
        return self._stored_ranges()

    def _stored_ranges(self) -> StoredRanges:
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

        Images of others are judged by their structure.
        """
        if span is None:
            yield from self.verify_whole()
            span = range(len(self))
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
