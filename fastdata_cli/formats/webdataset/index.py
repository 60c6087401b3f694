"""Owns how the index is wrapped in a tar: members of a folder that the webdataset library skips."""

from __future__ import annotations

from pathlib import Path

from fastdata_cli.formats.sharded.index import (
    FOOTER_BYTES,
    OwnShard,
    ShardIndex,
    digest,
    footer_line,
    open_shard,
)
from fastdata_cli.formats.webdataset.tar import BLOCK, END_OF_ARCHIVE, MemberStream

FOLDER = "__fastdata__/"

_FOOTER_NAME = FOLDER + "footer.json"
_TAIL_BYTES = BLOCK + FOOTER_BYTES + len(END_OF_ARCHIVE)


def append_index(descriptor: int, position: int, index: ShardIndex) -> str:
    """Write the index at ``position`` and end the archive there.

    Args:
        descriptor: of the tar, open for writing.

    Returns:
        The digest of the footer.
    """
    stream = MemberStream(descriptor, position)
    manifest = index.write(lambda name, content: stream.append_content(FOLDER + name, content))
    line = footer_line(stream.position + _TAIL_BYTES, manifest)
    stream.append_content(_FOOTER_NAME, line)
    stream.end()
    return digest(line)


def samples_end(shard: OwnShard) -> int:
    """Return where the samples of a tar end: the members of the index follow them."""
    return min(place.begin for place in shard.stored.values()) - BLOCK


def open_own(path: Path) -> OwnShard | None:
    """Open a tar by its footer: two short reads. None when it is not one of ours, whole.

    Raises:
        DamagedDatasetError: the footer is there and damaged, or of a later version.
    """
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
        tail = file.read()
    if not tail.startswith(_FOOTER_NAME.encode() + b"\0"):
        return None
    return open_shard(path, tail[BLOCK : BLOCK + FOOTER_BYTES], FOLDER)
