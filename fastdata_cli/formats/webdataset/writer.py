"""Owns how a sample of ours becomes members of a tar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Part, Receipt, Target
from fastdata_cli.formats.sharded.cutter import ShardEnd, total_bytes
from fastdata_cli.formats.sharded.index import ShardIndex
from fastdata_cli.formats.sharded.writer import ShardedWriter, ShardWriteOptions
from fastdata_cli.formats.webdataset.index import append_index
from fastdata_cli.formats.webdataset.names import PIXEL_FIELD, StemRegister, extension_of
from fastdata_cli.formats.webdataset.npy import npy_header
from fastdata_cli.formats.webdataset.sample import (
    LABEL_FIELD,
    METADATA_FIELD,
    label_content,
    metadata_content,
)
from fastdata_cli.formats.webdataset.shards import TARS
from fastdata_cli.formats.webdataset.tar import member
from fastdata_cli.keys import to_text
from fastdata_cli.sample import Batch
from fastdata_cli.storage.table import SampleTable

_REGISTER_KEYS = 4096


class WebDatasetWriter(ShardedWriter):
    """Writes the members of samples, each sample under a stem of its own."""

    kind = TARS

    def __init__(self, target: Target, options: ShardWriteOptions) -> None:
        super().__init__(target, options)
        self._stems = StemRegister()
        self._header = b""
        if self.schema.image_shape is not None:
            self._header = npy_header(self.schema.image_shape, self.schema.dtype)

    def _resumed(self, receipts: Sequence[Receipt], ends: Mapping[Path, ShardEnd]) -> None:
        # What an index took was behind the samples, and is cut off.
        self._register(self.staging.side.table(receipts))

    def _register(self, table: SampleTable) -> None:
        self._stems = StemRegister()
        for begin in range(0, len(table), _REGISTER_KEYS):
            self._stems.add(self._stems.assign(table.keys[begin : begin + _REGISTER_KEYS])[1])

    def _samples(self, part: Part, batch: Batch) -> Iterator[tuple[Sequence[Any], int]]:
        if part.index in self.receipts:  # written again: its own stems must not count as taken
            parts = [self.receipts[index] for index in range(part.index)]
            self._register(self.staging.side.table(parts))
        stems, hashes = self._stems.assign(batch.keys)
        for index, stem in enumerate(stems):
            pieces = self._sample(stem, batch, index)
            yield pieces, total_bytes(pieces[: 1 + self._headers])
        self._stems.add(hashes)

    def _sample(self, stem: str, batch: Batch, index: int) -> list[Any]:
        """Return all members of a sample: the image's header, its content, and all the rest."""
        image, label = batch.image(index), int(batch.labels[index])
        if self._header:
            pieces = member(f"{stem}.{PIXEL_FIELD}", self._header, np.ascontiguousarray(image))
        else:
            pieces = member(f"{stem}.{extension_of(image)}", image)
        rest = [pieces.pop()]
        written_label = label_content(label)
        if written_label is not None:
            rest += member(f"{stem}.{LABEL_FIELD}", written_label)
        metadata = batch.metadata[index] if batch.metadata else None
        names = self.schema.class_names
        content = metadata_content(to_text(batch.keys[index]), label, names, metadata)
        rest += member(f"{stem}.{METADATA_FIELD}", content)
        return [*pieces, b"".join(rest)]

    def _end_shard(self, descriptor: int, end: ShardEnd, index: ShardIndex) -> str:
        return append_index(descriptor, end.bytes, index)

    @property
    def _headers(self) -> int:
        """Pieces of content that precede the image."""
        return 1 if self._header else 0
