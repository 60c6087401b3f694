"""Writes an HDF5 dataset: one session per part, and one for what stands beside the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Part, PartLimits, Receipt, Target
from fastdata_cli.errors import StaleStagingError
from fastdata_cli.formats.base import manifest_text
from fastdata_cli.formats.hdf5.filters import Hdf5WriteOptions, creation_arguments
from fastdata_cli.formats.hdf5.layout import MANIFEST_NAME
from fastdata_cli.formats.hdf5.stage import LIBVER, roll_back, session
from fastdata_cli.formats.hdf5.texts import text_layout, write_texts
from fastdata_cli.formats.limits import require_fit
from fastdata_cli.formats.staged import StagedWriter, has_bytes
from fastdata_cli.key_table import KeyTable
from fastdata_cli.keys import to_text
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch, Payload, Schema
from fastdata_cli.storage.table import SampleTable

DATA_CHUNK = 256 << 10
"""Bytes in a chunk of encoded data: what a part wastes is half of that on average."""

_MOST_CHUNK_BYTES = (4 << 30) - 1
# Of more, the filter (H5Zlz4.c) would store the bytes as they are, and say nothing.
_MOST_LZ4_BYTES = (2 << 30) - 1
# What HDF5 knows of its chunks is read before the first of them, 3 to 9 seconds for a million.
# Where nothing is compressed a sample is read alone, so that small ones can share a chunk.
_DEFAULT_CHUNK_BYTES = 128 << 10
_PART_BYTES = 32 << 20
_PART_SAMPLES = 1024
_COLUMN_CHUNK = 16384


class Hdf5Writer(StagedWriter):
    """Appends parts, in order."""

    options: Hdf5WriteOptions

    def __init__(self, target: Target, options: Hdf5WriteOptions) -> None:
        super().__init__(target, options)
        self._chunk = _chunk(self.schema, options)
        self.limits = _limits(self.schema, options, self._chunk)
        self._filters = creation_arguments(options)
        self._encoded = self.schema.payload is Payload.ENCODED
        self._array = "data" if self._encoded else "images"
        self._size = 0  # bytes of the staged file after the last session

    def _create(self) -> None:
        shape = (0, *(self.schema.image_shape or ()))
        chunk = DATA_CHUNK if self._encoded else self._chunk
        with self._session(part=-1) as (file, _):
            _create_dataset(file, self._array, shape, self.schema.dtype, chunk, **self._filters)
        self._size = self.staging.item.stat().st_size

    def _holds(self, receipts: Sequence[Receipt]) -> bool:
        # Each part leaves what it replaced; without that its session may be there by halves.
        whole = has_bytes(self.staging.item, int(receipts[-1].facts["size"]))
        return whole and self._rollback.exists()

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        last = receipts[-1]
        self._size = int(last.facts["size"])
        try:
            roll_back(self.staging.item, self._size, self._rollback, last.part.index)
            self._check_rows(last.part)
        except (OSError, ValueError, KeyError) as problem:
            raise StaleStagingError(
                f"{self.staging.root}: the unfinished run cannot be continued: {problem}",
                hint="delete this folder to start over",
                path=str(self.staging.root),
            ) from problem

    def _check_rows(self, last: Part) -> None:
        import h5py

        with h5py.File(self.staging.item, "r") as file:
            rows = len(file[self._array])
        if not self._encoded and rows != last.start + last.samples:
            raise ValueError(f"it holds {rows} images, not {last.start + last.samples}")

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        if part.index in self.receipts:  # stored already, and a session would append it again
            return self.receipts[part.index].facts
        with self._session(part.index - 1) as (file, staged):
            array = file[self._array]
            start = _next_chunk(len(array)) if self._encoded else part.start
            array.resize(start + len(batch.images), axis=0)
            array[start:] = batch.images
            staged.check()
        self._size = self.staging.item.stat().st_size
        return {"size": self._size}

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        columns = {"labels": table.labels, "checksums": table.checksums}
        if self._encoded:
            columns |= {"begin": self._begins(table.lengths), "length": table.lengths}
        text = manifest_text(manifest, {"libver": LIBVER, "array": self._array})
        with self._session(max(self.receipts, default=-1)) as (file, _):
            for name, values in columns.items():
                _create_column(file, name, values)
            _create_texts(file, "keys", table.keys)
            if table.metadata is not None:
                _create_texts(file, "metadata", table.metadata)
            if manifest.schema.class_names:
                names = [to_text(name) for name in manifest.schema.class_names]
                file["labels"].attrs["class_names"] = names
            file.create_dataset(MANIFEST_NAME, data=np.bytes_(text.encode()), track_times=False)

    def _release(self) -> None:
        """Nothing is open between sessions."""

    @property
    def _rollback(self) -> Path:
        return self.staging.root / "rollback.npz"

    def _session(self, part: int) -> AbstractContextManager[Any]:
        return session(self.staging.item, self._size, self._rollback, part)

    def _begins(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where each image begins: parts start on chunk borders, images lie end to end."""
        begins, at = np.empty_like(lengths), 0
        for receipt in self.in_order():
            rows = slice(receipt.part.start, receipt.part.start + receipt.part.samples)
            ends = at + np.cumsum(lengths[rows])
            begins[rows] = ends - lengths[rows]
            at = _next_chunk(int(ends[-1]))
        return begins


