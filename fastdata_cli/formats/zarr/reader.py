"""Reads Zarr stores, ours and those of others, through their chunk files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastdata_cli.contract import Capability
from fastdata_cli.errors import DamagedDatasetError
from fastdata_cli.extents import Column
from fastdata_cli.formats.axes import AxisOrder
from fastdata_cli.formats.chunked import ChunkedImages
from fastdata_cli.formats.located import LocatedReader
from fastdata_cli.formats.streams import DECODE_ERRORS
from fastdata_cli.formats.zarr.layout import ArrayLayout
from fastdata_cli.formats.zarr.library import ZarrLibrary
from fastdata_cli.formats.zarr.options import NO_CODEC, SHUFFLES, SHUFFLES_V3, ZarrReadOptions
from fastdata_cli.formats.zarr.rows import (
    check_codecs,
    is_located,
    locate_rows,
    read_foreign,
    read_numbers,
    read_texts,
)
from fastdata_cli.formats.zarr.store import Contents, read_contents
from fastdata_cli.key_table import KeyTable
from fastdata_cli.sample import UNLABELLED, Payload
from fastdata_cli.storage.table import SampleTable, lead_outside

_MOST_LOOKED_FOR = 20_000


class ZarrReader(LocatedReader):
    """Reads one Zarr store; images as they are stored, whatever the order of their axes."""

    _contents: Contents

    @property
    def order(self) -> AxisOrder:
        """The order of the axes of the images."""
        return self._contents.order

    def _start(self) -> None:
        assert isinstance(self.options, ZarrReadOptions)
        self._contents = read_contents(self.path, self.options.array, self.options.layout)
        self.schema, self.manifest = self._contents.schema, self._contents.manifest
        for layout in (self._contents.images, *self._contents.sides.values()):
            check_codecs(layout)
        images = self._contents.images
        located = is_located(images)
        if not located:
            self.capabilities &= ~Capability.LOCATE
        if not (images.chunk[0] == 1 or (located and _has_blocks(images))):
            self.capabilities &= ~Capability.RANDOM_ACCESS
        if self._contents.both_versions:
            self.notes = {"both-zarr-versions": 1}

    def _open_locator(self) -> ChunkedImages:
        return ChunkedImages(locate_rows(self._contents.images), self._runs())

    def _open_library(self) -> ZarrLibrary:
        return ZarrLibrary(self._contents.images, self._runs())

    def _runs(self) -> tuple[Column, Column] | None:
        """Return where each encoded image begins in the data, and its bytes; or a sole picture."""
        if self.schema.payload is Payload.PIXELS:
            if not self._contents.order.is_one:
                return None
            return np.array([0]), np.array([self._contents.images.shape[0]])
        begins, lengths = self._numbers("begin"), self._numbers("length")
        if lead_outside(begins, lengths, self._contents.images.shape[0]):
            raise DamagedDatasetError(f"{self.path}: begin and length reach outside data")
        return begins, lengths

    def _load_table(self) -> SampleTable:
        sides = self._contents.sides
        if self.manifest is None:
            return self._foreign_table()
        lengths = np.full(len(self), self.schema.pixel_bytes, np.int64)
        if self.schema.payload is Payload.ENCODED:
            lengths = self._numbers("length")
        return SampleTable(
            self._texts("keys"),
            self._numbers("labels"),
            self._numbers("checksums"),
            lengths,
            self._texts("metadata") if "metadata" in sides else None,
        )

    def _texts(self, name: str) -> KeyTable:
        side = self._contents.sides[name]
        return KeyTable.deferred(lambda: KeyTable.from_texts(read_texts(side)))

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

    def spans(self, at_most: int) -> Sequence[range]:
        """Cut at the borders of chunk or shard files, where there are enough of them."""
        each = self._contents.images.file_shape[0]
        files = -(-len(self) // each)
        if self.schema.payload is Payload.ENCODED or files < at_most:
            return super().spans(at_most)
        cuts = [min(len(self), files * cut // at_most * each) for cut in range(at_most + 1)]
        return [range(begin, end) for begin, end in pairwise(cuts)]

    def files(self) -> Iterator[Path]:
        """Yield every file of the store, and first those of the images that are missing.

        Zarr itself reads a missing file as fill value. Of a store with more than 20,000 files of
        images only the first are looked for.
        """
        images = self._contents.images
        names = chain.from_iterable(map(images.row_files, images.file_rows))
        for name in islice(names, _MOST_LOOKED_FOR):
            if not images.files.has(name):
                yield Path(images.files.path(name))
        yield from super().files()

    def describe(self) -> Mapping[str, Any]:
        """Return array, chunks, shards and codec."""
        images = self._contents.images
        encoded = self.schema.payload is Payload.ENCODED
        facts: dict[str, Any] = {
            "zarr_format": self._contents.zarr_format,
            **({} if self.path.is_dir() else {"store": "zip"}),
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


def _has_blocks(images: ArrayLayout) -> bool:
    """Return whether less than a chunk can be read of an array that can be located."""
    return images.compressor is None or images.compressor["name"] == "blosc"


def _compression(images: ArrayLayout) -> dict[str, Any]:
    codecs = [codec for codec in images.codecs if codec["name"] != "bytes"]
    if not codecs:
        return {"codec": NO_CODEC}
    if len(codecs) > 1 or codecs[0]["name"] != "blosc":
        names = "+".join(codec["name"] for codec in codecs)
        level = codecs[-1].get("level")
        return {"codec": names} if level is None else {"codec": names, "level": level}
    blosc = codecs[0]
    shuffle = blosc.get("shuffle")
    words = dict(zip((*SHUFFLES_V3, *range(3)), SHUFFLES * 2, strict=True))
    return {
        "codec": blosc.get("cname"),
        "level": blosc.get("clevel"),
        "shuffle": words.get(shuffle, "auto") if isinstance(shuffle, str | int) else "auto",
    }


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)
