"""Owns reading samples out of mapped files of records, in any order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.contract import Capability
from fastdata_cli.formats.located import Locator
from fastdata_cli.formats.sharded.find import find_shards
from fastdata_cli.formats.sharded.own import Source, open_own_source
from fastdata_cli.formats.sharded.reader import ShardedReader
from fastdata_cli.formats.tfrecord.library import ExampleLibrary
from fastdata_cli.formats.tfrecord.sample import IMAGE
from fastdata_cli.formats.tfrecord.shards import TFRECORDS
from fastdata_cli.formats.tfrecord.source import CheckedImages, ForeignSource
from fastdata_cli.options import Options, option


@dataclass(frozen=True, kw_only=True)
class TfRecordReadOptions(Options):
    """How files of records that others made are read."""

    field: str | None = option(None, "feature that holds the image; image/encoded or found")


class TfRecordReader(ShardedReader):
    """Reads one file of records or a set of them through memory maps."""

    def __init__(self, path: Path, options: TfRecordReadOptions) -> None:
        self._field = options.field
        super().__init__(path, options)

    def _open_source(self) -> Source:
        shards = find_shards(self.path, TFRECORDS)
        own = open_own_source(shards, TFRECORDS)
        if own is not None:
            return own
        self.capabilities = self.capabilities & ~Capability.ZERO_COPY  # every byte is checked
        return ForeignSource(shards, self._field)

    def _open_locator(self) -> Locator:
        places = self._stored_ranges()
        if isinstance(self._source, ForeignSource):
            return CheckedImages(places, self._source.rows)
        return places

    def _open_library(self) -> ExampleLibrary:
        found = self._source.rows.image if isinstance(self._source, ForeignSource) else IMAGE
        return ExampleLibrary(self._stored_ranges(), found or IMAGE)
