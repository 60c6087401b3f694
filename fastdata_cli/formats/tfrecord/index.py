"""Owns how the index is wrapped in a file of records: as features of its last sample.

A record of its own would be one more sample for every other reader, and one without an image.
Serialized messages that stand one behind the other are one message with the fields of all
(protobuf promises that, and TensorFlow's own parser keeps it), and readers ignore features that
they have not asked for. So the index stands behind the last Example, in the same record: nothing
before it moves, only the record's length and its two checksums are written anew. The footer is the
last value, and the file ends 4 bytes behind it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fastdata_cli.errors import UnsupportedError, UsageError
from fastdata_cli.formats.sharded.cutter import ShardEnd
from fastdata_cli.formats.sharded.index import (
    FOOTER_BYTES,
    OwnShard,
    ShardIndex,
    digest,
    footer_line,
    open_shard,
)
from fastdata_cli.formats.tfrecord import framing
from fastdata_cli.formats.tfrecord.example import example_bytes
from fastdata_cli.formats.tfrecord.sample import PREFIX
from fastdata_cli.key_table import KeyTable
from fastdata_cli.storage import durable

_FOOTER_START = footer_line(0, (0, 0, ""))[: len(b'{"fastdata_footer')]
# Protobuf takes no larger message.
_MOST_BYTES = (1 << 31) - 1
# Of a sample, without its key: label, checksum, begin, length, and where its key begins.
_COLUMN_BYTES = 40
_TOO_LARGE = "the index of {:,} samples is larger than a record can be"
_HINT = "write shards: give a pattern such as train-%05d.tfrecord"


def append_index(descriptor: int, end: ShardEnd, index: ShardIndex) -> str:
    """Put the index behind the last sample and close its record.

    Args:
        descriptor: of the file, open for reading and writing.
        end: where the file ends, and its last sample begins.

    Returns:
        The digest of the footer.

    Raises:
        UnsupportedError: the index of so many samples does not fit into a record.
    """
    data = _data_of_last(descriptor, end)
    begin = end.last + framing.HEADER_BYTES
    appended: list[bytes] = []
    position = begin + len(data)

    def put(name: str, content: bytes) -> int:
        nonlocal position
        appended.append(example_bytes({PREFIX + name: content}))
        position += len(appended[-1])
        return position - len(content)  # a message ends with its last value

    manifest = index.write(put)
    around = len(example_bytes({PREFIX + "footer.json": bytes(FOOTER_BYTES)}))
    line = footer_line(position + around + framing.FOOTER_BYTES, manifest)
    put("footer.json", line)
    size = position - begin
    if size > _MOST_BYTES:
        raise UnsupportedError(_TOO_LARGE.format(end.samples), hint=_HINT)
    _write(descriptor, end.last, data, b"".join(appended))
    return digest(line)


def require_index(samples: int, keys: Sequence[str]) -> None:
    """Refuse so many samples in a file that their index, without metadata, is no record.

    Args:
        samples: of a file.
        keys: of the dataset; those of a file are taken to be as long as the others.

    Raises:
        UsageError: they are too many.
    """
    table = KeyTable.of(keys)
    each = _COLUMN_BYTES + len(table.blob) / max(len(table), 1)
    if samples * each > _MOST_BYTES:
        raise UsageError(_TOO_LARGE.format(samples), hint=_HINT)


def take_off_index(path: Path, end: ShardEnd) -> None:
    """Close the last record where its sample ends, whatever an index has made of it."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        _write(descriptor, end.last, _data_of_last(descriptor, end), b"")
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def open_own(path: Path) -> OwnShard | None:
    """Open a file by its footer: two short reads. None when it is not one of ours, whole.

    Raises:
        DamagedDatasetError: the footer is there and damaged, or of a later version.
    """
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - FOOTER_BYTES - framing.FOOTER_BYTES))
        line = file.read(FOOTER_BYTES)
    return open_shard(path, line, PREFIX) if line.startswith(_FOOTER_START) else None


def _data_of_last(descriptor: int, end: ShardEnd) -> bytes:
    if not end.samples:
        return b""
    begin = end.last + framing.HEADER_BYTES
    return os.pread(descriptor, end.bytes - framing.FOOTER_BYTES - begin, begin)


def _write(descriptor: int, at: int, data: bytes, behind: bytes) -> None:
    """Close the record at ``at``, whose data is there already, with more behind it."""
    begin = at + framing.HEADER_BYTES + len(data)
    os.lseek(descriptor, begin, os.SEEK_SET)
    crc = framing.masked_crc(data, behind)
    durable.write_all(descriptor, memoryview(behind + framing.footer(crc)))
    os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))
    os.pwrite(descriptor, framing.header(len(data) + len(behind)), at)
