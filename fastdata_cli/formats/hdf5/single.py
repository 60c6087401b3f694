"""Reads HDF5 files in which each image is a dataset of its own."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Capability
from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.axes import AxisOrder
from fastdata_cli.formats.hdf5.open import damage_named, open_file, reason
from fastdata_cli.formats.hdf5.pieces import Pieces, find_pieces
from fastdata_cli.formats.located import LocatedReader, StoredRanges
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_bytes
from fastdata_cli.options import Options
from fastdata_cli.storage.mapping import FileMaps, MappedFile
from fastdata_cli.storage.table import SampleTable


def open_pieces(path: Path, options: Options, order: AxisOrder | None) -> PiecesReader | None:
    """Return a reader of the images of a file, in the order of their paths; None without any."""
    with damage_named(path), open_file(path) as file:
        found = find_pieces(file, path, order)
    return None if found is None else PiecesReader(path, options, found)


class PiecesReader(LocatedReader):
    """Reads dataset after dataset. It pickles with what it found."""

    def __init__(self, path: Path, options: Options, pieces: Pieces) -> None:
        self._pieces = pieces
        super().__init__(path, options)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.options, self._pieces)

    @property
    def order(self) -> AxisOrder:
        """The order of the axes of an image."""
        return self._pieces.order

    def _start(self) -> None:
        found = self._pieces
        self.schema, self.rejects = found.schema, found.rejects
        self.notes = {"ignored-dataset": found.others} if found.others else {}
        if (found.begins < 0).any():
            self.capabilities &= ~Capability.LOCATE

    def _open_locator(self) -> StoredRanges:
        files = FileMaps.single(MappedFile(str(self.path)))
        return StoredRanges(files, self._pieces.begins, self._pieces.lengths)

    def _open_library(self) -> _Datasets:
        return _Datasets(self.path, self._pieces.keys)

    def _load_table(self) -> SampleTable:
        found = self._pieces
        return SampleTable(found.keys, found.labels, np.empty(0, np.uint64), found.lengths)

    def describe(self) -> Mapping[str, Any]:
        """Return that each image is a dataset."""
        return {"array": "a dataset an image", "datasets": len(self)}


def _require_written(dataset: Any, key: str) -> None:
    """Raise for what was never written, which HDF5 reads as fill values."""
    written = dataset.id.get_storage_size() > 0
    if written and dataset.chunks is not None:
        sides = zip(dataset.shape, dataset.chunks, strict=True)
        written = dataset.id.get_num_chunks() == prod(-(-side // chunk) for side, chunk in sides)
    if not written:
        raise BadSampleError(key=key, reason="missing", detail=f"/{key} was never written")


class _Datasets:
    """Images through h5py."""

    def __init__(self, path: Path, keys: KeyTable) -> None:
        self._file, self._keys = open_file(path), keys

    def images(self, indices: Column) -> list[Bytes]:
        return [self._image(self._keys[index]) for index in indices.tolist()]

    def close(self) -> None:
        self._file.close()

    def _image(self, key: str) -> Bytes:
        try:
            dataset = self._file[to_bytes(key)]
            _require_written(dataset, key)
            values = np.ascontiguousarray(dataset[()])
        except (OSError, RuntimeError, KeyError) as problem:
            raise BadSampleError(key=key, reason="corrupt", detail=reason(problem)) from problem
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        return native.reshape(-1).view(np.uint8)
