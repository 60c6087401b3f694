"""Owns what tars are called, and how one is told by its first bytes."""

from __future__ import annotations

import re
from pathlib import Path

from fastdata_cli.formats.sharded.compressed import is_compressed
from fastdata_cli.formats.sharded.kind import ShardKind
from fastdata_cli.formats.webdataset.check import check_members
from fastdata_cli.formats.webdataset.index import open_own, samples_end
from fastdata_cli.formats.webdataset.walk import BLOCK, header_is_sound

_NAMED_AS_TAR = re.compile(r"\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tzst)$", re.IGNORECASE)


def _is_tar(path: Path) -> bool:
    with open(path, "rb") as file:
        block = file.read(BLOCK)
        named = _NAMED_AS_TAR.search(path.name) is not None
        if named and is_compressed(block):
            return True
        if len(block) < BLOCK:
            return False
        if not any(block):  # an archive of nothing is zeros
            return named and file.read(BLOCK) == bytes(BLOCK)
    return header_is_sound(block) and (named or block[257:262] == b"ustar")


TARS = ShardKind(
    suffix=".tar",
    named=_NAMED_AS_TAR,
    is_shard=_is_tar,
    open_own=open_own,
    check=check_members,
    layout={"tar": "ustar, pax where a name needs it", "index": "in the tars"},
    samples_end=samples_end,
)
"""Tars as shards."""
