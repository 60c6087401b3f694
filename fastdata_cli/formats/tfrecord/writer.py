"""Owns how a sample of ours becomes a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Part, Receipt
from fastdata_cli.formats.sharded.cutter import ShardEnd
from fastdata_cli.formats.sharded.index import ShardIndex
from fastdata_cli.formats.sharded.writer import ShardedWriter
from fastdata_cli.formats.tfrecord import framing
from fastdata_cli.formats.tfrecord.example import Place, bytes_value, example_bytes, features_in
from fastdata_cli.formats.tfrecord.index import append_index, take_off_index
from fastdata_cli.formats.tfrecord.sample import FORMAT, IMAGE, features_of, image_format
from fastdata_cli.formats.tfrecord.shards import TFRECORDS
from fastdata_cli.keys import to_text
from fastdata_cli.sample import Batch


class TfRecordWriter(ShardedWriter):
    """Writes a sample as an Example, framed as a record."""

    kind = TFRECORDS

    def _samples(self, part: Part, batch: Batch) -> Iterator[tuple[Sequence[Any], int]]:
        for index in range(len(batch)):
            data = self._example(batch, index, part.start + index)
            view = memoryview(data)
            place = bytes_value(view, features_in(view, Place(0, len(data)))[IMAGE])
            assert place is not None
            crc = framing.masked_crc(data)
            pieces = (framing.header(len(data)), data, framing.footer(crc))
            yield pieces, framing.HEADER_BYTES + place.begin

    def _example(self, batch: Batch, index: int, position: int) -> bytes:
        image = np.ascontiguousarray(batch.image(index)).reshape(-1).view(np.uint8)
        metadata = batch.metadata[index] if batch.metadata else None
        label = int(batch.labels[index])
        key = to_text(batch.keys[index])
        features = features_of(self.schema, position, key, label, metadata)
        features.setdefault(FORMAT, image_format(image))
        return example_bytes({**features, IMAGE: image.tobytes()})

    def _end_shard(self, descriptor: int, end: ShardEnd, index: ShardIndex) -> str:
        return append_index(descriptor, end, index)

    def _resumed(self, receipts: Sequence[Receipt], ends: Mapping[Path, ShardEnd]) -> None:
        for path, end in ends.items():
            take_off_index(path, end)
