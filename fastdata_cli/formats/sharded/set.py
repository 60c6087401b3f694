"""Owns the names of a shard set and its index file, which is what makes the shards one dataset."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.json_text import parse
from fastdata_cli.manifest import Manifest

INDEX_SUFFIX = ".fastdata.json"
INDEX_VERSION = 1

_DIRECTIVE = re.compile(r"%(?:0(\d+))?d")


@dataclass(frozen=True, slots=True)
class ShardPattern:
    """A path such as ``DIR/train-%06d.tar``: shard 0, 1, … of one dataset."""

    folder: Path
    before: str
    digits: int
    after: str

    @classmethod
    def parse(cls, path: Path) -> ShardPattern | None:
        """Return the pattern that a path is, or None: its name needs exactly one ``%d``."""
        found = list(_DIRECTIVE.finditer(path.name))
        if len(found) != 1 or "%" in path.name.replace(found[0][0], "", 1):
            return None
        before, after = path.name[: found[0].start()], path.name[found[0].end() :]
        return cls(path.parent, before, int(found[0][1] or 0), after)

    def name(self, ordinal: int) -> str:
        """Return the file name of a shard."""
        return f"{self.before}{ordinal:0{self.digits}d}{self.after}"

    def standing(self) -> list[Path]:
        """Return the shards that are there, in order."""
        form = re.compile(re.escape(self.before) + r"(\d+)" + re.escape(self.after))
        found = []
        for entry in os.scandir(self.folder):
            match = form.fullmatch(entry.name)
            if match and self.name(int(match[1])) == entry.name:
                found.append((int(match[1]), Path(entry.path)))
        return [path for _, path in sorted(found)]


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """What the index of a set says of one shard."""

    name: str
    samples: int
    bytes: int
    footer: str
    """xxh3-64 of the shard's footer."""


@dataclass(frozen=True, slots=True)
class SetIndex:
    """The index file of a shard set."""

    manifest: Manifest
    shards: tuple[ShardEntry, ...]

    def to_json(self) -> str:
        """Return the JSON text, the same for equal sets."""
        record = {
            "fastdata_shards": INDEX_VERSION,
            "shards": [asdict(entry) for entry in self.shards],
            "manifest": json.loads(self.manifest.to_json()),
        }
        return json.dumps(record, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> SetIndex:
        """Read an index file.

        Raises:
            DamagedDatasetError: it is no index, or of a later version.
        """
        try:
            record = parse(path.read_bytes())
            version = record["fastdata_shards"]
        except (ValueError, KeyError, TypeError) as problem:
            raise DamagedDatasetError(f"{path}: the index of the shards is broken") from problem
        if version != INDEX_VERSION:
            raise DamagedDatasetError(
                f"{path}: index version {version}; this fastdata reads {INDEX_VERSION}",
                hint="upgrade fastdata-cli",
            )
        try:
            entries = tuple(map(_entry, record["shards"]))
            manifest = json.dumps(record["manifest"])
        except (KeyError, TypeError, ValueError) as problem:
            raise DamagedDatasetError(f"{path}: the index of the shards is broken") from problem
        return cls(Manifest.from_json(manifest, where=str(path)), entries)


def _entry(record: Mapping[str, Any]) -> ShardEntry:
    """Return an entry; ValueError for what it cannot say, such as a file in another folder."""
    found = ShardEntry(**record)
    if not all(isinstance(text, str) for text in (found.name, found.footer)):
        raise ValueError("a name that is no text")
    if "/" in found.name or "\0" in found.name or found.name in ("", ".", ".."):
        raise ValueError(f"{found.name!r} is no shard beside the index")
    for number in (found.samples, found.bytes):
        if type(number) is not int or not 0 <= number < 1 << 48:
            raise ValueError(f"{number!r} is no count")
    return found


def index_path(path: Path) -> Path:
    """Return where the index of the shard set at a pattern lies."""
    return path.with_name(path.name + INDEX_SUFFIX)
