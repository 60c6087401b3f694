"""Rows of an array through zarr-python: whatever is not read from the files directly."""

from __future__ import annotations

import os
import warnings
from functools import partial
from typing import Any

import numpy as np

from fastdata_cli.errors import UnsupportedError
from fastdata_cli.extents import Bytes, Column, Window
from fastdata_cli.formats.codecs import DECODE_ERRORS
from fastdata_cli.formats.zarr.index import ABSENT, missing, read_shard_index
from fastdata_cli.formats.zarr.layout import ArrayLayout
from fastdata_cli.storage.decoded import DecodedChunks
from fastdata_cli.storage.gather import corrupt
from fastdata_cli.storage.mapping import MappedFile


class LibraryRows:
    """Reads through zarr-python what cannot be located, and what ours is compared with.

    Raises:
        UnsupportedError: a codec, or the dtype, is not known here.
    """

    def __init__(self, layout: ArrayLayout) -> None:
        if layout.shard is not None and layout.index_at_end is None:
            raise UnsupportedError(
                f"{layout.folder}: the index of its shards has codecs that are not read here",
                hint="bytes (little-endian) with crc32c is",
            )
        self._layout = layout
        self._array = open_array(layout)
        self._rows = layout.chunk[0]
        self._decoded = DecodedChunks()

    def read(self, start: int, stop: int, out: Bytes) -> None:
        """Fill ``out`` with rows ``start`` to ``stop``, each row of chunks decoded once.

        Raises:
            BadSampleError: a chunk is missing or corrupt.
        """
        done, each = 0, self._layout.row_bytes
        while start < stop:
            number, inside = divmod(start, self._rows)
            rows = min(self._layout.shape[0] - number * self._rows, self._rows)
            end = min(stop, start - inside + rows)
            size = (end - start) * each
            decode = partial(self._decode, number)
            with self._decoded.hold(number, rows * each, decode, wait=True) as band:
                assert band is not None, "it was waited for"
                out[done : done + size] = band.part(inside * each, size).array
            start, done = end, done + size

    def _decode(self, number: int, out: Window) -> None:
        self._check_present(number)
        begin = number * self._rows
        try:
            band = np.ascontiguousarray(self._array[begin : begin + self._rows])
        except DECODE_ERRORS as problem:
            raise corrupt(str(self._layout.folder), f"chunk {number}: {problem}") from problem
        native = band.astype(band.dtype.newbyteorder("="), copy=False)
        out.array[:] = native.reshape(-1).view(np.uint8)

    def _check_present(self, number: int) -> None:
        """Raise unless every chunk of this row is stored: the library reads holes as zeros."""
        layout = self._layout
        per_file = layout.file_shape[0] // layout.chunk[0]
        file_number, inside = divmod(number, per_file)
        for path in layout.row_files(file_number):
            if not os.path.exists(path):
                raise missing(f"{path} is not there")
            if layout.shard is not None and self._lacks(path, inside):
                raise missing(f"{path} lacks a chunk of row {number}")

    def _lacks(self, path: str, inside: int) -> bool:
        layout = self._layout
        assert layout.shard is not None
        grid = [whole // part for whole, part in zip(layout.shard, layout.chunk, strict=True)]
        index = read_shard_index(
            MappedFile(path), int(np.prod(grid)), at_end=bool(layout.index_at_end)
        )
        return bool((index.reshape(*grid, 2)[inside, ..., 0] == ABSENT).any())


class ZarrLibrary:
    """Images that are rows of an array, or runs of its rows, through zarr-python.

    Args:
        layout: of the array.
        runs: as of ``ChunkedImages``.
    """

    def __init__(self, layout: ArrayLayout, runs: tuple[Column, Column] | None = None) -> None:
        self._rows, self._runs = LibraryRows(layout), runs
        self._row_bytes = layout.row_bytes

    def images(self, indices: Column) -> list[Bytes]:
        """Return the images; read in their order in the array, so that a chunk is decoded once."""
        starts, counts = indices, np.ones_like(indices)
        if self._runs is not None:
            starts, counts = (column[indices] for column in self._runs)
        images = [np.empty(count * self._row_bytes, np.uint8) for count in counts.tolist()]
        for at in np.argsort(starts, kind="stable").tolist():
            start = int(starts[at])
            self._rows.read(start, start + int(counts[at]), images[at])
        return images

    def close(self) -> None:
        """Nothing to do: zarr-python keeps no file open."""


def open_array(layout: ArrayLayout) -> Any:
    """Open an array with zarr-python.

    Raises:
        UnsupportedError: a codec or the dtype is unknown to it.
    """
    import numcodecs
    import zarr
    from zarr.storage import LocalStore

    names = [codec["name"] for codec in layout.codecs if codec["name"] != "bytes"]
    try:
        for codec in layout.codecs:
            # Only asking for the codec itself tells that its library is not installed.
            name = codec["name"].removeprefix("numcodecs.")
            if name != "bytes" and (layout.zarr_format == 2 or name != codec["name"]):
                config = {key: value for key, value in codec.items() if key != "name"}
                numcodecs.get_codec({**config, "id": name})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of dtypes and codecs without a specification
            return zarr.open_array(
                LocalStore(layout.folder, read_only=True), mode="r", zarr_format=layout.zarr_format
            )
    except (ImportError, LookupError, ValueError, TypeError) as problem:
        raise UnsupportedError(
            f"{layout.folder}: the array {layout.label!r} needs a codec or dtype that is not "
            f"installed here: {', '.join(names) or layout.dtype} ({problem})",
            hint="install the library of that codec, or store the array with another",
        ) from problem
