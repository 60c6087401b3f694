"""Reads HDF5 datasets, ours and those that others made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability
from fastdata_cli.errors import BadSampleError, DamagedDatasetError
from fastdata_cli.formats.base import Images, IndexedReader
from fastdata_cli.formats.hdf5.filters import describe_filters, require_filters
from fastdata_cli.formats.hdf5.layout import Layout, find_layout
from fastdata_cli.formats.hdf5.open import damage_named, open_file, reason
from fastdata_cli.formats.hdf5.rows import Rows, open_rows
from fastdata_cli.formats.hdf5.texts import read_foreign_keys, read_texts
from fastdata_cli.key_table import KeyTable
from fastdata_cli.options import Options, option
from fastdata_cli.sample import UNLABELLED, Payload
from fastdata_cli.storage.gather import arena_for
from fastdata_cli.storage.table import SampleTable


@dataclass(frozen=True, kw_only=True)
class Hdf5ReadOptions(Options):
    """Which of the arrays of a file is read."""

    array: str | None = option(
        None, "path of the image array inside the store; without it, found by shape and dtype"
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """The open file; ``rows`` unless the array is ragged, ranges for our encoded images."""

    file: Any
    rows: Rows | None
    begins: NDArray[np.int64] | None = None
    lengths: NDArray[np.int64] | None = None


class Hdf5Reader(IndexedReader[_Opened]):
    """Reads one array of images with the columns beside it."""

    options: Hdf5ReadOptions
    _layout: Layout

    def _start(self) -> None:
        with damage_named(self.path), open_file(self.path) as file:
            found = find_layout(file, self.path, self.options.array)
            self._layout, self.schema, self.manifest = found
            dataset = file[self._layout.array]
            require_filters(dataset)
            self._shape = dataset.shape
            self._chunk = dataset.chunks[0] if dataset.chunks else None
            self._filters = describe_filters(dataset)
        compressed = self._filters["codec"] != "none"
        if compressed and self.schema.payload is Payload.PIXELS and (self._chunk or 1) > 1:
            self.capabilities = Capability(0)

    def _open(self) -> _Opened:
        file = open_file(self.path)
        columns = self._layout.columns
        if self._layout.ragged:
            return _Opened(file, None)
        with damage_named(self.path):
            rows = open_rows(file, self._layout.array, self.path)
            if self.schema.payload is Payload.PIXELS:
                return _Opened(file, rows)
            begins, lengths = file[columns["begin"]][:], file[columns["length"]][:]
            # Each on its own first: the sum of two broken numbers may be a sound one.
            if min(begins.min(), lengths.min()) < 0 or (begins > self._shape[0] - lengths).any():
                size = self._shape[0]
                raise DamagedDatasetError(
                    f"{self.path}: begin and length reach outside the {size} bytes of data"
                )
            return _Opened(file, rows, begins, lengths)

    def _close(self, handle: _Opened) -> None:
        handle.file.close()

    def _load_table(self) -> SampleTable:
        columns, count = self._layout.columns, len(self)
        with damage_named(self.path), open_file(self.path) as file:
            read = read_texts if self.manifest else read_foreign_keys
            texts = {
                name: read(file[columns[name]]) for name in ("keys", "metadata") if name in columns
            }
            numbers = {
                name: file[columns[name]][:].reshape(-1)
                for name in ("labels", "checksums", "length")
                if name in columns
            }
        return SampleTable(
            texts.get("keys") or KeyTable.from_texts(f"{index:08d}" for index in range(count)),
            numbers.get("labels", np.full(count, UNLABELLED)).astype(np.int64),
            numbers.get("checksums", np.empty(0, np.uint64)),
            numbers.get("length", np.full(count, self.schema.pixel_bytes, np.int64)),
            texts.get("metadata"),
        )

    def _fetch(
        self, handle: _Opened, indices: NDArray[np.int64], out: NDArray[Any] | None
    ) -> Images:
        if handle.rows is None:
            return _fetch_ragged(handle.file[self._layout.array], indices, out)
        if handle.begins is None or handle.lengths is None:
            assert self.schema.image_shape is not None
            if out is None:
                out = np.empty((len(indices), *self.schema.image_shape), self.schema.dtype)
            rows = out.reshape(len(indices), *self._shape[1:])
            handle.rows.fetch(indices, np.ones(len(indices), np.int64), rows)
            return Images(out)
        lengths = handle.lengths[indices]
        offsets, arena = arena_for(lengths, out)
        handle.rows.fetch(handle.begins[indices], lengths, arena)
        return Images(arena, offsets)

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one encoded image, and read no more of it."""
        handle = self._handle.get()
        if handle.begins is None or handle.lengths is None or handle.rows is None:
            return super().head(index, size)
        chosen = self._checked([index])
        count = np.minimum(handle.lengths[chosen], size)
        start = np.empty(int(count[0]), np.uint8)
        handle.rows.fetch(handle.begins[chosen], count, start)
        return start

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


def _fetch_ragged(dataset: Any, indices: NDArray[np.int64], out: NDArray[Any] | None) -> Images:
    try:
        images = [dataset[index] for index in indices.tolist()]
    except (OSError, RuntimeError) as problem:
        raise BadSampleError(reason="corrupt", detail=reason(problem)) from problem
    lengths = np.array([len(image) for image in images], np.int64)
    offsets, arena = arena_for(lengths, out)
    if images:
        np.concatenate(images, out=arena[: offsets[-1]])
    return Images(arena, offsets)
