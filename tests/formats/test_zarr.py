"""The Zarr format: what it owes, with each interesting layout."""

from __future__ import annotations

from fastdata_cli.formats.zarr import FORMAT, ZarrWriteOptions
from fastdata_cli.testing import FormatConformance


class TestShards(FormatConformance):
    format = FORMAT
    write_options = ZarrWriteOptions(shard_samples=None, chunk=None)
    part_samples = 8
    write_options = ZarrWriteOptions(chunk=4)


class TestChunks(FormatConformance):
    format = FORMAT
    part_samples = 8
    write_options = ZarrWriteOptions(chunk=4)
