"""Owns checking that what plain readers see in a tar of ours is what its index says."""

from __future__ import annotations

from collections.abc import Iterator

from fastdata_cli.contract import Finding
from fastdata_cli.formats.sharded.index import OwnShard
from fastdata_cli.formats.webdataset.index import FOLDER
from fastdata_cli.formats.webdataset.names import split_field
from fastdata_cli.formats.webdataset.sample import (
    LABEL_FIELD,
    METADATA_FIELD,
    label_content,
    metadata_content,
)
from fastdata_cli.formats.webdataset.walk import Bytes, Damage, Member, Walk, map_file
from fastdata_cli.storage.table import SampleTable


def check_members(shard: OwnShard, first: int) -> Iterator[Finding]:
    """Walk the headers of a tar and compare places, labels and JSON members with its index.

    The images themselves are not read.

    Args:
        first: position of the shard's first sample in the dataset.
    """
    table, (begins, lengths) = shard.table(), shard.places()
    ends = (begins + lengths).tolist()
    index, data = -1, map_file(shard.path)
    for member in Walk(data):
        if isinstance(member, Damage):
            detail = f"{shard.path.name}, byte {member.at}: {member.detail}"
            yield Finding(-1, member.name, "corrupt", detail)
            return
        if member.name.startswith(FOLDER):
            continue
        field = split_field(member.name)[1]
        if field in (LABEL_FIELD, METADATA_FIELD):
            if not _agrees(shard, table, index, member, data):
                detail = f"{shard.path.name}: {member.name} is not as it was written"
                yield Finding(first + index, table.keys[index], "corrupt", detail)
            continue
        index += 1
        if index >= len(table) or member.begin + member.size != ends[index]:
            detail = f"{shard.path.name}, byte {member.begin}: not in the index"
            yield Finding(-1, member.name, "surplus", detail)
            return


def _agrees(shard: OwnShard, table: SampleTable, index: int, member: Member, data: Bytes) -> bool:
    if index < 0:
        return False
    content = data[member.begin : member.begin + member.size]
    label = int(table.labels[index])
    if split_field(member.name)[1] == LABEL_FIELD:
        return content == label_content(label)
    metadata = None if table.metadata is None else table.metadata.text(index)
    names = shard.manifest.schema.class_names
    return content == metadata_content(table.keys.text(index), label, names, metadata)
