"""Writes an HDF5 dataset: one session per part, and one for what stands beside the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Part, PartLimits, Receipt, Target
from fastdata_cli.errors import StaleStagingError, UsageError
from fastdata_cli.formats.base import StagedWriter, manifest_text
from fastdata_cli.formats.hdf5_filters import Hdf5WriteOptions, creation_arguments
from fastdata_cli.formats.hdf5_layout import MANIFEST_NAME
from fastdata_cli.formats.hdf5_stage import LIBVER, roll_back, session
from fastdata_cli.keys import KeyTable, to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch, Payload
from fastdata_cli.storage.table import SampleTable

DATA_CHUNK = 256 << 10
"""Bytes in a chunk of encoded data: what a part wastes is half of that on average."""

_MOST_CHUNK_BYTES = (4 << 30) - 1
_PART_BYTES = 64 << 20
_PART_SAMPLES = 1024
_COLUMN_CHUNK = 16384


class Hdf5Writer(StagedWriter):
    """Appends parts, in order."""

    options: Hdf5WriteOptions
    _size = 0
    """Bytes of the staged file after the last session."""

    def __init__(self, target: Target, options: Hdf5WriteOptions) -> None:
        super().__init__(target, options)
        self._filters = creation_arguments(options)
        self.limits = _limits(target, options)

    @property
    def _encoded(self) -> bool:
        return self.schema.payload is Payload.ENCODED

    def _create(self) -> None:
        with self._session(-1, 0) as (file, _):
            if self._encoded:
                _create(file, "data", (0,), "uint8", DATA_CHUNK, **self._filters)
            else:
                shape, chunk = self.schema.image_shape or (), self.options.chunk or 1
                _create(file, "images", (0, *shape), self.schema.dtype, chunk, **self._filters)
        self._size = self.staging.item.stat().st_size

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        import h5py

        last = receipts[-1]
        self._size = int(last.facts["size"])
        try:
            if self.staging.item.stat().st_size < self._size:
                raise ValueError("the file is shorter than its last part")
            roll_back(self.staging.item, self._size, self._rollback, last.part.index)
            with h5py.File(self.staging.item, "r") as file:
                rows = len(file["data" if self._encoded else "images"])
            if not self._encoded and rows != last.part.start + last.part.samples:
                raise ValueError(f"{rows} images inside")
        except (OSError, ValueError, KeyError) as problem:
            raise StaleStagingError(
                f"{self.staging.root}: the unfinished run cannot be continued: {problem}",
                hint="delete this folder to start over",
                path=str(self.staging.root),
            ) from problem

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        if part.index in self.receipts:
            return self.receipts[part.index].facts
        with self._session(part.index - 1, self._size) as (file, staged):
            if self._encoded:
                start = _next_chunk(len(file["data"]))
                _append(file["data"], start, batch.images)
            else:
                _append(file["images"], part.start, batch.images)
            staged.check()
        self._size = self.staging.item.stat().st_size
        return {"size": self._size}

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        last = max(self.receipts, default=-1)
        with self._session(last, self._size) as (file, _):
            self._create_columns(file, table)
            class_names = [to_text(name) for name in manifest.schema.class_names]
            if class_names:
                file["labels"].attrs["class_names"] = np.array(class_names, _text_dtype())
            layout = {"libver": LIBVER, "array": "data" if self._encoded else "images"}
            text = manifest_text(manifest, layout)
            file.create_dataset(MANIFEST_NAME, data=text, dtype=_text_dtype(), track_times=False)

    def _release(self) -> None:
        """Nothing is open between sessions."""

    @property
    def _rollback(self) -> Path:
        return self.staging.root / "rollback.npz"

    def _session(self, part: int, size: int) -> AbstractContextManager[Any]:
        return session(self.staging.item, size, self._rollback, part)

    def _create_columns(self, file: Any, table: SampleTable) -> None:
        columns = {"labels": table.labels, "checksums": table.checksums}
        if self._encoded:
            columns["begin"] = self._begins(table.lengths)
            columns["length"] = table.lengths
        for name, values in columns.items():
            column = _create(file, name, (len(values),), values.dtype, _COLUMN_CHUNK)
            column[:] = values
        _create_texts(file, "keys", table.keys)
        if table.metadata is not None:
            _create_texts(file, "metadata", table.metadata)

    def _begins(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where each image begins: parts start on chunk borders, images lie end to end."""
        begins, at = np.empty_like(lengths), 0
        for receipt in self.in_order():
            rows = slice(receipt.part.start, receipt.part.start + receipt.part.samples)
            ends = at + np.cumsum(lengths[rows])
            begins[rows] = ends - lengths[rows]
            at = _next_chunk(int(ends[-1]))
        return begins


def _create(
    file: Any, name: str, shape: tuple[int, ...], dtype: Any, chunk: int, **filters: Any
) -> Any:
    """Create a dataset that can grow along its first axis, in chunks of whole rows."""
    return file.create_dataset(
        name,
        shape,
        dtype,
        maxshape=(None, *shape[1:]),
        chunks=(min(chunk, shape[0]) or chunk, *shape[1:]),
        # Nothing is read before it is written: fill values would only cost a second pass.
        fill_time="never" if dtype != _text_dtype() else "ifset",
        track_times=False,  # equal runs give equal bytes
        **filters,
    )


def _create_texts(file: Any, name: str, texts: KeyTable) -> None:
    column = _create(file, name, (len(texts),), _text_dtype(), _COLUMN_CHUNK)
    rest = texts.texts()
    for start in range(0, len(texts), _COLUMN_CHUNK):
        block = np.array(list(islice(rest, _COLUMN_CHUNK)), object)
        column[start : start + len(block)] = block


def _append(dataset: Any, start: int, rows: NDArray[Any]) -> None:
    dataset.resize(start + len(rows), axis=0)
    dataset[start:] = rows


def _text_dtype() -> Any:
    import h5py

    return h5py.string_dtype("utf-8")


def _next_chunk(size: int) -> int:
    return -(-size // DATA_CHUNK) * DATA_CHUNK


def _limits(target: Target, options: Hdf5WriteOptions) -> PartLimits:
    schema, chunk = target.manifest.schema, options.chunk
    if schema.payload is Payload.ENCODED:
        return PartLimits(chunk) if chunk else PartLimits(_PART_SAMPLES, _PART_BYTES)
    chunk_bytes = (chunk or 1) * schema.pixel_bytes
    if chunk_bytes > _MOST_CHUNK_BYTES:
        raise UsageError(
            f"a chunk of {chunk or 1} images has {chunk_bytes} bytes; HDF5 holds less than 4 GiB",
            hint=f"use --chunk {_MOST_CHUNK_BYTES // schema.pixel_bytes} or less",
        )
    chunks = min(_PART_BYTES // chunk_bytes, _PART_SAMPLES // (chunk or 1))
    return PartLimits(max(1, chunks) * (chunk or 1))
