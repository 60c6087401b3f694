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
from fastdata_cli.json_text import parse_object
from fastdata_cli.key_table import KeyTable
from fastdata_cli.manifest import Manifest
from fastdata_cli.storage.table import (
    SampleTable,
    lead_outside,
    npy_array,
    npy_bytes,
    require_column,
)

FOOTER_VERSION = 1
FOOTER_BYTES = 512

_FOOTER = ("fastdata_footer", "file_bytes", "manifest")
_PLACES = ("begins", "lengths")
_MOST_SHARDS = 1 << 48

Put = Callable[[str, bytes], int]
"""Appends named content to a shard; returns the byte of the file at which the content begins."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where some content lies in a file."""

    begin: int
    length: int
    digest: str
    """xxh3-64 of the content."""

    @classmethod
    def parse(cls, record: Any, size: int) -> Place:
        """Return the place that ``[begin, bytes, xxh3-64]`` tells of, in a file of ``size`` bytes.

        Raises:
            ValueError, TypeError: nothing can lie there.
        """
        begin, length, wanted = record
        if not (type(begin) is type(length) is int and isinstance(wanted, str)):
            raise TypeError("a place is two whole numbers and a text")
        if not 0 <= begin <= begin + length <= size:
            raise ValueError(f"a place that is not in the {size} bytes of the file")
        return cls(begin, length, wanted)

    def read(self, path: Path, what: str) -> bytes:
        """Return the content.

        Args:
            what: it is, in errors.

        Raises:
            DamagedDatasetError: it is not what was written.
        """
        with open(path, "rb") as file:
            file.seek(self.begin)
            content = file.read(self.length)
        if digest(content) != self.digest:
            raise DamagedDatasetError(f"{what}: its checksum does not match")
        return content


@dataclass(frozen=True, slots=True)
class OwnShard:
    """One shard that fastdata wrote, known by its footer and manifest alone."""

    path: Path
    manifest: Manifest
    digest: str
    """xxh3-64 of the footer, which in turn holds that of the manifest, and so on: of all."""
    folder: str
    """What messages put in front of the name of a column."""
    stored: Mapping[str, Place]
    """Where the columns of its index lie."""
    set_size: int
    """How many shards it was written with, itself included."""

    @property
    def samples(self) -> int:
        """How many samples it holds."""
        return self.manifest.schema.num_samples or 0

    def columns(self, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Read columns of the index, all by default.

        Raises:
            DamagedDatasetError: a column is missing, or not what the manifest says.
        """
        found = {}
        for name in self.stored if names is None else names:
            where = f"{self.path}: {self.folder}{name}.npy"
            found[name] = npy_array(self.stored[name].read(self.path, where), where=where)
        return found

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where each image begins in the file, and its bytes: int64[N] each.

        Raises:
            DamagedDatasetError: these are no such columns, or lead outside of the file.
        """
        columns = self.columns(_PLACES)
        for name, column in columns.items():
            require_column(column, "int64", where=f"{self.path}: {self.folder}{name}.npy")
            self._require_rows(len(column))
        begins, lengths = (columns[name] for name in _PLACES)
        if lead_outside(begins, lengths, self.path.stat().st_size):
            raise DamagedDatasetError(f"{self.path}: its index leads outside of the file")
        return begins, lengths

    def table(self) -> SampleTable:
        """Return the sample table.

        Raises:
            DamagedDatasetError: a column is missing, or is not what it should be.
        """
        table = SampleTable.from_columns(self.columns(), where=str(self.path))
        self._require_rows(len(table))
        return table

    def _require_rows(self, rows: int) -> None:
        if rows != self.samples:
            raise DamagedDatasetError(f"{self.path}: {rows} rows for {self.samples} samples")


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
    place = _parse_footer(line, size, f"{path}: {folder}footer.json")
    if place is None:
        return None
    where = f"{path}: {folder}manifest.json"
    manifest = Manifest.from_json(place.read(path, where), where=where)
    stored, set_size = _parse_layout(manifest.layout, size, where)
    return OwnShard(path, manifest, digest(line), folder, stored, set_size)


def _parse_layout(
    layout: Mapping[str, Any], size: int, where: str
) -> tuple[Mapping[str, Place], int]:
    """Return where the columns lie in a file of so many bytes, and how many shards there are."""
    try:
        stored = {name: Place.parse(each, size) for name, each in layout["columns"].items()}
        shards = layout["shards"]
        if type(shards) is not int or not 0 <= shards < _MOST_SHARDS:
            raise ValueError("no number of shards")
        if not stored.keys() >= set(_PLACES):
            raise ValueError(f"the columns {' and '.join(_PLACES)} are not there")
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DamagedDatasetError(
            f"{where}: its layout is none of a shard ({problem})"
        ) from problem
    return stored, shards


def _parse_footer(line: bytes, size: int, where: str) -> Place | None:
    """Return where the manifest lies; None if the footer is about a file of another size."""
    try:
        footer = parse_object(line)
        version, file_bytes, place = (footer[name] for name in _FOOTER)
    except (ValueError, KeyError) as problem:
        raise DamagedDatasetError(f"{where}: the footer cannot be read") from problem
    if version != FOOTER_VERSION:
        raise DamagedDatasetError(
            f"{where}: footer version {version}; this fastdata reads {FOOTER_VERSION}",
            hint="upgrade fastdata-cli",
        )
    if file_bytes != size:  # other files in front of this one: its offsets mean nothing here
        return None
    try:
        return Place.parse(place, size)
    except (ValueError, TypeError) as problem:
        raise DamagedDatasetError(f"{where}: the footer cannot be read ({problem})") from problem


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
