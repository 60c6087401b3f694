"""Writes Zarr stores: metadata by zarr-python, chunk and shard files by ourselves.

A part of pixels is whole files, named for their place. How many chunks of bytes a part of encoded
images takes is known only once it is written, so its chunks wait under the number of the part and
get their place at the end: parts of either payload may be written in any order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Part, Receipt, Target
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.base import manifest_text
from fastdata_cli.formats.staged import StagedWriter
from fastdata_cli.formats.zarr.arrays import create_group, create_images, write_sides
from fastdata_cli.formats.zarr.compress import Blosc
from fastdata_cli.formats.zarr.index import ABSENT, shard_index
from fastdata_cli.formats.zarr.layout import chunk_key
from fastdata_cli.formats.zarr.options import NO_CODEC, ZarrWriteOptions, plan
from fastdata_cli.manifest import Manifest
from fastdata_cli.sample import Batch, Payload
from fastdata_cli.storage import durable
from fastdata_cli.storage.table import SampleTable


class ZarrWriter(StagedWriter):
    """Writes one Zarr store."""

    def __init__(self, target: Target, options: ZarrWriteOptions) -> None:
        super().__init__(target, options)
        self.plan = plan(options, self.schema)
        self.limits = self.plan.limits
        self._encoded = self.schema.payload is Payload.ENCODED
        item = 1 if self._encoded else np.dtype(self.schema.dtype).itemsize
        # Blocks of one sample each: readers can then decode single samples out of a large chunk.
        self._blosc = Blosc.of(self.plan, self.schema.pixel_bytes, item)
        self._images = self.staging.item / ("data" if self._encoded else "images")
        self._parts = self.staging.data / "parts"

    def _create(self) -> None:
        for folder in (self._images, self._parts):
            folder.mkdir(parents=True)

    def _holds(self, receipts: Sequence[Receipt]) -> bool:
        if not (self._images.is_dir() and self._parts.is_dir()):
            return False
        if self._encoded:
            return all(
                staged.exists() or final.exists() for staged, final in self._placings(receipts)
            )
        last = receipts[-1].part
        files = -(-(last.start + last.samples) // self._file_samples)
        return all(self._pixel_file(number).exists() for number in range(files))

    def _resume(self, receipts: Sequence[Receipt]) -> None:
        done = {f"{receipt.part.index:06d}" for receipt in receipts}
        for entry in self._parts.iterdir():
            if entry.name not in done:
                durable.remove(entry)
        if not self._encoded:
            last = receipts[-1].part
            self._drop_files_from(-(-(last.start + last.samples) // self._file_samples))

    def _store(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        if self._encoded:
            return self._store_encoded(part, batch)
        start = part.start
        if start % self._file_samples:
            raise ValueError(
                f"a part that begins at sample {start} cuts a file of {self._file_samples}"
            )
        files = []
        for begin in range(0, len(batch), self._file_samples):
            number = (start + begin) // self._file_samples
            path = self._pixel_file(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write_file(path, batch.images[begin : begin + self._file_samples])
            files.append(path)
        durable.sync_files(files, self._images)
        return {"files": len(files)}

    def _store_encoded(self, part: Part, batch: Batch) -> Mapping[str, Any]:
        folder = self._parts / f"{part.index:06d}"
        durable.remove(folder)
        folder.mkdir()
        arena = np.ascontiguousarray(batch.images).reshape(-1)
        if batch.offsets is not None:
            arena = arena[batch.offsets[0] : batch.offsets[-1]]
        files: list[Path] = []
        for begin in range(0, len(arena), self.plan.chunk):
            path = folder / str(len(files))
            self._write_chunk(path, arena[begin : begin + self.plan.chunk])
            files.append(path)
        durable.sync_files(files, self._parts)
        return {"files": len(files), "bytes": len(arena)}

    def _pixel_file(self, number: int) -> Path:
        return self._images / chunk_key(self.plan.zarr_format, number, 0, 0, 0)

    @property
    def _file_samples(self) -> int:
        return self.plan.shard or self.plan.chunk

    def _write_file(self, path: Path, images: NDArray[Any]) -> None:
        if self.plan.shard is None:
            self._write_chunk(path, images)
            return
        extents = np.full((self.plan.shard // self.plan.chunk, 2), ABSENT, np.uint64)
        offset = 0
        with open(path, "wb") as file:
            for number, begin in enumerate(range(0, len(images), self.plan.chunk)):
                stored = self._encode(images[begin : begin + self.plan.chunk])
                extents[number] = offset, len(stored)
                offset += file.write(stored)
            file.write(shard_index(extents))

    def _write_chunk(self, path: Path, rows: NDArray[Any]) -> None:
        with open(path, "wb") as file:
            if self.plan.codec == NO_CODEC:
                file.write(np.ascontiguousarray(rows).data)
                file.truncate(rows[:1].nbytes * self.plan.chunk)  # padded without taking space
            else:
                file.write(self._encode(rows))

    def _encode(self, rows: NDArray[Any]) -> bytes | memoryview:
        """Return the stored form of a chunk; a short one is filled with zeros."""
        rows = np.ascontiguousarray(rows)
        if len(rows) < self.plan.chunk:
            padded = np.zeros((self.plan.chunk, *rows.shape[1:]), rows.dtype)
            padded[: len(rows)] = rows
            rows = padded
        return rows.data.cast("B") if self.plan.codec == NO_CODEC else self._blosc.encode(rows)

    def _finish(self, manifest: Manifest, table: SampleTable) -> None:
        self._drop_metadata()
        schema, count = manifest.schema, len(table)
        columns: dict[str, NDArray[Any]] = {"labels": table.labels, "checksums": table.checksums}
        if self._encoded:
            begins, size = self._begins(table.lengths)
            columns |= {"begin": begins, "length": table.lengths}
            self._place_parts()
            shape: tuple[int, ...] = (size,)
        else:
            shape = (count, *(schema.image_shape or ()))
        texts = {"keys": table.keys}
        if table.metadata is not None:
            texts["metadata"] = table.metadata
        layout = {**self.plan.layout(schema), "metadata": table.metadata is not None}
        record = json.loads(manifest_text(manifest, layout))
        group = create_group(self.staging.item, self.plan.zarr_format, record, schema.class_names)
        create_images(group, self._images.name, shape, schema, self.plan, self._blosc)
        write_sides(group, columns, texts, schema.class_names)

    def _release(self) -> None:
        """Nothing stays open between parts."""

    def _begins(self, lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Return where each image begins in the data, and the length of the data."""
        begins = np.cumsum(lengths) - lengths
        chunks = size = 0
        for receipt in self.in_order():
            part = receipt.part
            rows = slice(part.start, part.start + part.samples)
            if part.samples:
                begins[rows] += chunks * self.plan.chunk - begins[part.start]
            size = chunks * self.plan.chunk + int(receipt.facts["bytes"])
            chunks += int(receipt.facts["files"])
        return begins, size

    def _place_parts(self) -> None:
        """Move the chunks of all parts to their places; what an earlier try moved stays."""
        (self._images / chunk_key(self.plan.zarr_format, 0)).parent.mkdir(exist_ok=True)
        for staged, final in self._placings(self.in_order()):
            if staged.exists():
                os.rename(staged, final)
            elif not final.exists():
                raise DamagedDatasetError(f"{staged} is missing from the unfinished run")

    def _placings(self, receipts: Sequence[Receipt]) -> Iterator[tuple[Path, Path]]:
        """Yield where each chunk of encoded images waits, and its place."""
        number = 0
        for receipt in receipts:
            for index in range(int(receipt.facts["files"])):
                staged = self._parts / f"{receipt.part.index:06d}" / str(index)
                yield staged, self._images / chunk_key(self.plan.zarr_format, number)
                number += 1

    def _drop_metadata(self) -> None:
        """Remove what an earlier try to finish wrote: all but the chunks of the images."""
        for entry in self.staging.item.iterdir():
            if entry != self._images:
                durable.remove(entry)
        for name in ("zarr.json", ".zarray", ".zattrs"):
            durable.remove(self._images / name)

    def _drop_files_from(self, number: int) -> None:
        for entry in self._images.glob("c/*" if self.plan.zarr_format == 3 else "*"):
            first = entry.name.partition(".")[0]
            if first.isdigit() and int(first) >= number:
                durable.remove(entry)
