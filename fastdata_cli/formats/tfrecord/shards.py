"""Owns what files of records are called, and how one is told by its first bytes."""

from __future__ import annotations

import re
from pathlib import Path

from fastdata_cli.formats.sharded.compressed import is_compressed
from fastdata_cli.formats.sharded.kind import ShardKind
from fastdata_cli.formats.tfrecord import framing
from fastdata_cli.formats.tfrecord.check import check_records
from fastdata_cli.formats.tfrecord.index import open_own

# ``train.tfrecord``, ``train.tfrecord-00000-of-00010`` as TensorFlow Datasets has it, and
# ``train-00000-of-01024`` of the scripts that made ImageNet's records.
_NAMED = re.compile(
    r"\.tfrec(?:ords?)?(?:-\d+-of-\d+)?(?:\.gz)?$|^[\w-]*-\d{5}-of-\d{5}$", re.IGNORECASE
)


def _is_tfrecord(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(framing.HEADER_BYTES)
    named = _NAMED.search(path.name) is not None
    return framing.is_header(head) or (named and is_compressed(head))


TFRECORDS = ShardKind(
    suffix=".tfrecord",
    named=_NAMED,
    is_shard=_is_tfrecord,
    open_own=open_own,
    check=check_records,
    layout={"records": "tf.train.Example", "index": "in the last record of each file"},
)
"""Files of records as shards."""
