"""Reads HDF5 datasets, ours and those that others made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Capability
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.extents import Column, Extents
from fastdata_cli.formats.axes import AxisOrder, layout_option
from fastdata_cli.formats.chunked import ChunkedImages
from fastdata_cli.formats.hdf5.elsewhere import is_never_written
from fastdata_cli.formats.hdf5.filters import describe_filters, require_filters
from fastdata_cli.formats.hdf5.index import ChunkPlaces, is_located
from fastdata_cli.formats.hdf5.layout import Layout, find_layout
from fastdata_cli.formats.hdf5.library import RaggedLibrary, RowsLibrary
from fastdata_cli.formats.hdf5.open import damage_named, open_file
from fastdata_cli.formats.hdf5.texts import read_foreign_keys, read_texts
from fastdata_cli.formats.located import Library, LocatedReader, Locator
from fastdata_cli.key_table import KeyTable
from fastdata_cli.options import Options, option
from fastdata_cli.sample import UNLABELLED, Payload
from fastdata_cli.storage.table import SampleTable, lead_outside

_Runs = tuple[Column, Column]


@dataclass(frozen=True, kw_only=True)
class Hdf5ReadOptions(Options):
    """Which of the arrays of a file is read."""

    array: str | None = option(
        None, "path of the image array inside the store; without it, found by shape and dtype"
    )
    layout: str | None = layout_option()


class _Located(Locator):
    """Where the images of a file are, which stays open: HDF5 then lets nobody change it."""

    def __init__(self, reader_path: Path, array: str, runs: _Runs | None) -> None:
        self._file = open_file(reader_path)
        places = ChunkPlaces(self._file[array], reader_path)
        self.files, self._images = places.files, ChunkedImages(places.rows, runs)

    def locate(self, indices: Column) -> Extents:
        return self._images.locate(indices)

    def close(self) -> None:
        super().close()
        self._file.close()


class Hdf5Reader(LocatedReader):
    """Reads one array of images with the columns beside it; images as they are stored."""

    options: Hdf5ReadOptions
    _layout: Layout

    @property
    def order(self) -> AxisOrder:
        """The order of the axes of the images."""
        return self._layout.order

    def _start(self) -> None:
        with damage_named(self.path), open_file(self.path) as file:
            found = find_layout(file, self.path, self.options.array, self.options.layout)
            self._layout, self.schema, self.manifest = found
            dataset = file[self._layout.array]
            if is_never_written(dataset):
                raise DamagedDatasetError(f"{self.path}: {dataset.name} was never written")
            require_filters(dataset)
            self._shape = dataset.shape
            self._chunk = dataset.chunks[0] if dataset.chunks else None
            self._filters = describe_filters(dataset)
            if self._layout.ragged or not is_located(dataset):
                self.capabilities &= ~Capability.LOCATE
        compressed = self._filters["codec"] != "none"
        if compressed and self.schema.payload is Payload.PIXELS and (self._chunk or 1) > 1:
            self.capabilities &= ~Capability.RANDOM_ACCESS

    def _open_locator(self) -> _Located:
        with damage_named(self.path):
            return _Located(self.path, self._layout.array, self._runs())

    def _open_library(self) -> Library:
        with damage_named(self.path):
            if self._layout.ragged:
                return RaggedLibrary(self.path, self._layout.array)
            return RowsLibrary(self.path, self._layout.array, self._runs())

    def _runs(self) -> _Runs | None:
        """Return where each encoded image begins in the data, and its bytes; or a sole picture."""
        if self.schema.payload is Payload.PIXELS:
            if not self._layout.order.is_one:
                return None
            return np.array([0]), np.array([self._shape[0]])
        columns, size = self._layout.columns, self._shape[0]
        with open_file(self.path) as file:
            begins, lengths = file[columns["begin"]][:], file[columns["length"]][:]
        if lead_outside(begins, lengths, size):
            raise DamagedDatasetError(
                f"{self.path}: begin and length reach outside the {size} bytes of data"
            )
        return begins, lengths

    def _load_table(self) -> SampleTable:
        columns, count = self._layout.columns, len(self)
        with damage_named(self.path), open_file(self.path) as file:
            numbers = {
                name: file[columns[name]][:].reshape(-1)
                for name in ("labels", "checksums", "length")
                if name in columns
            }
        keys = KeyTable.deferred(
            lambda: KeyTable.from_texts(f"{index:08d}" for index in range(count))
        )
        return SampleTable(
            self._texts("keys") if "keys" in columns else keys,
            numbers.get("labels", np.full(count, UNLABELLED)).astype(np.int64),
            numbers.get("checksums", np.empty(0, np.uint64)),
            numbers.get("length", np.full(count, self.schema.pixel_bytes, np.int64)),
            self._texts("metadata") if "metadata" in columns else None,
        )

    def _texts(self, name: str) -> KeyTable:
        read, column = read_texts if self.manifest else read_foreign_keys, self._layout.columns

        def load() -> KeyTable:
            with damage_named(self.path), open_file(self.path) as file:
                return read(file[column[name]])

        return KeyTable.deferred(load)

    def spans(self, at_most: int) -> Sequence[range]:
        """Cut into nearly equal spans, at chunk borders where chunks are whole samples."""
        chunk = self._chunk or 1
        if self.schema.payload is Payload.ENCODED or chunk == 1:
            return super().spans(at_most)
        blocks = -(-len(self) // chunk)
        count = max(1, min(at_most, blocks))
        cuts = [min(blocks * cut // count * chunk, len(self)) for cut in range(count + 1)]
        return [range(begin, end) for begin, end in pairwise(cuts)]

    def describe(self) -> Mapping[str, Any]:
        """Return where the images lie and how they are stored."""
        ranges = self.schema.payload is Payload.ENCODED and not self._layout.ragged
        facts = {
            "array": self._layout.array,
            "chunk_bytes" if ranges else "chunk": self._chunk,
            **self._filters,
            "libver": self.manifest.layout.get("libver") if self.manifest else None,
            "notes": list(self._layout.remarks) or None,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}