def _create_dataset(
    file: Any, name: str, shape: tuple[int, ...], dtype: Any, chunk: int, **further: Any
) -> Any:
    """Create a dataset that can grow along its first axis, in chunks of whole rows."""
    # Nothing is read before it is written, so fill values would only cost a second pass; and no
    # times are kept, so that equal runs give equal bytes.
    defaults = {"fill_time": "never", "track_times": False}
    return file.create_dataset(
        name,
        shape,
        dtype,
        maxshape=(None, *shape[1:]),
        chunks=(min(chunk, shape[0]) or chunk, *shape[1:]),
        **{**defaults, **further},
    )


def _create_column(file: Any, name: str, values: NDArray[Any]) -> None:
    column = _create_dataset(file, name, values.shape, values.dtype, _COLUMN_CHUNK, fletcher32=True)
    column[:] = values


def _create_texts(file: Any, name: str, texts: KeyTable) -> None:
    dtype, chunk, further = text_layout(texts)
    write_texts(_create_dataset(file, name, (len(texts),), dtype, chunk, **further), texts)


def _next_chunk(size: int) -> int:
    return -(-size // DATA_CHUNK) * DATA_CHUNK


def _chunk(schema: Schema, options: Hdf5WriteOptions) -> int:
    """Return the samples of a chunk of pixels: without any filter, several where they are small."""
    filtered = (options.codec or "none") != "none" or (options.shuffle or "none") != "none"
    if options.chunk or filtered or not schema.pixel_bytes:
        return options.chunk or 1
    fitting = max(1, _DEFAULT_CHUNK_BYTES // schema.pixel_bytes)
    return int(1 << (fitting.bit_length() - 1))


def _limits(schema: Schema, options: Hdf5WriteOptions, chunk: int) -> PartLimits:
    if schema.payload is Payload.ENCODED:
        if options.chunk:
            return PartLimits(options.chunk)
        return PartLimits(_PART_SAMPLES, _PART_BYTES)
    chunk_bytes = chunk * schema.pixel_bytes
    require_fit(
        chunk, schema.pixel_bytes, _MOST_CHUNK_BYTES, "a chunk of HDF5 takes", flag="--chunk"
    )
    if options.codec == "lz4" and options.shuffle != "bit":
        require_fit(
            chunk,
            schema.pixel_bytes,
            _MOST_LZ4_BYTES,
            "the LZ4 filter takes",
            flag="--chunk",
            otherwise="--codec zstd",
        )
    chunks = min(_PART_BYTES // chunk_bytes, _PART_SAMPLES // chunk)
    return PartLimits(max(1, chunks) * chunk)
