"""Reads Zarr stores, ours and those of others, through their chunk files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.formats.base import Images, IndexedReader
from fastdata_cli.formats.zarr.layout import ArrayLayout
from fastdata_cli.formats.zarr.options import NO_CODEC, SHUFFLES, SHUFFLES_V3, ZarrReadOptions
from fastdata_cli.formats.zarr.plain import DECODE_ERRORS
from fastdata_cli.formats.zarr.rows import (
    Rows,
    check_codecs,
    open_rows,
    read_foreign,
    read_numbers,
    read_texts,
)
from fastdata_cli.formats.zarr.store import Contents, read_contents
from fastdata_cli.key_table import KeyTable
from fastdata_cli.sample import UNLABELLED, Payload
from fastdata_cli.storage.gather import arena_for
from fastdata_cli.storage.table import SampleTable

_MOST_LOOKED_FOR = 20_000


@dataclass(frozen=True, slots=True)
class _Opened:
    """The images' rows: samples, or bytes and then where each image lies among them."""

    rows: Rows
    begins: NDArray[np.int64] | None = None
    lengths: NDArray[np.int64] | None = None


class ZarrReader(IndexedReader[_Opened]):
    """Reads one Zarr store."""

    _contents: Contents

    def _start(self) -> None:
        assert isinstance(self.options, ZarrReadOptions)
        self._contents = read_contents(self.path, self.options.array)
        self.schema, self.manifest = self._contents.schema, self._contents.manifest
        for layout in (self._contents.images, *self._contents.sides.values()):
            check_codecs(layout)
        rows = open_rows(self._contents.images)
        self.capabilities = Capability.RANDOM_ACCESS if rows.random else Capability(0)
        if self._contents.both_versions:
            self.notes = {"both-zarr-versions": 1}

    def _open(self) -> _Opened:
        rows = open_rows(self._contents.images)
        if self.schema.payload is Payload.PIXELS:
            return _Opened(rows)
        begins, lengths = self._numbers("begin"), self._numbers("length")
        ends = begins + lengths
        if (
            lengths.min(initial=0) < 0
            or begins.min(initial=0) < 0
            or ends.max(initial=0) > self._contents.images.shape[0]
        ):
            raise DamagedDatasetError(f"{self.path}: begin and length reach outside data")
        return _Opened(rows, begins, lengths)

    def _close(self, handle: _Opened) -> None:
        """Nothing to do: files close with the last user of the rows.

        Closing them here would take a lock, which in a forked child a lost thread may hold.
        """

    def _load_table(self) -> SampleTable:
        sides = self._contents.sides
        if self.manifest is None:
            return self._foreign_table()
        lengths = np.full(len(self), self.schema.pixel_bytes, np.int64)
        if self.schema.payload is Payload.ENCODED:
            lengths = self._numbers("length")
        return SampleTable(
            KeyTable.from_texts(read_texts(sides["keys"])),
            self._numbers("labels"),
            self._numbers("checksums"),
            lengths,
            KeyTable.from_texts(read_texts(sides["metadata"])) if "metadata" in sides else None,
        )

    def _foreign_table(self) -> SampleTable:
        sides, count = self._contents.sides, len(self)
        labels = np.full(count, UNLABELLED, np.int64)
        names: Iterator[str] = (f"{index:08d}" for index in range(count))
        try:
            if "labels" in sides:
                labels = read_foreign(sides["labels"]).astype(np.int64).reshape(-1)
            if "keys" in sides:
                names = map(_text, read_foreign(sides["keys"]).reshape(-1).tolist())
        except DECODE_ERRORS as problem:
            raise DamagedDatasetError(f"{self.path}: labels or keys: {problem}") from problem
        return SampleTable(
            KeyTable.from_keys(names),
            labels,
            np.empty(0, np.uint64),
            np.full(count, self.schema.pixel_bytes, np.int64),
        )

    def _fetch(
        self, handle: _Opened, indices: NDArray[np.int64], out: NDArray[Any] | None
    ) -> Images:
        if handle.begins is None or handle.lengths is None:
            shape = (len(indices), *(self.schema.image_shape or ()))
            images = np.empty(shape, self.schema.dtype) if out is None else out
            ones = np.ones(len(indices), np.int64)
            _read_runs(handle.rows, indices, ones, images.reshape(-1).view(np.uint8))
            return Images(images)
        lengths = handle.lengths[indices]
        offsets, arena = arena_for(lengths, out)
        _read_runs(handle.rows, handle.begins[indices], lengths, arena[: offsets[-1]])
        return Images(arena, offsets)

    def head(self, index: int, size: int) -> NDArray[np.uint8]:
        """Return the first bytes of one encoded image, and read no more of it."""
        handle = self._handle.get()
        if handle.begins is None or handle.lengths is None or not 0 <= index < len(self):
            return super().head(index, size)
        begin = int(handle.begins[index])
        found = np.empty(min(size, int(handle.lengths[index])), np.uint8)
        handle.rows.read(begin, begin + len(found), found)
        return found

    def spans(self, at_most: int) -> Sequence[range]:
        """Cut at the borders of chunk or shard files, where there are enough of them."""
        each = self._contents.images.file_shape[0]
        files = -(-len(self) // each)
        if self.schema.payload is Payload.ENCODED or files < at_most:
            return super().spans(at_most)
        cuts = [min(len(self), files * cut // at_most * each) for cut in range(at_most + 1)]
        return [range(begin, end) for begin, end in pairwise(cuts)]

    def files(self) -> Iterator[Path]:
        """Yield every file below the store, and first those of the images that are missing.

        Zarr itself reads a missing file as fill value. Of a store with more than 20,000 files of
        images only the first are looked for.
        """
        images = self._contents.images
        names = chain.from_iterable(map(images.row_files, images.file_rows))
        for name in islice(names, _MOST_LOOKED_FOR):
            if not os.path.exists(name):
                yield Path(name)
        yield from super().files()

    def describe(self) -> Mapping[str, Any]:
        """Return array, chunks, shards and codec."""
        images = self._contents.images
        encoded = self.schema.payload is Payload.ENCODED
        facts: dict[str, Any] = {
            "zarr_format": self._contents.zarr_format,
            "array": images.name,
            "chunk_bytes" if encoded else "chunk": images.chunk[0],
            **({} if images.shard is None else {"shard_samples": images.shard[0]}),
            **_compression(images),
        }
        remarks = [*self._contents.remarks]
        if self._contents.both_versions:
            remarks.append("metadata of zarr 2 and zarr 3 are both there: zarr 3 was read")
        return {**facts, "notes": remarks} if remarks else facts

    def _numbers(self, name: str) -> NDArray[Any]:
        return read_numbers(self._contents.sides[name])


def _read_runs(
    rows: Rows, begins: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    """Read ranges of rows into ``out``, end to end: in the order of the file, neighbours as one."""
    if not len(begins) or not lengths.any():
        return
    ends = np.cumsum(lengths)
    each = out.nbytes // int(ends[-1])
    order = np.argsort(begins, kind="stable")
    first, size, slot = begins[order], lengths[order], (ends - lengths)[order]
    apart = (first[1:] != first[:-1] + size[:-1]) | (slot[1:] != slot[:-1] + size[:-1])
    cuts = [0, *(np.flatnonzero(apart) + 1).tolist(), len(order)]
    firsts, slots, totals = first.tolist(), slot.tolist(), np.append(0, np.cumsum(size)).tolist()
    for cut, stop in pairwise(cuts):
        count, at = totals[stop] - totals[cut], slots[cut]
        rows.read(firsts[cut], firsts[cut] + count, out[at * each : (at + count) * each])


def _compression(images: ArrayLayout) -> dict[str, Any]:
    codecs = [codec for codec in images.codecs if codec["name"] != "bytes"]
    if not codecs:
        return {"codec": NO_CODEC}
    if len(codecs) > 1 or codecs[0]["name"] != "blosc":
        names = "+".join(codec["name"] for codec in codecs)
        level = codecs[-1].get("level")
        return {"codec": names} if level is None else {"codec": names, "level": level}
    blosc = codecs[0]
    words = dict(zip((*SHUFFLES_V3, *range(3)), SHUFFLES * 2, strict=True))
    return {
        "codec": blosc.get("cname"),
        "level": blosc.get("clevel"),
        "shuffle": words.get(blosc.get("shuffle"), "auto"),
    }


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)
