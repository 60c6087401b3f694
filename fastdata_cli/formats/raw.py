"""Raw: one file of bytes that ``numpy.memmap`` opens in a line, with plain files beside it.

out.raw/
    data.raw       pixels: N×H×W×C in C order; encoded: the images one after another
    meta.json      shape, dtype, byte order, class names, and the manifest
    labels.npy     int64[N], -1 without a label
    keys.txt       one key a line, in its text form
    checksums.npy  uint64[N], xxh3-64 of each image
    begin.npy      int64[N], encoded only: where each image begins in data.raw
    length.npy     int64[N], encoded only: its bytes
    metadata.jsonl one JSON object a line; only where samples carry metadata
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability, Format, Part, Reader, Receipt, Target, Writer
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.extents import Bytes, Column, Extents, Rows
from fastdata_cli.formats.base import manifest_text
from fastdata_cli.formats.located import Library, LocatedReader, Locator, StoredRanges
from fastdata_cli.formats.staged import StagedWriter, has_bytes
from fastdata_cli.json_text import parse_object
from fastdata_cli.key_table import KeyTable
from fastdata_cli.manifest import Manifest
from fastdata_cli.options import Options
from fastdata_cli.sample import Batch, Payload
from fastdata_cli.storage import durable
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import (
    SampleTable,
    lead_outside,
    npy_array,
    npy_bytes,
    require_column,
)

NAME = "raw"


class _Pixels(Locator):
    """Images of one size, one after another."""

    def __init__(self, path: Path, each: int, count: int) -> None:
        self.files = FileMaps(lambda _: str(path))
        self.rows = Rows(0, each, count)
        self._each = each

    def locate(self, indices: Column) -> Extents:
        lengths = np.full(len(indices), self._each)
        zeros = np.zeros_like(indices)
        return Extents(self.files.path_of, zeros, indices * self._each, lengths)


class _Memmap:
    """Images through ``numpy.memmap``, which is what others read a raw file with."""

    def __init__(self, path: Path, places: Locator) -> None:
        self._places = places
        empty = path.stat().st_size == 0  # nothing can be mapped
        self._data = np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")

    def images(self, indices: Column) -> list[Bytes]:
        where = self._places.locate(indices)
        ranges = zip(where.offset.tolist(), where.length.tolist(), strict=True)
        return [self._data[begin : begin + length] for begin, length in ranges]

    def close(self) -> None:
        """Nothing to do: the map is released with its last view."""


class RawReader(LocatedReader):
    """Reads a raw folder through a memory map."""

    capabilities = LocatedReader.capabilities | Capability.ZERO_COPY

    def _start(self) -> None:
        meta = self.path / "meta.json"
        record = _read_meta(meta)
        manifest = Manifest.from_json(json.dumps(record.get("manifest")), where=str(meta))
        if record.get("byte_order", sys.byteorder) != sys.byteorder:
            raise DamagedDatasetError(f"{meta}: the data has the other byte order")
        self.manifest, self.schema = manifest, manifest.schema
        expected, real = _data_bytes(manifest, meta), (self.path / "data.raw").stat().st_size
        if expected != real:
            raise DamagedDatasetError(
                f"{self.path / 'data.raw'}: {real} bytes, and {expected} are expected",
                expected=expected,
                found=real,
            )

    def _open_locator(self) -> Locator:
        path = self.path / "data.raw"
        if self.schema.payload is Payload.PIXELS:
            return _Pixels(path, self.schema.pixel_bytes, len(self))
        begins, lengths = self._column("begin"), self._column("length")
        if lead_outside(begins, lengths, path.stat().st_size):
            raise DamagedDatasetError(f"{path}: begin.npy and length.npy point outside of it")
        return StoredRanges(FileMaps(lambda _: str(path)), begins, lengths)

    def _open_library(self) -> Library:
        return _Memmap(self.path / "data.raw", self._open_locator())

    def _load_table(self) -> SampleTable:
        lengths = np.full(len(self), self.schema.pixel_bytes, np.int64)
        if self.schema.payload is Payload.ENCODED:
            lengths = self._column("length")
        has_metadata = (self.path / "metadata.jsonl").exists()
        return SampleTable(
            self._texts("keys.txt"),
            self._column("labels"),
            self._column("checksums", "uint64"),
            lengths,
            self._texts("metadata.jsonl") if has_metadata else None,
        )

    def _texts(self, name: str) -> KeyTable:
        def load() -> KeyTable:
            path = self.path / name
            texts = KeyTable.from_lines(_bytes_of(path))
            if len(texts) != len(self):
                raise DamagedDatasetError(f"{path}: {len(texts)} keys for {len(self)} samples")
            return texts

        return KeyTable.deferred(load)

    def describe(self) -> Mapping[str, Any]:
        """Return the layout: there is nothing to choose."""
        return {"codec": "none"}

    def _column(self, name: str, dtype: str = "int64") -> NDArray[Any]:
        path = self.path / f"{name}.npy"
        try:
            array = npy_array(path.read_bytes(), where=str(path))
        except FileNotFoundError as problem:
            raise DamagedDatasetError(f"{path} is missing") from problem
        require_column(array, dtype, where=str(path))
        if len(array) != len(self):
            raise DamagedDatasetError(f"{path}: {len(array)} rows for {len(self)} samples")
        return array


class RawWriter(StagedWriter):
    """Appends parts to ``data.raw``, in order."""

    _file: int | None = None

    def _create(self) -> None:
        self.staging.item.mkdir()
        self._file = os.open(self.staging.item / "data.raw", os.O_WRONLY | os.O_CREAT, 0o644)

    def _holds(self, receipts: Sequence[Receipt]) -> bool:
        return has_bytes(self.staging.item / "data.raw", int(receipts[-1].facts["end"]))

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        self._file = os.open(self.staging.item / "data.raw", os.O_WRONLY)

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        assert self._file is not None, "begin() comes first"
        # From where the part before it ended: a part that is written again replaces itself.
        before = self.receipts.get(part.index - 1)
        begin = int(before.facts["end"]) if before else 0
        end = begin + batch.images.nbytes
        durable.write_through(self._file, batch.images.data.cast("B"), begin)
        os.ftruncate(self._file, end)
        durable.sync_file(self._file)
        return {"end": end}

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        folder, schema = self.staging.item, manifest.schema
        columns = {"labels": table.labels, "checksums": table.checksums}
        if schema.payload is Payload.ENCODED:
            columns["begin"] = np.cumsum(table.lengths) - table.lengths
            columns["length"] = table.lengths
        for name, column in columns.items():
            (folder / f"{name}.npy").write_bytes(npy_bytes(column))
        (folder / "keys.txt").write_bytes(table.keys.lines())
        if table.metadata is not None:
            (folder / "metadata.jsonl").write_bytes(table.metadata.lines())
        data_bytes = int(table.lengths.sum())
        shape = [len(table), *schema.image_shape] if schema.image_shape else [data_bytes]
        meta = {
            "shape": shape,
            "dtype": schema.dtype,
            "byte_order": sys.byteorder,
            "class_names": schema.class_names,
            "manifest": json.loads(manifest_text(manifest, {"data_bytes": data_bytes})),
        }
        (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        return parse_object(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise DamagedDatasetError(f"{path}: cannot be read as a JSON object") from problem


def _data_bytes(manifest: Manifest, meta: Path) -> int:
    """Return the bytes that ``data.raw`` is to have, by the manifest."""
    noted, schema = manifest.layout.get("data_bytes"), manifest.schema
    pixels = schema.payload is Payload.PIXELS
    if schema.num_samples is None or type(noted) is not int:
        raise DamagedDatasetError(f"{meta}: the manifest lacks a field")
    if pixels and noted != schema.num_samples * schema.pixel_bytes:
        raise DamagedDatasetError(f"{meta}: its shape and its number of bytes disagree")
    return noted


def _bytes_of(path: Path) -> NDArray[np.uint8]:
    try:
        return np.frombuffer(path.read_bytes(), np.uint8)
    except FileNotFoundError as problem:
        raise DamagedDatasetError(f"{path} is missing") from problem


def _recognises(path: Path) -> bool:
    return os.path.isfile(path / "meta.json") and os.path.isfile(path / "data.raw")


def _open_reader(path: Path, options: Options) -> Reader:
    return RawReader(path, options)


def _open_writer(target: Target, options: Options) -> Writer:
    return cast(Writer, RawWriter(target, options))


FORMAT = Format(
    name=NAME,
    summary="one mappable file; the fastest to read in any order",
    suffixes=(".raw",),
    capabilities=RawReader.capabilities,
    payloads=(Payload.PIXELS, Payload.ENCODED),
    recognises=_recognises,
    open_reader=_open_reader,
    open_writer=_open_writer,
)
