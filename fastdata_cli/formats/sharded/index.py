"""Owns the index inside a shard of ours: columns, the manifest, and a footer that leads to them.

A format decides how these are wrapped so that other readers pass over them. The footer is one line
of 512 bytes: ``{"fastdata_footer": 1, "file_bytes": …, "manifest": [begin, bytes, xxh3-64]}``,
blanks, a newline. The layout of the manifest has [begin, bytes, xxh3-64] of every column: each is
found, and checked, without the container.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.base import manifest_text
from fastdata_cli.json_text import parse
from fastdata_cli.key_table import KeyTable
from fastdata_cli.manifest import Manifest
from fastdata_cli.storage.table import SampleTable, npy_array, npy_bytes

FOOTER_VERSION = 1
FOOTER_BYTES = 512

Put = Callable[[str, bytes], int]
"""Appends named content to a shard; returns the byte of the file at which the content begins."""


@dataclass(frozen=True, slots=True)
class OwnShard:
    """One shard that fastdata wrote, known by its footer and manifest alone."""

    path: Path
    manifest: Manifest
    digest: str
    """xxh3-64 of the footer, which in turn holds that of the manifest, and so on: of all."""
    folder: str
    """What messages put in front of the name of a column."""

    @property
    def samples(self) -> int:
        """How many samples it holds."""
        return self.manifest.schema.num_samples or 0

    @property
    def set_size(self) -> int:
        """How many shards it was written with, itself included."""
        return int(self.manifest.layout["shards"])

    def columns(self, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Read columns of the index, all by default.

        Raises:
            DamagedDatasetError: a column is missing, or not what the manifest says.
        """
        places: Mapping[str, list[Any]] = self.manifest.layout["columns"]
        found = {}
        with open(self.path, "rb") as file:
            for name in places if names is None else names:
                where = f"{self.path}: {self.folder}{name}.npy"
                begin, length, wanted = places[name]
                file.seek(begin)
                content = file.read(length)
                if digest(content) != wanted:
                    raise DamagedDatasetError(f"{where}: its checksum does not match")
                found[name] = npy_array(content, where=where)
        return found

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where each image begins in the file, and its bytes: int64[N] each."""
        columns = self.columns(("begins", "lengths"))
        return columns["begins"], columns["lengths"]

    def table(self) -> SampleTable:
        """Return the sample table."""
        return SampleTable.from_columns(self.columns(), where=str(self.path))


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """What the index of one shard is made from."""

    table: SampleTable
    begins: NDArray[np.int64]
    """int64[N], where each image begins in the shard."""
    manifest: Manifest
    """Of the whole dataset; the shard's own numbers are filled in."""
    number: int
    """Of this shard."""
    shards: int
    """How many there are."""

    def write(self, put: Put) -> tuple[int, int, str]:
        """Append columns and manifest; return begin, bytes and digest of the manifest."""
        places: dict[str, list[Any]] = {}
        for name, column in {**self.table.columns(), "begins": self.begins}.items():
            content = npy_bytes(column)
            places[name] = [put(f"{name}.npy", content), len(content), digest(content)]
        largest = None
        if self.manifest.schema.image_shape is None:
            largest = int(self.table.lengths.max(initial=0))
        layout = {"columns": places, "shard": self.number, "shards": self.shards}
        text = manifest_text(self.manifest.finished(len(self.table), largest), layout).encode()
        return put("manifest.json", text), len(text), digest(text)


def footer_line(file_bytes: int, manifest: tuple[int, int, str]) -> bytes:
    """Return the footer of a shard that will have so many bytes."""
    footer = {
        "fastdata_footer": FOOTER_VERSION,
        "file_bytes": file_bytes,
        "manifest": list(manifest),
    }
    return json.dumps(footer).encode().ljust(FOOTER_BYTES - 1) + b"\n"


def open_shard(path: Path, line: bytes, folder: str) -> OwnShard | None:
    """Open a shard by its footer line; None for a footer that is not about this file as it is.

    Raises:
        DamagedDatasetError: the footer is damaged, or of a later version.
    """
    size = path.stat().st_size
    begin, length, wanted = _parse_footer(line, size, f"{path}: {folder}footer.json")
    if begin < 0:
        return None
    with open(path, "rb") as file:
        file.seek(begin)
        text = file.read(length)
    where = f"{path}: {folder}manifest.json"
    if digest(text) != wanted:
        raise DamagedDatasetError(f"{where}: its checksum does not match")
    return OwnShard(path, Manifest.from_json(text, where=where), digest(line), folder)


def _parse_footer(line: bytes, size: int, where: str) -> tuple[int, int, str]:
    try:
        footer = parse(line)
        version, file_bytes = footer["fastdata_footer"], footer["file_bytes"]
        begin, length, wanted = footer["manifest"]
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedDatasetError(f"{where}: the footer cannot be read") from problem
    if version != FOOTER_VERSION:
        raise DamagedDatasetError(
            f"{where}: footer version {version}; this fastdata reads {FOOTER_VERSION}",
            hint="upgrade fastdata-cli",
        )
    # Other files in front of this one: its offsets mean nothing in this file.
    return (begin, length, wanted) if file_bytes == size else (-1, 0, "")


def rows(table: SampleTable, span: range) -> SampleTable:
    """Return some adjoining rows of a table."""
    part = slice(span.start, span.stop)
    metadata = None if table.metadata is None else _key_rows(table.metadata, span)
    return replace(
        table,
        keys=_key_rows(table.keys, span),
        labels=table.labels[part],
        checksums=table.checksums[part],
        lengths=table.lengths[part],
        metadata=metadata if metadata is not None and len(metadata.blob) else None,
    )


def _key_rows(keys: KeyTable, span: range) -> KeyTable:
    offsets = keys.offsets[span.start : span.stop + 1]
    return KeyTable(keys.blob[offsets[0] : offsets[-1]], offsets - offsets[0])


def digest(content: bytes) -> str:
    """Return the xxh3-64 of some bytes, in hexadecimal."""
    return str(xxhash.xxh3_64_hexdigest(content))
