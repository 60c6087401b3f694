"""Owns reading the images of ``.npy`` files through memory maps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdata_cli.contract import Capability
from fastdata_cli.errors import BadSampleError
from fastdata_cli.extents import Bytes, Column
from fastdata_cli.formats.axes import AxisOrder, layout_option
from fastdata_cli.formats.located import LocatedReader, StoredRanges
from fastdata_cli.formats.npy.arrays import Contents, examine, path_of
from fastdata_cli.formats.tree.classes import load_classes
from fastdata_cli.options import Options, option
from fastdata_cli.sample import Payload, Schema
from fastdata_cli.storage.labels import load_labels
from fastdata_cli.storage.mapping import FileMaps
from fastdata_cli.storage.table import SampleTable


@dataclass(frozen=True, kw_only=True)
class NpyReadOptions(Options):
    """How arrays are read."""

    layout: str | None = layout_option()
    labels: str | None = option(None, "CSV or JSONL file with the label of each image")
    classes: str | None = option(None, "file or dataset whose class numbering is used")


def _examine(path: Path, options: NpyReadOptions) -> Contents:
    return examine(
        path,
        AxisOrder.parse(options.layout) if options.layout else None,
        load_labels(Path(options.labels)) if options.labels else None,
        load_classes(Path(options.classes)) if options.classes else None,
    )


class NpyReader(LocatedReader):
    """Reads images one by one out of mapped arrays, as they are stored.

    It pickles with what it found, so that workers read what was listed and open no file for it.
    """

    capabilities = LocatedReader.capabilities | Capability.ZERO_COPY

    def __init__(
        self, path: Path, options: NpyReadOptions, contents: Contents | None = None
    ) -> None:
        self._contents = _examine(path, options) if contents is None else contents
        super().__init__(path, options)

    @property
    def order(self) -> AxisOrder:
        """The order of the axes of an image."""
        return self._contents.order

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.options, self._contents)

    def _start(self) -> None:
        found = self._contents
        self.rejects, self.notes = found.rejects, found.notes
        self.schema = Schema(
            payload=Payload.PIXELS,
            num_samples=len(found.begins),
            image_shape=found.shape,
            dtype=found.dtype.name,
            class_names=found.class_names,
        )

    def _open_locator(self) -> StoredRanges:
        found = self._contents
        lengths = np.broadcast_to(np.int64(self.schema.pixel_bytes), len(self))
        files = FileMaps(lambda number: os.fsdecode(path_of(found.root, found.files[number])))
        return StoredRanges(files, found.begins, lengths, found.firsts)

    def _open_library(self) -> _Numpy:
        return _Numpy(self._contents, self.schema)

    def _load_table(self) -> SampleTable:
        found = self._contents
        lengths = np.broadcast_to(np.int64(self.schema.pixel_bytes), len(self))
        return SampleTable(found.keys, found.labels, np.empty(0, np.uint64), lengths)

    def files(self) -> Iterator[Path]:
        """Yield the files that images are read from."""
        found = self._contents
        yield from (Path(os.fsdecode(path_of(found.root, key))) for key in found.files)

    def describe(self) -> Mapping[str, Any]:
        """Return how many files there are."""
        facts = {"files": len(self._contents.files), "codec": "none"}
        remarks = list(self._contents.remarks)
        return {**facts, "notes": remarks} if remarks else facts


class _Numpy:
    """Images through ``numpy.load``."""

    def __init__(self, contents: Contents, schema: Schema) -> None:
        self._contents, self._schema = contents, schema

    def images(self, indices: Column) -> list[Bytes]:
        files = np.searchsorted(self._contents.firsts, indices, "right") - 1
        inside = indices - self._contents.firsts[files]
        return [self._image(*each) for each in zip(files.tolist(), inside.tolist(), strict=True)]

    def close(self) -> None:
        """Nothing to do: a map is released with its last view."""

    def _image(self, file: int, number: int) -> Bytes:
        path = os.fsdecode(path_of(self._contents.root, self._contents.files[file]))
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            images = array.reshape(-1, *(self._schema.image_shape or ()))
            return np.ascontiguousarray(images[number]).reshape(-1).view(np.uint8)
        except (OSError, ValueError, IndexError) as problem:
            raise BadSampleError(reason="corrupt", detail=f"{path}: {problem}") from problem
