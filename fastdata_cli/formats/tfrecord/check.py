"""Owns checking that what plain readers see in a file of ours is what its index says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fastdata_cli.contract import Finding
from fastdata_cli.formats.sharded.index import OwnShard
from fastdata_cli.formats.tfrecord import framing
from fastdata_cli.formats.tfrecord.example import (
    Place,
    bytes_value,
    features_in,
    values_of,
)
from fastdata_cli.formats.tfrecord.framing import Damage, Record
from fastdata_cli.formats.tfrecord.sample import (
    FORMAT,
    IMAGE,
    INDEX,
    METADATA,
    PREFIX,
    features_of,
    image_format,
)
from fastdata_cli.storage.mapping import MappedFile
from fastdata_cli.storage.table import SampleTable


def check_records(shard: OwnShard, first: int) -> Iterator[Finding]:
    """Walk the records of a file and compare checksums and features with its index.

    Args:
        first: position of the file's first sample in the dataset.
    """
    file = MappedFile(str(shard.path))
    checked = _Checked(shard, file.data.data)
    count = 0
    for record in framing.records(checked.data):
        if isinstance(record, Damage):
            detail = f"{shard.path.name}, byte {record.at}: {record.detail}"
            yield Finding(-1, "", "corrupt", detail)
            return
        if count < len(checked.table) and not checked.agrees(count, record):
            detail = f"{shard.path.name}, byte {record.begin}: not the record that was written"
            yield Finding(first + count, checked.table.keys[count], "corrupt", detail)
        count += 1
    if count != max(len(checked.table), 1):
        detail = f"{shard.path.name}: {count} records for {len(checked.table)} samples"
        yield Finding(-1, "", "surplus" if count > len(checked.table) else "missing", detail)


class _Checked:
    """A mapped file of ours with what its index says."""

    def __init__(self, shard: OwnShard, data: memoryview) -> None:
        self.data = data
        self.table: SampleTable = shard.table()
        self._schema = shard.manifest.schema
        self._begins, self._lengths = shard.places()

    def agrees(self, number: int, record: Record) -> bool:
        """Tell whether the record of a sample is whole, and says what the index says."""
        if not framing.is_sound(self.data, record):
            return False
        try:
            places = features_in(self.data, Place(record.begin, record.begin + record.size))
            image = bytes_value(self.data, places.pop(IMAGE))
            found = {
                name: values_of(self.data, place)
                for name, place in places.items()
                if name == METADATA or not name.startswith(PREFIX)
            }
        except (ValueError, KeyError):
            return False
        begin, length = int(self._begins[number]), int(self._lengths[number])
        return image == Place(begin, begin + length) and found == self._expected(number, image)

    def _expected(self, number: int, image: Place) -> dict[str, list[Any]]:
        table = self.table
        metadata = None if table.metadata is None else table.metadata.text(number)
        label, key = int(table.labels[number]), table.keys.text(number)
        features = features_of(self._schema, number, key, label, metadata)
        start = np.frombuffer(self.data[image.begin : image.end], np.uint8)
        features.setdefault(FORMAT, image_format(start))
        del features[INDEX]  # counts through all shards of a set
        return {name: [value] for name, value in features.items()}
