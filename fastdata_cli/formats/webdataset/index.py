"""Owns the index that ends every tar of ours: columns, manifest and a footer that leads to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.base import manifest_text
from fastdata_cli.formats.webdataset.tar import BLOCK, END_OF_ARCHIVE, MemberStream
from fastdata_cli.key_table import KeyTable
from fastdata_cli.manifest import Manifest
from fastdata_cli.storage.table import SampleTable, npy_array, npy_bytes

FOLDER = "__fastdata__/"
FOOTER_VERSION = 1

_FOOTER_NAME = FOLDER + "footer.json"
_TAIL_BYTES = 2 * BLOCK + len(END_OF_ARCHIVE)


@dataclass(frozen=True, slots=True)
class OwnShard:
    """One tar that fastdata wrote, known by its footer and manifest alone."""

    path: Path
    manifest: Manifest
    digest: str
    """xxh3-64 of the footer, which in turn holds that of the manifest, and so on: of all."""

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
                where = f"{self.path}: {FOLDER}{name}.npy"
                begin, length, digest = places[name]
                file.seek(begin)
                content = file.read(length)
                if _digest(content) != digest:
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


def append_index(
    descriptor: int,
    position: int,
    table: SampleTable,
    begins: NDArray[np.int64],
    manifest: Manifest,
    number: tuple[int, int],
) -> str:
    """Write the index at ``position`` and end the archive there.

    Args:
        descriptor: of the tar, open for writing.
        begins: int64[N], where each image begins in it.
        manifest: of the whole dataset; this shard's own numbers are filled in.
        number: of this shard, and how many there are.

    Returns:
        The digest of the footer.
    """
    stream = MemberStream(descriptor, position)
    places: dict[str, list[Any]] = {}
    for name, column in {**table.columns(), "begins": begins}.items():
        content = npy_bytes(column)
        begin = stream.append_content(f"{FOLDER}{name}.npy", content)
        places[name] = [begin, len(content), _digest(content)]
    largest = None
    if manifest.schema.image_shape is None:
        largest = int(table.lengths.max(initial=0))
    layout = {"columns": places, "shard": number[0], "shards": number[1]}
    text = manifest_text(manifest.finished(len(table), largest), layout).encode()
    begin = stream.append_content(FOLDER + "manifest.json", text)
    footer = {
        "fastdata_footer": FOOTER_VERSION,
        "file_bytes": stream.position + _TAIL_BYTES,
        "manifest": [begin, len(text), _digest(text)],
    }
    line = json.dumps(footer).encode().ljust(BLOCK - 1) + b"\n"
    stream.append_content(_FOOTER_NAME, line)
    stream.end()
    return _digest(line)


def open_own(path: Path) -> OwnShard | None:
    """Open a tar by its footer: two short reads. None when it is not one of ours, whole.

    Raises:
        DamagedDatasetError: the footer is there and damaged, or of a later version.
    """
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        if not tail.startswith(_FOOTER_NAME.encode() + b"\0"):
            return None
        line = tail[BLOCK : 2 * BLOCK]
        begin, length, digest = _parse_footer(line, size, path)
        if begin < 0:
            return None
        file.seek(begin)
        text = file.read(length)
    where = f"{path}: {FOLDER}manifest.json"
    if _digest(text) != digest:
        raise DamagedDatasetError(f"{where}: its checksum does not match")
    return OwnShard(path, Manifest.from_json(text, where=where), _digest(line))


def _parse_footer(line: bytes, size: int, path: Path) -> tuple[int, int, str]:
    where = f"{path}: {_FOOTER_NAME}"
    try:
        footer = json.loads(line)
        version, file_bytes = footer["fastdata_footer"], footer["file_bytes"]
        begin, length, digest = footer["manifest"]
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedDatasetError(f"{where}: the footer cannot be read") from problem
    if version != FOOTER_VERSION:
        raise DamagedDatasetError(
            f"{where}: footer version {version}; this fastdata reads {FOOTER_VERSION}",
            hint="upgrade fastdata-cli",
        )
    # Other archives in front of this one: its offsets mean nothing in this file.
    return (begin, length, digest) if file_bytes == size else (-1, 0, "")


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


def _digest(content: bytes) -> str:
    return str(xxhash.xxh3_64_hexdigest(content))
