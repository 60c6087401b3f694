"""Owns reading samples out of mapped tars, in any order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.formats.axes import layout_option
from fastdata_cli.formats.sharded.find import find_shards
from fastdata_cli.formats.sharded.own import Source
from fastdata_cli.formats.sharded.reader import ShardedReader
from fastdata_cli.formats.webdataset.library import TarLibrary
from fastdata_cli.formats.webdataset.shards import TARS
from fastdata_cli.formats.webdataset.source import open_source
from fastdata_cli.options import Options, option


@dataclass(frozen=True, kw_only=True)
class WebDatasetReadOptions(Options):
    """How tars are read."""

    field: str | None = option(
        None, "what holds the image, in datasets of others with several, such as left.jpg"
    )
    layout: str | None = layout_option()


class WebDatasetReader(ShardedReader):
    """Reads one tar or a set of shards through memory maps."""

    def __init__(self, path: Path, options: WebDatasetReadOptions) -> None:
        self._field = options.field
        super().__init__(path, options)

    def _open_source(self) -> Source:
        return open_source(find_shards(self.path, TARS), self._field)

    def _open_library(self) -> TarLibrary:
        return TarLibrary(self._stored_ranges(), self.schema)
