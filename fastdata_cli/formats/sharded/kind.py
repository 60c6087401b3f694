"""Owns what a sharded format says of its files: their names, how one is told, read and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastdata_cli.contract import Finding
from fastdata_cli.formats.sharded.index import OwnShard


@dataclass(frozen=True, slots=True)
class ShardNames:
    """How the files of one format are found."""

    suffix: str
    """What a pattern of shards ends in, such as ``.tar``."""
    named: re.Pattern[str]
    """Matches the names of files that are taken for shards where a whole folder is read."""
    is_shard: Callable[[Path], bool]
    """Tells a shard by the first bytes of the file."""


@dataclass(frozen=True, slots=True)
class ShardKind(ShardNames):
    """The shards of one format that fastdata writes."""

    open_own: Callable[[Path], OwnShard | None]
    """Opens a shard that fastdata wrote; None for one of others. Raises DamagedDatasetError."""
    check: Callable[[OwnShard, int], Iterator[Finding]]
    """Compares what other readers see in a shard with its index; the images are not read. The
    number is the position of the shard's first sample in the dataset."""
    layout: Mapping[str, str]
    """What ``describe`` says of shards of ours."""
    samples_end: Callable[[OwnShard], int] | None = None
    """Returns where the samples of a shard of ours end, and its index begins; None where none are
    ever added to one."""
